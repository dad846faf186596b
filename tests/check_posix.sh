#!/bin/sh
# check_posix.sh - builds the library with POSIX alone, proves that it is, and runs ranks with it.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_posix.sh SOURCE_DIR BUILD_DIR C_COMPILER [COMPILER_LAUNCHER]
#
# The build lies in BUILD_DIR/posix and is kept.
#
# Functions are called by name:
# shellcheck disable=SC2317

source_dir=$1
build_dir=$2
compiler=$3
launcher=$4
posix=$build_dir/posix
tests="test_future_threads test_loop test_loop_wait test_manual test_adapter_poll test_boot
    test_meet test_launch test_trace_file test_heal test_hasty test_fork test_collectives
    test_failure test_kill"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
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

# check NAME COMMAND...: what it says is shown where it fails.
check() {
    name=$1
    shift
    echo "[ RUN      ] $name"
    "$@" >"$work/log" 2>&1
    status=$?
    [ "$status" -eq 0 ] || tail -n 40 "$work/log"
    report "$name" "$status"
}

# shellcheck disable=SC2086
build() {
    cmake -S "$source_dir" -B "$posix" -G Ninja -DCMAKE_C_COMPILER="$compiler" \
        -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_C_FLAGS_DEBUG='-O1 -g0 -Werror=implicit-function-declaration' \
        -DTCDIST_POSIX_ONLY=ON &&
        cmake --build "$posix" --parallel 2 --target tcdist digits tcinfo $tests
}

# What excludes each other is said when it is configured, whether libibverbs is there or not.
rdma_is_refused() {
    cmake -S "$source_dir" -B "$work/refused" -G Ninja -DCMAKE_C_COMPILER="$compiler" \
        -DTCDIST_POSIX_ONLY=ON -DTCDIST_RDMA=ON >"$work/refused.log" 2>&1 && return 1
    cat "$work/refused.log"
    grep -q 'TCDIST_RDMA=ON and TCDIST_POSIX_ONLY=ON exclude each other' "$work/refused.log"
}

# ---- What it is made of ----

# The compiler shows what POSIX.1-2008 declares, and no more (_POSIX_C_SOURCE), in the headers that
# are included.  So these must be POSIX's, C's, those of libraries, or such of a processor.
# <sys/uio.h> is of its X/Open part.
no_other_header() {
    sed -n 's/^ *"file": "\(.*\/src\/.*\.c\)",\{0,1\}$/\1/p' "$posix/compile_commands.json" \
        >"$work/compiled"
    find "$source_dir/src" -name '*.h' ! -path '*/rdma/*' >>"$work/compiled"
    [ "$(wc -l <"$work/compiled")" -gt 200 ] || return 1
    tr '\n' '\0' <"$work/compiled" |
        xargs -0 grep -n '^#include <' |
        grep -v -E '<(arpa/inet|assert|ctype|dirent|dlfcn|errno|fcntl|float|inttypes|limits)\.h>' |
        grep -v -E '<(math|net/if|netdb|netinet/(in|tcp)|poll|pthread|sched|signal)\.h>' |
        grep -v -E '<(std(arg|atomic|bool|def|int|io|lib)|string|strings|time|unistd)\.h>' |
        grep -v -E '<sys/(mman|select|socket|stat|time|types|uio|un|utsname|wait)\.h>' |
        grep -v -E '<(event2/event|sodium|uthash|cjson/cJSON|hiredis/hiredis|curl/curl|pmix)\.h>' |
        grep -v -E '<(cpuid|emmintrin|immintrin|arm_neon)\.h>' >"$work/others"
    cat "$work/others"
    [ ! -s "$work/others" ]
}

linux='epoll_|eventfd|timerfd_|signalfd|inotify_|memfd_|fallocate|madvise|accept4|pipe2|dup3|ppoll'
linux="$linux|getrandom|syscall|ioctl|prctl|process_vm_|pidfd_|sched_[gs]etaffinity|__sched_"
linux="$linux|pthread_.*_np|getifaddrs|sendfile|splice|tee|sendmmsg|recvmmsg|environ_np"

imports() {
    nm -D --undefined-only "$1" | awk '{ sub(/@.*/, "", $2); print $2 }' | grep -E "^($linux)"
}

no_call_of_linux() {
    imports "$posix/libtcdist.so" && return 1
    return 0
}

# The same list finds them where they are.
calls_are_seen() {
    [ "$(imports "$build_dir/libtcdist.so" | wc -l)" -ge 10 ]
}

tcinfo_tells() {
    "$posix/tools/tcinfo" | grep -q 'go over TCP: the system lacks what sharing memory takes' &&
        "$posix/tools/tcinfo" | grep -q 'no RDMA'
}

# ---- What it does ----

run_tests() {
    for name in $tests; do
        filter='*'
        [ "$name" = test_collectives ] && filter='*3_ranks*'
        check "$name" env TCDIST_TEST_EFFORT=quick CMOCKA_TEST_FILTER="$filter" "$posix/tests/$name"
    done
}

# group RANKS OTHER: a group trains; rank 1 is of the folder OTHER.
group() {
    rm -f "$work"/weights.* "$work/meet"
    rank=0
    pids=
    while [ "$rank" -lt "$1" ]; do
        from=$posix
        [ "$rank" -eq 1 ] && from=$2
        TCDIST_RANK=$rank TCDIST_WORLD_SIZE=$1 TCDIST_TIMEOUT=60 \
            TCDIST_RENDEZVOUS=file://$work/meet \
            "$from/examples/digits" --epochs=2 --data="$source_dir/examples/digits/digits.csv.gz" \
            --weights="$work/weights.$rank" &
        pids="$pids $!"
        rank=$((rank + 1))
    done
    status=0
    for pid in $pids; do
        wait "$pid" || status=1
    done
    return "$status"
}

# The weights are the same bits whoever is of which build.
groups_agree() {
    group 4 "$posix" && cp "$work/weights.0" "$work/posix" && group 4 "$build_dir" &&
        cmp "$work/posix" "$work/weights.0"
}

echo '[==========] Running POSIX alone.'
check rdma_beside_it_is_refused rdma_is_refused
check it_builds_with_posix_alone build
if [ "$failed" -eq 0 ]; then
    check headers_are_of_posix no_other_header
    check calls_of_linux_are_not_made no_call_of_linux
    check calls_of_linux_are_seen_elsewhere calls_are_seen
    check tcinfo_tells_what_is_missing tcinfo_tells
    check four_ranks_train_as_with_one_of_linux groups_agree
    run_tests
fi
echo '[==========] POSIX alone run.'
exit "$failed"
