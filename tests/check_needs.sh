#!/bin/sh
# check_needs.sh - a configuration that lacks libraries names the Debian packages that have them.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_needs.sh SOURCE_DIR

source_dir=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# configure NAME OPTION...: in an environment where pkg-config finds only what $work/NAME has.
configure() {
    name=$1
    shift
    mkdir -p "$work/$name/pc"
    if PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR="$work/$name/pc" cmake -S "$source_dir" \
        -B "$work/$name/build" -DTCDIST_TOOLS=OFF -DTCDIST_EXAMPLES=OFF -DTCDIST_BENCH=OFF "$@" \
        >"$work/$name/log" 2>&1; then
        echo "$name: the configuration succeeds without libraries"
        failed=1
    fi
}

# must_say NAME TEXT
must_say() {
    grep -qF -- "$2" "$work/$1/log" && return
    echo "$1: '$2' is not in:"
    cat "$work/$1/log"
    failed=1
}

# module NAME: as if it were installed.
module() {
    mkdir -p "$work/$1/pc"
    printf 'Name: %s\nDescription: none\nVersion: 99\n' "$2" >"$work/$1/pc/$2.pc"
}

configure all -DTCDIST_TESTS=ON
must_say all 'Not found: libevent_core, libsodium, cmocka'
must_say all 'sudo apt-get install libevent-dev libsodium-dev libcmocka-dev'
must_say all '-DTCDIST_TESTS=OFF does without'

module one libevent_core
configure one -DTCDIST_TESTS=OFF
must_say one 'Not found: libsodium'
must_say one 'sudo apt-get install libsodium-dev'

module header libevent_core
module header libsodium
configure header -DTCDIST_TESTS=OFF -Dtcdist_path_of_uthash.h=
must_say header 'Not found: uthash.h'
must_say header 'sudo apt-get install uthash-dev'

configure none -DTCDIST_TESTS=OFF -DPKG_CONFIG_EXECUTABLE=
must_say none 'sudo apt-get install pkgconf'

[ "$failed" -eq 0 ] && echo 'what is missing is named, and so is the package that has it'
exit "$failed"
