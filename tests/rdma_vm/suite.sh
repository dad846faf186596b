#!/usr/bin/env bash
# suite.sh - what must hold over real RDMA devices: runs in the machine of rdma_vm.sh.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: suite.sh BUILD_DIR [CASE...]
#
# A case is a function case_NAME below; all of them, in order, unless some are named.  What a case
# prints is shown when it fails.  Prints a line a case; exit status 1 where one failed.
# shellcheck disable=SC2317  # functions that are called by name
set -uo pipefail

build=$1
shift
here=$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
started=()

fail() { echo "$*"; return 1; }

# Starts a server that a case ends with it.
serve()
{
    "$@" >"$work/server.log" 2>&1 &
    started+=("$!")
}

end_started()
{
    local pid
    for pid in "${started[@]}"; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    started=()
}

# between COMMAND...: as a server on rxe1 and then as its client on rxe0; the client's word counts.
between()
{
    local tries
    serve "$@" -d rxe1
    for ((tries = 0; tries < 50; tries++)); do
        sleep 0.1
        timeout 40 "$@" -d rxe0 10.77.0.2 >"$work/client.log" 2>&1 && break
        grep -qiE "connect" "$work/client.log" || break # not listening yet
    done
    cat "$work/client.log"
    end_started
}

# ---- The machine itself --------------------------------------------------------------------------

case_devices()
{
    local h count
    count=$(ibv_devices | grep -c rxe)
    [[ $count -ge 2 ]] || fail "$count devices"
    for ((h = 0; h < count; h++)); do
        ibv_devinfo -d "rxe$h" | grep -q PORT_ACTIVE || fail "rxe$h has no active port" || return
    done
}

case_verbs() { "$build/tests/rdma_smoke" rxe0 rxe1; }

case_pingpong() { between ibv_rc_pingpong -g 1 -n 200 | tee /dev/stderr | grep -q 'usec/iter'; }

case_perftest()
{
    between ib_send_lat -x 1 -n 500 -s 8 | tee /dev/stderr | grep -qE '^ *8 +500' &&
        between ib_write_bw -x 1 -n 20 -s 1048576 | tee /dev/stderr | grep -qE '^ *1048576 +20'
}

case_loss()
{
    tc qdisc add dev eth0 root netem loss 1% &&
        "$build/tests/rdma_smoke" rxe0 rxe1
    local status=$?
    tc qdisc del dev eth0 root
    return "$status"
}

# ---- All of them ---------------------------------------------------------------------------------

run_case()
{
    local begin status
    begin=$(date +%s%N)
    "case_$1" >"$work/$1.log" 2>&1
    status=$?
    end_started
    if [[ $status -eq 77 ]]; then
        printf 'skipped %s: %s\n' "$1" "$(tail -n 1 "$work/$1.log")"
        return 0
    fi
    if [[ $status -ne 0 ]]; then
        printf 'FAILED %s\n' "$1"
        sed 's/^/  | /' "$work/$1.log"
        return 1
    fi
    printf 'ok %s (%d ms)\n' "$1" "$((($(date +%s%N) - begin) / 1000000))"
}

cases=("$@")
[[ ${#cases[@]} -gt 0 ]] ||
    mapfile -t cases < <(sed -n 's/^case_\([a-z_0-9]*\)().*/\1/p' "$here/suite.sh")
failed=0
for name in "${cases[@]}"; do
    declare -F "case_$name" >/dev/null || { echo "no case $name" >&2 && exit 2; }
    run_case "$name" || failed=1
done
rm -rf "$work"
exit "$failed"
