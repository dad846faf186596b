# blocks.awk - takes the code blocks out of a Markdown page.
# SPDX-License-Identifier: Apache-2.0
#
# awk -v page=NAME -v out=DIR -f blocks.awk PAGE.md
#
# Each block of a language becomes DIR/NAME-LINE.LANGUAGE; a line "FILE LANGUAGE WORD REST" says
# what the comment before it asks for: <!-- file: hello.c -->, <!-- wrapper: plain -->,
# <!-- not run: it takes ten minutes --> or nothing ("-").

/^<!-- (file|wrapper|not run): .* -->$/ {
    word = $2
    rest = $0
    sub(/^<!-- (file|wrapper|not run): /, "", rest)
    sub(/ -->$/, "", rest)
    if (word == "not")
        word = "not-run"
    sub(/:$/, "", word)
    next
}

/^```/ {
    if (file != "") {
        close(file)
        file = ""
    } else if ($0 != "```" && !inside) {
        language = substr($0, 4)
        file = out "/" page "-" NR "." language
        printf "" >file
        print file, language, (word == "" ? "-" : word), rest
    } else {
        inside = !inside
    }
    word = rest = ""
    next
}

file != "" { print >file }
!/^$/ { word = file == "" ? "" : word }
