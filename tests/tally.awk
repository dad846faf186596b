# tally.awk - counts the cases in a ctest JUnit report, and shows what failed or was skipped.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: awk -v preset=NAME -v tally=FILE -f tally.awk tests.xml
#
# A program that speaks cmocka counts by its cases, any other one counts as one.  A program that
# ends badly without a failed case (it crashed, hung, or was never found) counts as one failure.
# Writes "passed failed skipped" to FILE.

function plain(text)
{
    gsub(/&lt;/, "<", text)
    gsub(/&gt;/, ">", text)
    gsub(/&quot;/, "\"", text)
    gsub(/&apos;/, "'", text)
    gsub(/&amp;/, "\\&", text)
    return text
}

function attribute(name,    found)
{
    if (!match($0, " " name "=\"[^\"]*\""))
        return ""
    found = substr($0, RSTART, RLENGTH)
    sub(/^[^"]*"/, "", found)
    sub(/"$/, "", found)
    return plain(found)
}

function skip(what)
{
    skipped++
    printf "skipped: %s: %s: %s\n", preset, what, reason == "" ? "no reason given" : reason
    reason = ""
}

# One line of a program's output.
function read_line(line)
{
    output = output line "\n"
    if (line ~ /^\[==========\] Running/)
        running = 1
    else if (line ~ /^\[==========\]/)
        running = 0
    if (match(line, /skipped: /))
        reason = substr(line, RSTART + RLENGTH)
    if (!running)
        return

    if (match(line, /\[ RUN      \] /))
        reason = ""
    else if (line ~ /\[       OK \] /)
        program_passed++
    else if (line ~ /\[  FAILED  \] /)
        program_failed++
    else if (match(line, /\[  SKIPPED \] /)) {
        program_skipped++
        skip(program ": " substr(line, RSTART + RLENGTH))
    }
}

function end_program()
{
    if (status == "run" && program_passed + program_failed + program_skipped == 0)
        program_passed = 1
    if (status == "notrun" && message ~ /SKIP_RETURN_CODE/)
        skip(program)
    else if (status != "run" && program_failed == 0)
        program_failed = 1

    passed += program_passed
    failed += program_failed
    if (program_failed > 0) {
        printf "---- %s: %s, after %.1f s\n", preset, program, seconds
        if (message != "")
            print message
        print output
        printf "failed: %s: %s: %d\n", preset, program, program_failed
    }
}

/^\t<testcase / {
    program = attribute("name")
    status = attribute("status")
    seconds = attribute("time")
    message = output = reason = ""
    running = program_passed = program_failed = program_skipped = 0
    next
}

/^\t\t<(failure|skipped) / {
    message = attribute("message")
    next
}

/^\t\t<system-out>/ {
    in_output = 1
    sub(/^\t\t<system-out>/, "")
}

in_output {
    if (sub(/<\/system-out>$/, ""))
        in_output = 0
    read_line(plain($0))
    next
}

/^\t<\/testcase>/ {
    programs++
    end_program()
}

END {
    if (programs == 0) {
        printf "failed: %s: no tests\n", preset
        failed++
    }
    printf "%d %d %d\n", passed, failed, skipped >tally
}
