#!/bin/bash
# two_hosts.sh - what is chosen between two hosts with a slow cable, beside each algorithm by name.
# SPDX-License-Identifier: Apache-2.0
#
# usage: two_hosts.sh BUILD_DIR [RATE [NUMERICS [MAX_BYTES]]]      (100mbit fast 1M)
#
# The hosts are network namespaces of this machine, with two ranks each and a cable of RATE between
# them; so it needs root, and iproute2.  Each line: the time of what the library chose and of the
# fastest algorithm, in microseconds.  Exit code 77: this machine has no such namespaces.
set -eu
build=$1 rate=${2:-100mbit} numerics=${3:-fast} max=${4:-1M}
a=tcdist-a-$$ b=tcdist-b-$$
work=$(mktemp -d)

skip() { echo "skipped: $*"; exit 77; }
end()
{
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
for tool in ip tc; do
    command -v "$tool" >/dev/null || skip "needs $tool, of iproute2"
done
for name in "$a" "$b"; do
    ip netns add "$name" 2>/dev/null || skip "no network namespaces here"
done
ip -n "$a" link add cable type veth peer name cable netns "$b" || skip "no veth devices here"
host()
{
    ip -n "$1" addr add "$2/24" dev cable
    ip -n "$1" link set lo up
    ip -n "$1" link set cable up
    ip netns exec "$1" tc qdisc add dev cable root tbf rate "$rate" burst 64kb latency 50ms ||
        skip "no token bucket filter here"
}
host "$a" 10.77.1.1
host "$b" 10.77.1.2

# measure ARGUMENT...: tcperf on four ranks, two a host; rank 0's output is the CSV.
measure()
{
    local rank where pids=() status=0 port
    port=$((20000 + RANDOM % 10000))
    for rank in 0 1 2 3; do
        where=$a
        [ "$rank" -lt 2 ] || where=$b
        ip netns exec "$where" env TCDIST_RANK="$rank" TCDIST_WORLD_SIZE=4 \
            TCDIST_RENDEZVOUS="tcp://10.77.1.1:$port" "$build/tools/tcperf" \
            --numerics="$numerics" --op=allreduce,broadcast,allgather -b 64 -e "$max" -f 16 \
            --in-place --warmup 2 "$@" >"$work/out.$rank" 2>"$work/err.$rank" &
        pids+=($!)
    done
    for rank in 0 1 2 3; do
        wait "${pids[$rank]}" || { status=$?; cat "$work/err.$rank" >&2; }
    done
    return "$status"
}

measure --csv "$work/chosen.csv" --budget 0.3
measure --tune "$work/table.json" --csv "$work/each.csv" --budget 0.1
awk -F, -v numerics="$numerics" '
    FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { key = $at["operation"] " " $at["bytes"]; us = $at["time_us"] + 0; name = $at["algorithm"] }
    NR == FNR { chosen[key] = name; took[key] = us; order[++count] = key; next }
    # Sums in any order are measured, too.
    key ~ /^allreduce/ && numerics != "fast" &&
        name !~ /^(oneshot|direct|centralized|wide_chain)$/ { next }
    !(key in best) || us < best[key] { best[key] = us; by[key] = name }
    END {
        for (i = 1; i <= count; i++) {
            key = order[i]
            printf "%-22s %s: chosen %s %.0f us, fastest %s %.0f us, ratio %.2f\n", key, numerics,
                chosen[key], took[key], by[key], best[key], took[key] / best[key]
        }
    }' "$work/chosen.csv" "$work/each.csv"
