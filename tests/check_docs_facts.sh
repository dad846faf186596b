#!/bin/bash
# check_docs_facts.sh - what the documentation says of names and messages is so in the source.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_docs_facts.sh SOURCE_DIR
#
#   docs/troubleshooting.md   each heading is a message of the source, with … for what changes
#   docs/tuning.md            has every variable that is read, and no other
#   docs/requirements.md      each tick names a test, each test that is named is there, and the
#                             boxes of a chapter are numbered from its own number and 1 on
#   docs/*.md, README.md      links lead to files that are there; docs/index.md has every page

set -u
cd "$1" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

say() {
    echo "$1"
    failed=1
}

# All string literals of the source, each in one piece, conversions as "…".
# PRIu64 and its like stand between two pieces.
find src -name '*.c' -exec cat {} + | tr '\n' ' ' |
    sed -E 's/" *PRI[A-Za-z0-9]+ *"/d/g; s/" +"//g; s/\\"/"/g
            s/%%/\x01/g; s/%[-0-9.*]*(ll|z|h)?[a-zA-Z]/…/g; s/\x01/%/g' >"$work/source"

while IFS= read -r heading; do
    message=${heading#\#\#\# \`}
    message=${message%\`}
    rest=$message
    while [[ -n $rest ]]; do
        piece=${rest%%…*}
        [[ $rest == *…* ]] && rest=${rest#*…} || rest=
        piece=${piece# }
        piece=${piece% }
        [[ ${#piece} -lt 4 ]] || grep -qF -- "$piece" "$work/source" ||
            say "docs/troubleshooting.md: no message has \"$piece\", of: $message"
    done
done < <(grep '^### `' docs/troubleshooting.md)

sed -n '/tci_environment\[\] = {/,/};/p' src/context/environment.c |
    grep -o '"TCDIST_[A-Z_]*"' | tr -d '"' | sort -u >"$work/read"
grep -o '`TCDIST_[A-Z_]*' docs/tuning.md | tr -d '`' | sort -u >"$work/told"
comm -23 "$work/read" "$work/told" >"$work/missing"
comm -13 "$work/read" "$work/told" >"$work/extra"
[[ ! -s $work/missing ]] || say "docs/tuning.md lacks: $(tr '\n' ' ' <"$work/missing")"
[[ ! -s $work/extra ]] || say "docs/tuning.md has what nothing reads: $(tr '\n' ' ' <"$work/extra")"

# shellcheck disable=SC2016
# Of docs/requirements.md: each test that is named is there, and each tick names one.
grep -oE '`(test_[a-z0-9_]+|tests/[a-z0-9_/.]+)`' docs/requirements.md | tr -d '`' | sort -u |
    while read -r name; do
        case $name in
        tests/*) [[ -e $name ]] ;;
        *) [[ -e tests/$name.c ]] ;;
        esac || echo "docs/requirements.md: there is no $name"
    done >"$work/tests"
[[ ! -s $work/tests ]] || say "$(cat "$work/tests")"
awk '/^- \[/ { if (item ~ /^- \[x\]/ && item !~ /`test/) print item; item = "" }
     /^- \[|^  / { item = item $0; next }
     { if (item ~ /^- \[x\]/ && item !~ /`test/) print item; item = "" }' \
    docs/requirements.md >"$work/bare"
[[ ! -s $work/bare ]] || say "docs/requirements.md: ticked without a test: $(cat "$work/bare")"

awk '/^## / { chapter = $2; next_box = 1 }
     /^- \[/ { want = "**" chapter "." next_box++ "**"
                if ($4 != want && $3 != want) print want }' \
    docs/requirements.md >"$work/numbers"
[[ ! -s $work/numbers ]] || say "docs/requirements.md lacks: $(tr '\n' ' ' <"$work/numbers")"

for page in README.md docs/*.md examples/*/README.md; do
    grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -v '^[a-z]*:' | while read -r link; do
        [[ -e $(dirname "$page")/$link ]] || echo "$page: nothing is at $link"
    done
done >"$work/links"
[[ ! -s $work/links ]] || say "$(cat "$work/links")"
for page in docs/*.md; do
    name=${page#docs/}
    [[ $name == index.md ]] || grep -qF "($name)" docs/index.md || say "docs/index.md lacks $name"
done
[[ $failed -ne 0 ]] || echo "messages, variables and links of the documentation are so"
exit "$failed"
