#!/bin/sh
# check_headers.sh - compiles every public header alone, as C99, C11 and C++11.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_headers.sh SOURCE_DIR
#
# One case a header and language, with each compiler that is here.  An adapter whose host library
# is not installed is reported as skipped.

source_dir=$1
include_dir=$source_dir/include
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# Flags of the host libraries that adapters include; as system headers, their warnings are not ours.
host_flags=$(
    for package in glib-2.0 libuv libevent_core; do
        pkg-config --cflags-only-I "$package" 2>/dev/null
    done | sed 's/-I/-isystem /g' | tr '\n' ' '
)

# missing_host HEADER: prints the first <...> header that HEADER includes and that is not here.
missing_host() {
    sed -n 's/^#include <\(.*\)>.*/\1/p' "$include_dir/$1" | while read -r name; do
        # shellcheck disable=SC2086
        echo "#include <$name>" | cc $host_flags -E -x c - >/dev/null 2>&1 || echo "$name"
    done | head -n 1
}

# compile COMPILER LANGUAGE STANDARD HEADER
compile() {
    # An empty unit is an error of its own.  Host libraries ask for more than the bare standard.
    # shellcheck disable=SC2086
    printf '#include "%s"\ntypedef int tc_not_empty;\n' "$4" |
        "$1" -x "$2" -std="$3" $posix -pedantic-errors -Wall -Wextra -Wundef -Werror -fsyntax-only \
            -I"$include_dir" $host_flags - >>"$work/log" 2>&1
}

# check HEADER LANGUAGE STANDARD COMPILER...
check() {
    header=$1 language=$2 standard=$3
    shift 3
    case $header in
    */adapters/poll.h) posix= ;;
    */adapters/*) posix=-D_GNU_SOURCE ;;
    *) posix= ;;
    esac
    : >"$work/log"
    verdict='      OK'
    for compiler in "$@"; do
        command -v "$compiler" >/dev/null || continue
        compile "$compiler" "$language" "$standard" "$header" || verdict=' FAILED '
    done
    echo "[ RUN      ] $header as $standard"
    if [ "$verdict" = ' FAILED ' ]; then
        cat "$work/log"
        failed=$((failed + 1))
        echo "$header does not compile alone as $standard:"
        echo "include what it uses, and keep to that language"
    fi
    echo "[ $verdict ] $header as $standard"
}

echo '[==========] Running the headers.'
cd "$include_dir" || exit 1
for header in tcdist/*.h tcdist/adapters/*.h tcdist/compat/*/*.h; do
    [ -e "$header" ] || continue
    host=$(missing_host "$header")
    if [ -n "$host" ]; then
        echo "[ RUN      ] $header"
        echo "skipped: <$host> is not installed"
        echo "[  SKIPPED ] $header"
        continue
    fi
    check "$header" c c99 gcc clang
    check "$header" c c11 gcc clang
    check "$header" c++ c++11 g++ clang++
done
echo '[==========] headers run.'
[ "$failed" -eq 0 ]
