#!/bin/sh
# check_install.sh - installs into an empty prefix, then builds and runs a program against it.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_install.sh BUILD_DIR C_COMPILER
#
# As users do it: by pkg-config with each of both libraries, by find_package with the shared one.

build_dir=$1
compiler=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# report NAME STATUS
report() {
    if [ "$2" -eq 0 ]; then
        echo "[       OK ] $1"
    else
        echo "[  FAILED  ] $1"
        failed=1
    fi
}

# Where nothing but the installation is known.
by_pkg_config() {
    export PKG_CONFIG_LIBDIR="$pkg_config_dir"
    # shellcheck disable=SC2046
    "$compiler" -o "$work/by_pkg_config" "$here/consumer.c" $(pkg-config --cflags --libs tcdist) &&
        "$work/by_pkg_config"
}

statically() {
    export PKG_CONFIG_LIBDIR="$pkg_config_dir"
    # shellcheck disable=SC2046
    "$compiler" -o "$work/statically" "$here/consumer.c" $(pkg-config --cflags tcdist) \
        $(pkg-config --static --libs tcdist | sed 's/-ltcdist /-l:libtcdist.a /') &&
        ! LC_ALL=C objdump -p "$work/statically" | grep 'NEEDED .*libtcdist' &&
        "$work/statically"
}

by_find_package() {
    cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_C_COMPILER="$compiler" \
        -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1 &&
        cmake --build "$work/build" >>"$work/log" 2>&1 &&
        "$work/build/consumer" && return 0
    cat "$work/log"
    return 1
}

echo '[==========] Running the installation.'
echo '[ RUN      ] install'
cmake --install "$build_dir" --prefix "$work/prefix" >"$work/log" 2>&1 || cat "$work/log"
pkg_config_dir=$(dirname "$(find "$work/prefix" -name tcdist.pc)")
test -f "$pkg_config_dir/tcdist.pc"
report install $?

LD_LIBRARY_PATH=$(dirname "$pkg_config_dir")
export LD_LIBRARY_PATH

echo '[ RUN      ] pkg-config'
by_pkg_config
report pkg-config $?

echo '[ RUN      ] static'
statically
report static $?

echo '[ RUN      ] find_package'
by_find_package
report find_package $?
echo '[==========] installation run.'
exit "$failed"
