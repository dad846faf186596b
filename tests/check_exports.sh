#!/bin/sh
# check_exports.sh - compares what the shared library exports with the list that was agreed on.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_exports.sh SOURCE_DIR LIBRARY [--update]
#
# The list is cmake/exported.txt, sorted, one name a line.  With --update it is written anew.

source_dir=$1
library=$2
list=$source_dir/cmake/exported.txt
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

nm -D --defined-only "$library" | awk '$2 ~ /[TDBRVW]/ && $3 !~ /^_/ { print $3 }' |
    sort -u >"$work/exported"

# A declaration is TC_API up to its first "(".  A name that is only declared fails at the user's.
cat "$source_dir"/include/tcdist/*.h | grep -v '^#' | tr '\n' ' ' |
    grep -o 'TC_API [^;(]*(' | sed 's/.*[ *]\([a-z0-9_]*\)(/\1/' | sort -u >"$work/declared"

if [ "$3" = --update ]; then
    cp "$work/exported" "$list"
    echo "wrote $(wc -l <"$list") names to $list"
    exit 0
fi

failed=0

# compare LEFT RIGHT SENTENCE: names of LEFT that RIGHT lacks are a fault, told in SENTENCE.
compare() {
    comm -23 "$1" "$2" >"$work/difference"
    [ -s "$work/difference" ] || return 0
    echo "$3:"
    sed 's/^/    /' "$work/difference"
    failed=1
}

compare "$work/exported" "$list" 'exported and not in cmake/exported.txt'
compare "$list" "$work/exported" 'in cmake/exported.txt and not exported'
compare "$work/declared" "$work/exported" 'declared with TC_API and not in the library'
compare "$work/exported" "$work/declared" 'exported and in no public header'

if [ "$failed" -ne 0 ]; then
    echo "If the interface is meant to change, say so in CHANGELOG.md and update the list with"
    echo "    tests/check_exports.sh . build/release/libtcdist.so --update"
fi
exit "$failed"
