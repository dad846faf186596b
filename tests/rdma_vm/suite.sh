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

# ---- tcdist --------------------------------------------------------------------------------------

port=24000 log=error settings=() rdma=() shm=()

# ranks N COMMAND...: N ranks, each on the device of its number, that meet at rdma://.  Their output
# goes to $work/rank.N, their processes into pids; the caller waits.  log is what they say,
# settings[N] what else a rank wants of its device; rdma[N] and shm[N] stand for all of that, and
# for memory that ranks share.
ranks()
{
    local size=$1 r
    shift
    pids=()
    port=$((port + 1))
    for ((r = 0; r < size; r++)); do
        env TCDIST_RANK="$r" TCDIST_WORLD_SIZE="$size" TCDIST_RENDEZVOUS="rdma://10.77.0.1:$port" \
            TCDIST_RDMA="${rdma[r]-1,device=rxe$r${settings[r]-}}" TCDIST_SHM="${shm[r]-0}" \
            TCDIST_TIMEOUT=60 TCDIST_LOG="$log" timeout 60 "$@" >"$work/rank.$r" 2>&1 &
        pids+=("$!")
    done
    started+=("${pids[@]}")
}

# All of them, with exit status 0.
await_ranks()
{
    local r status=0
    for r in "${!pids[@]}"; do
        wait "${pids[r]}" || {
            echo "rank $r: exit status $?"
            cat "$work/rank.$r"
            status=1
        }
    done
    started=()
    return "$status"
}

# Packets that a device has sent.
sent() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"; }

perf=(tools/tcperf --loop manual --out-of-place --budget 0.02)

case_tcinfo()
{
    local listed
    listed=$(TCDIST_RDMA=1 "$build/tools/tcinfo") || return
    echo "$listed"
    [[ $(grep -c 'port 1: active, ethernet, RC, MTU 4096, software' <<<"$listed") -ge 2 ]] &&
        grep -q 'queue pairs: RC, UC' <<<"$listed" &&
        grep -q 'GID 1, RoCE v2, 10.77.0.1' <<<"$listed"
}

# note TEXT: shown with the case, also when it passes.
note() { printf '# %s\n' "$*" | tee -a "$work/notes"; }

# What must hold, in one boot: a small all-reduce in 1.5 round trips of ib_send_lat, and 0.8 of the
# rate of ib_write_bw with 8 MiB.  Figures are noted, and fail nothing: they are of an emulated
# machine whose processors others use, too.
case_latency()
{
    local theirs ours
    theirs=$(between ib_send_lat -x 1 -n 1000 -s 8 | awk '$1 == 8 { print 2 * $5 }')
    ranks 2 "$build/tests/rdma_latency" 1000
    await_ranks || return
    ours=$(sed -n 's/^all-reduce \([0-9.]*\) us.*/\1/p' "$work/rank.0")
    [[ -n $theirs && -n $ours ]] || fail "round trip '$theirs', $(<"$work/rank.0")" || return
    note "$(awk "BEGIN { printf \"round trip %.1f us, all-reduce %.1f us: %.2f times\", \
        $theirs, $ours, $ours / $theirs }")"
}

case_bandwidth()
{
    local theirs ours
    theirs=$(between ib_write_bw -x 1 -n 20 -s 8388608 | awk '$1 == 8388608 { print $4 }')
    ranks 2 "$build/${perf[0]}" "${perf[@]:1}" -b 8M -e 8M -n 20 --op broadcast
    await_ranks || return
    ours=$(awk '$1 == 8388608 { print 8e6 / $6 }' "$work/rank.0")
    [[ -n $theirs && -n $ours ]] || fail "ib_write_bw '$theirs', $(<"$work/rank.0")" || return
    note "$(awk "BEGIN { printf \"ib_write_bw %.1f MiB/s, 8 MiB %.1f MiB/s: %.2f times\", \
        $theirs, $ours, $ours / $theirs }")"
}

# Every element of every result is compared, and it was RDMA.
case_perf()
{
    local size before after
    for size in 2 4; do
        before=$(sent "rxe$((size - 1))")
        ranks "$size" "$build/${perf[0]}" "${perf[@]:1}" -b 8 -e 64K -f 8192 \
            --op allreduce,broadcast,alltoall
        await_ranks || return
        grep -q '^# wrong elements: 0' "$work/rank.0" || fail "$(<"$work/rank.0")" || return
        after=$(sent "rxe$((size - 1))")
        [[ $after -gt $((before + 100)) ]] || fail "$size ranks: $before, $after packets" || return
    done
}

# collectives SIZE...: the collective suite, all ranks on one device, against the plain loop whose
# bits are those of every transport.
collectives()
{
    local size
    for size in "$@"; do
        env TCDIST_SHM=0 TCDIST_RDMA=1 TCDIST_TEST_EFFORT=quick \
            CMOCKA_TEST_FILTER="*_${size}_ranks*" "$build/tests/test_collectives" || return
    done
}

case_collectives() { collectives 2 3 4; }

# The same sealed; with TCDIST_TEST_EFFORT=full in all sizes.
case_sealed()
{
    local -x TCDIST_KEY=0123456789abcdef0123456789abcdef TCDIST_ENCRYPTION=on
    local sizes=(2)
    [[ ${TCDIST_TEST_EFFORT:-} != full ]] || sizes=(2 3 4)
    case_perf && collectives "${sizes[@]}"
}

# The weights are those of TCP, bit for bit.
case_digits()
{
    local train=("$build/examples/digits" --data "$here/../../examples/digits/digits.csv.gz"
        --epochs 1 --hidden 64) before
    env TCDIST_SHM=0 TCDIST_RDMA=0 "$build/tools/tcrun" -n 3 -- \
        "${train[@]}" --weights "$work/tcp.weights" || return
    before=$(sent rxe2)
    ranks 3 "${train[@]}" --weights "$work/rdma.weights"
    await_ranks && cmp "$work/tcp.weights" "$work/rdma.weights" && [[ $(sent rxe2) -gt $before ]]
}

# gone RANK SECONDS WORDS: the others have ended, and said this.
gone()
{
    local r left=$(($2 * 10))
    for r in "${!pids[@]}"; do
        [[ $r -ne $1 ]] || continue
        while kill -0 "${pids[r]}" 2>/dev/null; do
            left=$((left - 1))
            [[ $left -gt 0 ]] || fail "rank $r has not ended: $(<"$work/rank.$r")" || return
            sleep 0.1
        done
        grep -q "$3" "$work/rank.$r" || fail "rank $r: $(<"$work/rank.$r")" || return
        ! wait "${pids[r]}" || fail "rank $r has noticed nothing" || return
    done
}

endless=("${perf[@]}" -b 4K -e 4K --op allreduce -n 1000000)

case_kill()
{
    ranks 3 "$build/${endless[0]}" "${endless[@]:1}"
    sleep 4
    pkill -KILL -P "${pids[1]}"
    gone 1 15 "peer_lost: .*rank 1 "
}

# plug N: the cable of eth N again, with the route that went with it.
plug()
{
    ip link set "eth$1" up &&
        ip route replace 10.77.0.0/24 dev "eth$1" src "10.77.0.$(($1 + 1))" table "$((100 + $1))"
}

# Objects of the kernel's that stand behind queue pairs, memory and open devices.
objects() { rdma resource show; }

# Ranks of a program that lives on: all that they had there goes with the group, and no descriptor,
# thread or memory stays with them.
case_killed()
{
    local before after
    before=$(objects)
    [[ -n $before ]] || fail "nothing is counted" || return
    env TCDIST_SHM=0 TCDIST_RDMA=1 CMOCKA_TEST_FILTER='a_killed_rank_*' \
        "$build/tests/test_kill" || return
    after=$(objects)
    [[ $before == "$after" ]] || fail "before: $before, after: $after"
}

# Each pair takes the best that both have: 0 and 1 share memory, 3 has neither that nor RDMA.
case_mixed()
{
    local line log=debug rdma=([3]=0) shm=(1 1)
    ranks 4 "$build/${perf[0]}" "${perf[@]:1}" -b 64K -e 64K --op allreduce,alltoall
    await_ranks || return
    grep -q '^# wrong elements: 0' "$work/rank.0" || fail "$(tail "$work/rank.0")" || return
    for line in 'rank 0: rank 1 is reached over shared memory,' \
        'rank 0: rank 2 is reached over RDMA, device rxe0,' \
        'rank 2: rank 1 is reached over RDMA, device rxe2,' \
        'rank 2: rank 3 is reached over tcp and not over RDMA: .* no RDMA device'; do
        grep -q "$line" "$work/rank.${line:5:1}" ||
            fail "not: $line: $(grep reached "$work/rank.${line:5:1}")" || return
    done
}

# Neither end can tell which one it is: they agree on one.
case_link_down()
{
    local status
    local -x TCDIST_HEAL=5
    ranks 2 "$build/${endless[0]}" "${endless[@]:1}"
    sleep 4
    ip link set eth1 down
    gone -1 40 'peer_lost: .*cannot be reached over RDMA any more'
    status=$?
    plug 1
    return "$status"
}

# Two seconds are more than the only queue pair waits for an acknowledgement: it is made again.
case_link_away()
{
    local r before left=300 log=info settings=(',retries=0' ',retries=0')
    before=$(sent rxe1)
    ranks 2 "$build/${perf[0]}" "${perf[@]:1}" -b 8M -e 8M --op allreduce --check 4 --budget 6
    while [[ $(sent rxe1) -lt $((before + 1500)) && $left -gt 0 ]]; do
        left=$((left - 1))
        sleep 0.1
    done
    ip link set eth1 down
    sleep 2
    plug 1 || return
    await_ranks || return
    for r in 0 1; do
        grep 'queue pair' "$work/rank.$r"
        grep -q 'the queue pair with rank [01] stands again' "$work/rank.$r" ||
            fail "rank $r: $(tail "$work/rank.$r")" || return
    done
    grep -q '^# wrong elements: 0' "$work/rank.0" || fail "$(tail "$work/rank.0")"
}

case_lossy()
{
    local status
    tc qdisc add dev eth0 root netem loss 0.5% || return
    ranks 2 "$build/${perf[0]}" "${perf[@]:1}" -b 8 -e 64K -f 8192 --op allreduce
    await_ranks && grep -q '^# wrong elements: 0' "$work/rank.0"
    status=$?
    tc qdisc del dev eth0 root
    return "$status"
}

# agree MTU: two ranks sum 64 KiB over RDMA, and both say that packets have so many bytes.
agree()
{
    local before r
    local -x log=debug
    before=$(sent rxe1)
    ranks 2 "$build/${perf[0]}" "${perf[@]:1}" -b 64K -e 64K --op allreduce
    await_ranks || return
    for r in 0 1; do
        grep -q "is reached over RDMA, .* in packets of $1 bytes" "$work/rank.$r" ||
            fail "rank $r: $(grep RDMA "$work/rank.$r")" || return
    done
    grep -q '^# wrong elements: 0' "$work/rank.0" || fail "$(tail "$work/rank.0")" || return
    [[ $(($(sent rxe1) - before)) -gt 100 ]] || fail "no packets"
}

# A switch between ports that differ, and one that takes less than both of them.
mtus()
{
    local listed settings=()
    ip link set eth1 mtu 1500 && listed=$(TCDIST_RDMA=1 "$build/tools/tcinfo") || return
    [[ $(grep -c 'port 1: active, ethernet, RC, MTU 1024, software' <<<"$listed") -eq 1 ]] ||
        fail "$listed" || return
    agree 1024 || return
    ip link set eth1 mtu 4200 || return
    settings=('' ',mtu=1024')
    agree 1024
}

case_mtu()
{
    local status
    ip link set port1 mtu 1500 || return
    mtus
    status=$?
    ip link set eth1 mtu 4200
    ip link set port1 mtu 4200
    return "$status"
}

# Queue pairs of kind UC: right where nothing is lost; where something is, it is found.
case_uc()
{
    local r status log=debug settings=(',service=uc' ',service=uc')
    ranks 2 "$build/${perf[0]}" "${perf[@]:1}" -b 8 -e 64K -f 8192 --op allreduce
    await_ranks && grep -q '^# wrong elements: 0' "$work/rank.0" || return
    for r in 0 1; do
        grep -q 'is reached over RDMA, .* UC$' "$work/rank.$r" || fail "rank $r: no UC" || return
    done
    log=error
    ranks 2 "$build/${endless[0]}" "${endless[@]:1}"
    sleep 4
    tc qdisc add dev eth0 root netem loss 2% || return
    gone -1 40 'peer_lost: .*was lost'
    status=$?
    tc qdisc del dev eth0 root
    return "$status"
}

# jaccl MATRIX COMMAND...: two ranks whose devices are said as mlx.launch says them.
jaccl()
{
    local r
    printf '%s\n' "$1" >"$work/devices.json"
    shift
    port=$((port + 1))
    pids=()
    for r in 0 1; do
        env MLX_RANK="$r" MLX_IBV_DEVICES="$work/devices.json" \
            MLX_JACCL_COORDINATOR="10.77.0.1:$port" TCDIST_SHM=0 TCDIST_TIMEOUT=60 TCDIST_LOG=warn \
            timeout 60 "$@" >"$work/rank.$r" 2>&1 &
        pids+=("$!")
    done
    started+=("${pids[@]}")
}

# more_than COUNT DEVICE BEFORE: so many packets were sent since.
more_than()
{
    [[ $(($(sent "$2") - $3)) -gt $1 ]] || fail "few packets over $2: $(<"$work/rank.0")"
}

# Two devices as two hosts.
case_jaccl()
{
    local before
    before=$(sent rxe1)
    jaccl '[[null, ["rxe0"]], ["rxe1", null]]' "$build/${perf[0]}" "${perf[@]:1}" \
        -b 64K -e 64K --op allreduce
    await_ranks && more_than 100 rxe1 "$before"
}

two_cables='[[null, ["rxe0", "rxe2"]], [["rxe1", "rxe3"], null]]'

case_cables()
{
    local before0 before2
    before0=$(sent rxe0) before2=$(sent rxe2)
    jaccl "$two_cables" "$build/${perf[0]}" "${perf[@]:1}" -b 2M -e 2M --op allreduce
    await_ranks && grep -q '^# wrong elements: 0' "$work/rank.0" &&
        more_than 100 rxe0 "$before0" && more_than 100 rxe2 "$before2"
}

# Messages go on over the other one.
case_cable_down()
{
    local left=300 status=0 before
    jaccl "$two_cables" "$build/${perf[0]}" "${perf[@]:1}" -b 2M -e 2M --op allreduce -n 1000000
    sleep 4
    ip link set eth3 down
    until grep -q 'a cable to rank [01] has failed (device rxe[23]' "$work/rank.0"; do
        left=$((left - 1))
        [[ $left -gt 0 ]] || break
        sleep 0.1
    done
    before=$(sent rxe0)
    sleep 2
    more_than 100 rxe0 "$before" && kill -0 "${pids[@]}" || status=1
    [[ $left -gt 0 ]] || fail "nothing was noticed: $(<"$work/rank.0")" || status=1
    ip link set eth3 up
    return "$status"
}

# ---- All of them ---------------------------------------------------------------------------------

run_case()
{
    local begin status
    : >"$work/notes"
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
    sed 's/^/  /' "$work/notes"
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
