#!/bin/sh
# arm_kernels.sh - the kernels of 64-bit ARM, compiled for it and run in an emulator.
# SPDX-License-Identifier: Apache-2.0
#
# usage: arm_kernels.sh BUILD_DIR CMOCKA_ROOT [TEST...]
#
# Needs aarch64-linux-gnu-gcc and qemu-aarch64 (Debian: gcc-aarch64-linux-gnu, qemu-user), and
# cmocka for arm64 unpacked into CMOCKA_ROOT (dpkg -x of libcmocka0 and libcmocka-dev).  Compiles
# core and the tests of the kernels, no more: nothing else depends on the processor.
set -eu
build=$1 cmocka=$2
shift 2
[ $# -gt 0 ] || set -- test_reduce test_reduce_values test_exact_kernels test_exact_pairs
cd "$(dirname "$0")/.."
mkdir -p "$build/arm"
lib=$cmocka/usr/lib/aarch64-linux-gnu

compile()
{
    aarch64-linux-gnu-gcc -O2 -std=c11 -D_GNU_SOURCE -ffp-contract=off -fno-trapping-math \
        -Iinclude -Isrc -Itests -idirafter "$cmocka/usr/include" -Wall -Wextra "$@"
}

rm -f "$build"/arm/*.o
for source in src/core/*.c tests/support/reduce_oracle.c; do
    compile -c "$source" -o "$build/arm/$(basename "$source" .c).o"
done
for test in "$@"; do
    compile "tests/$test.c" "$build"/arm/*.o -o "$build/arm/$test" -L"$lib" -lcmocka -lm -lpthread
    qemu-aarch64 -L /usr/aarch64-linux-gnu \
        -E "LD_LIBRARY_PATH=$lib:/usr/aarch64-linux-gnu/lib" "$build/arm/$test"
done
