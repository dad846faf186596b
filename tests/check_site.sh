#!/bin/bash
# check_site.sh - the site of the documentation is made, and its links lead somewhere.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_site.sh SOURCE_DIR

set -u
cd "$1" || exit 1
command -v doxygen mandoc >/dev/null || {
    echo "skipped: no doxygen or no mandoc here"
    exit 77
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

./dev docs "$work" >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
cd "$work/html" || exit 1
for page in md_*.html index.html man/*.html; do
    grep -oE 'href="[^"#]+' "$page" | sed 's/^href="//' | grep -v '^[a-z]*:' | sort -u |
        while read -r link; do
            [[ -e ${page%"${page##*/}"}$link ]] || echo "$page: nothing is at $link"
        done
done >"$work/links"
if [[ -s $work/links ]]; then
    cat "$work/links"
    failed=1
fi
if grep -n '&lt;tt&gt;' ./*.html; then
    echo "the marks of code are shown as text"
    failed=1
fi
pages=(md_*.html)
echo "${#pages[@]} pages"
exit "$failed"
