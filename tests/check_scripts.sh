#!/bin/sh
# check_scripts.sh - shellcheck over every shell script of the tree.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_scripts.sh SOURCE_DIR

cd "$1" || exit 1
if ! command -v shellcheck >/dev/null; then
    echo 'skipped: shellcheck is not installed'
    exit 77
fi

for folder in tests tools examples bench cmake docs; do
    [ ! -d "$folder" ] || find "$folder" -name '*.sh'
done | xargs shellcheck dev .ci/run
