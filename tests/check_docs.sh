#!/bin/bash
# check_docs.sh - compiles and runs every code block of the documentation.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_docs.sh SOURCE_DIR BUILD_DIR C_COMPILER [PAGE...]
#
# The library is installed into a scratch prefix, and each page has a folder of its own, in which
# its blocks are taken one after the other, as a reader does:
#
#   a C block with main()          compiled with all warnings, run on two ranks by tcrun
#   <!-- file: hello.c -->         the block is that file, for the sh blocks behind it
#   <!-- wrapper: NAME -->         a part of a program: put into tests/docs/NAME.c.in, compiled and
#                                  run on two ranks; without the comment it is put into group.c.in.
#                                  A wrapper of inner parts says that it is compiled, not linked.
#   a sh block                     run by sh -eu; examples, and build/release, are there
#   <!-- not run: WHY -->          compiled, or looked at by sh -n, but not run

set -u
source_dir=$(cd "$1" && pwd)
build_dir=$(cd "$2" && pwd)
compiler=$3
shift 3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
blocks=0
not_run=0

say_failed() {
    echo "[  FAILED  ] $1: $2"
    sed 's/^/    /' "$work/log" | tail -n 30
    failed=1
}

# compile FILE PROGRAM
compile() {
    # shellcheck disable=SC2046
    "$compiler" -std=gnu11 -Wall -Wextra -Werror -o "$2" "$1" \
        $(pkg-config --cflags --libs tcdist) -lm >"$work/log" 2>&1
}

# take_c FILE WORD REST: a program, or a part of one.
take_c() {
    local file=$1 word=$2 rest=$3 wrapper=group
    if [[ $word == file ]]; then
        cp "$file" "$folder/$rest"
        return 0
    fi
    if ! grep -q '^int main(' "$file"; then
        [[ $word != wrapper ]] || wrapper=$rest
        sed -e "/^@block@/{r $file
d}" "$source_dir/tests/docs/$wrapper.c.in" >"$file.whole.c" || return 1
        file=$file.whole.c
    fi
    if head -n 1 "$file" | grep -q 'compiled, not linked'; then
        "$compiler" -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -D_GNU_SOURCE \
            -I"$source_dir/include" -I"$source_dir/src" -I"$source_dir/tests" \
            "$file" >"$work/log" 2>&1
        return
    fi
    compile "$file" "$file.program" || return 1
    [[ $word != not-run ]] || return 0
    (cd "$folder" && timeout 100 tcrun -n 2 -- "$file.program") >"$work/log" 2>&1
}

# take_sh FILE WORD
take_sh() {
    if [[ $2 == not-run ]]; then
        bash -n "$1" >"$work/log" 2>&1
        return
    fi
    (cd "$folder" && timeout 100 sh -eu "$1") >"$work/log" 2>&1
}

cmake --install "$build_dir" --prefix "$work/prefix" >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
pkg_config_dir=$(dirname "$(find "$work/prefix" -name tcdist.pc)")
export PKG_CONFIG_PATH=$pkg_config_dir
LD_LIBRARY_PATH=$(dirname "$pkg_config_dir")
export LD_LIBRARY_PATH
export PATH=$work/prefix/bin:$build_dir/tools:$PATH

if [[ $# -eq 0 ]]; then
    set -- "$source_dir"/README.md "$source_dir"/docs/*.md "$source_dir"/examples/*/README.md
fi
for page in "$@"; do
    name=$(basename "$(dirname "$page")")-$(basename "$page" .md)
    folder=$work/$name
    mkdir -p "$folder/build"
    ln -sfn "$source_dir/examples" "$folder/examples"
    ln -sfn "$build_dir" "$folder/build/release"
    awk -v page="$name" -v out="$work" -f "$source_dir/tests/docs/blocks.awk" "$page" >"$work/list"
    while read -r file language word rest; do
        [[ $language == c || $language == sh ]] || continue
        at=$(basename "$file" ".$language")
        at=${page#"$source_dir"/}:${at##*-}
        blocks=$((blocks + 1))
        if [[ $word == not-run ]]; then
            echo "not run: $at: $rest"
            not_run=$((not_run + 1))
        fi
        "take_$language" "$file" "$word" "$rest" </dev/null || say_failed "$at" "$word $rest"
    done <"$work/list"
done
echo "$blocks code blocks, $not_run of them not run"
[[ $blocks -gt 0 && $failed -eq 0 ]]
