#!/bin/bash
# check_launchers.sh - trains the digits with real launchers, and at real meeting places.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_launchers.sh BUILD_DIR [CASE...]
#
# What is not installed is skipped. All ways lead to the same bits.
# shellcheck disable=SC1091,SC2154,SC2317
build=$1
shift
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

case_file() { by_hand 4 TCDIST_RANK=@ TCDIST_WORLD_SIZE=4 "TCDIST_RENDEZVOUS=file://$work/card"; }

# The key of a job holds wherever its ranks meet.
case_file_with_a_key()
{
    by_hand 4 TCDIST_RANK=@ TCDIST_WORLD_SIZE=4 "TCDIST_RENDEZVOUS=file://$work/card" \
        TCDIST_KEY=0123456789abcdef0123 TCDIST_ENCRYPTION=on
}

openmpi() { has mpirun.openmpi && has orted; }

case_openmpi()
{
    openmpi || skip_case "no mpirun of Open MPI (openmpi-bin) here" || return
    mpirun.openmpi --oversubscribe -n 4 "${digits[@]}" >"$work/out" 2>&1 && trained 4
}

# As on several hosts, where there is no folder that all see.
case_pmix()
{
    openmpi || skip_case "no mpirun of Open MPI (openmpi-bin) here" || return
    TCDIST_RENDEZVOUS=pmix:// mpirun.openmpi --oversubscribe -n 4 "${digits[@]}" >"$work/out" 2>&1
    trained 4 && return
    grep -q 'built without libpmix' "$work/log" && skip_case "built without libpmix-dev"
}

# PMIx alone, as of PRRTE's prun: what Open MPI's daemon says beside it is taken away.  One process
# asks only who it is, and goes: nobody takes that for a crash.
case_pmix_alone()
{
    local without=(env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE)
    openmpi || skip_case "no mpirun of Open MPI (openmpi-bin) here" || return
    mpirun.openmpi --oversubscribe -n 4 "${without[@]}" "${digits[@]}" >"$work/out" 2>&1
    if ! trained 4; then
        grep -q 'built without libpmix' "$work/log" && skip_case "built without libpmix-dev"
        return
    fi
    mpirun.openmpi --oversubscribe -n 2 "${without[@]}" "$build/tools/tcinfo" >"$work/info" 2>&1 &&
        cat "$work/info" && grep -q 'of 2 ranks, this is rank 1' "$work/info" &&
        grep -q 'as pmix says: PMIX_NAMESPACE, PMIX_RANK' "$work/info"
}

case_hydra()
{
    has mpiexec.hydra || skip_case "no mpiexec.hydra (mpich) here" || return
    mpiexec.hydra -n 4 "${digits[@]}" >"$work/out" 2>&1 && trained 4
}

case_hydra_by_port()
{
    has mpiexec.hydra || skip_case "no mpiexec.hydra (mpich) here" || return
    mpiexec.hydra -pmi-port -n 4 "${digits[@]}" >"$work/out" 2>&1 && trained 4
}

# Two hosts, as far as hydra can see.
case_hydra_on_two_hosts()
{
    has mpiexec.hydra || skip_case "no mpiexec.hydra (mpich) here" || return
    mpiexec.hydra -hosts 127.0.0.1,127.0.0.2 -launcher fork -n 4 "${digits[@]}" \
        >"$work/out" 2>&1 && trained 4
}

# Somebody has MASTER_PORT, as torchrun's agent may.
case_torchrun()
{
    serve listening "$build/tests/crowd" --hold @ || return
    by_hand 4 RANK=@ WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
        TORCHELASTIC_RUN_ID=some TORCHELASTIC_USE_AGENT_STORE=True || return
    stop_server
}

listening() { grep -q listening "$work/server.log"; }

# Two addresses a rank: a host file as mlx.launch hands it to ranks.  A port that is taken is an
# error there, so that a few are tried.
case_mlx()
{
    local try rank port list
    for ((try = 0; try < 4; try++)); do
        port=$((20000 + RANDOM % 10000)) list=
        for rank in 0 1 2 3; do
            list+="${list:+, }[\"127.0.0.1:$((port + 2 * rank))\","
            list+=" \"127.0.0.2:$((port + 2 * rank + 1))\"]"
        done
        echo "[$list]" >"$work/hosts.json"
        by_hand 4 MLX_RANK=@ "MLX_HOSTFILE=$work/hosts.json" MLX_RING_VERBOSE=1 && return
        grep -q 'Address already in use' "$work/log" || return
    done
    return 1
}

# The status of a case whose ranks have not trained: it has failed, unless LIBRARY is not there.
failed_or_built_without()
{
    grep -q 'built without' "$work/log" && skip_case "built without $1"
}

# without_server URL WORDS: each rank says that it is the place which is not there.
without_server()
{
    local rank says=('rank 0 has left no word' 'rank 1 has found no word')
    for rank in 0 1; do
        env TCDIST_TIMEOUT=1 TCDIST_RANK="$rank" TCDIST_WORLD_SIZE=2 "TCDIST_RENDEZVOUS=$1" \
            "${digits[@]}" 2>&1 | grep "${says[rank]}.*$2" || return
    done
}

redis_answers() { [[ $(redis-cli -p "$port" ping 2>/dev/null) == PONG ]]; }

case_redis()
{
    has redis-server || skip_case "no redis-server here" || return
    serve redis_answers redis-server --port @ --bind 127.0.0.1 --save '' --dir "$work" || return
    by_hand 4 TCDIST_RANK=@ TCDIST_WORLD_SIZE=4 "TCDIST_RENDEZVOUS=redis://127.0.0.1:$port/a/job" ||
        failed_or_built_without hiredis || return
    [[ -z $(redis-cli -p "$port" keys '*') ]] || return # nothing is left
    redis-cli -p "$port" config set requirepass secret
    env TCDIST_RANK=1 TCDIST_WORLD_SIZE=2 "TCDIST_RENDEZVOUS=redis://127.0.0.1:$port/a/job" \
        "${digits[@]}" 2>&1 | grep 'set TCDIST_REDIS_PASSWORD' || return
    by_hand 4 TCDIST_RANK=@ TCDIST_WORLD_SIZE=4 TCDIST_REDIS_PASSWORD=secret \
        "TCDIST_RENDEZVOUS=redis://127.0.0.1:$port/a/job" || return
    stop_server
    without_server "redis://127.0.0.1:$port/a/job" 'Connection refused'
}

etcd_answers() { grep -q 'ready to serve client requests' "$work/server.log"; }

case_etcd()
{
    has etcd || skip_case "no etcd (etcd-server) here" || return
    serve etcd_answers etcd --data-dir "$work/etcd@" --listen-client-urls http://127.0.0.1:@ \
        --advertise-client-urls http://127.0.0.1:@ --listen-peer-urls http://127.0.0.1:0 || return
    by_hand 4 TCDIST_RANK=@ TCDIST_WORLD_SIZE=4 "TCDIST_RENDEZVOUS=etcd://127.0.0.1:$port/a/job" ||
        failed_or_built_without libcurl || return
    stop_server
    without_server "etcd://127.0.0.1:$port/a/job" 'no connection'
}

# The same settings for two jobs at a time: none is in the other's way.
case_jobs() { "$(dirname "$0")/jobs.sh" "$build" 4; }

# Start-up of many processes: nobody but rank 0 does more for it when there are more.
case_crowd()
{
    local ranks=16
    [[ ${TCDIST_TEST_EFFORT:-} != full ]] || ranks=64
    "$build/tools/tcrun" -n "$ranks" -- "$build/tests/crowd"
}

all=(file file_with_a_key openmpi pmix pmix_alone hydra hydra_by_port hydra_on_two_hosts torchrun
    mlx redis etcd jobs crowd)
[[ $# -gt 0 ]] || set -- "${all[@]}"
echo "[==========] Running $# launchers."
for name in "$@"; do
    run_case "$name"
done
echo "[==========] $# launchers run."
exit "$failed"
