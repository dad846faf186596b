#!/bin/bash
# check_clusters.sh - trains the digits on three hosts: by Slurm, mpirun of Open MPI, and hydra.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: check_clusters.sh BUILD_DIR [CASE...]
#
# The hosts are networks of this machine, each with a name and an address of its own; nothing knows
# the names but Slurm's configuration.  Needs root, iproute2, and whichever of slurmctld, slurmd,
# slurm-client, openmpi-bin and mpich is to be tried.  The networks are gone with the processes.
# shellcheck disable=SC1091,SC2034,SC2154,SC2317
skip() { echo "skipped: $*"; exit 77; }
if [[ ${TCDIST_TEST_EFFORT:-} == quick && $# -le 1 ]]; then
    skip "it starts a cluster, which takes half a minute; with TCDIST_TEST_EFFORT=normal"
fi
[[ $(id -u) -eq 0 ]] || skip "needs root for networks of its own"
for tool in ip unshare nsenter; do
    command -v "$tool" >/dev/null || skip "needs $tool"
done
name_space() { readlink /proc/self/ns/uts; }
if [[ ${1:-} != inside ]]; then
    unshare --net --uts true 2>/dev/null || skip "no network namespaces here"
    exec unshare --net --uts -- "$0" inside "$(name_space)" "$@"
fi
# Whoever calls this part by hand would set up the machine: a new network has no address at all.
addresses=$(ip -o address) || skip "ip fails"
if [[ -n $addresses || $2 != uts:* || $2 == "$(name_space)" ]]; then
    skip "this network is not one of its own"
fi
shift 2
build=$1
shift
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
hosts=()

# Whatever is left in one of our networks is ours: a step of Slurm may outlive its daemon.
end_hosts()
{
    local pid spaces=() space
    for pid in "${hosts[@]}"; do
        spaces+=("$(readlink "/proc/$pid/ns/net")")
    done
    for pid in /proc/[0-9]*; do
        for space in "${spaces[@]}"; do
            [[ $(readlink "$pid/ns/net" 2>/dev/null) == "$space" ]] && kill -KILL "${pid#/proc/}"
        done
    done 2>/dev/null
    end
}
trap end_hosts EXIT

start_hosts()
{
    local n pid own space
    own=$(readlink /proc/self/ns/net)
    hostname ctl
    ip link set lo up
    ip link add br0 type bridge
    ip addr add 10.79.0.254/24 dev br0
    ip link set br0 up
    for n in 1 2 3; do
        unshare --net --uts sleep 1000 &
        pid=$!
        hosts+=("$pid")
        # It may not be readable for a moment: that is no network of its own yet.
        until space=$(readlink "/proc/$pid/ns/net") && [[ $space == net:* && $space != "$own" ]]; do
            kill -0 "$pid" || return 1
            sleep 0.05
        done
        ip link add "v$n" type veth peer name eth0 netns "$pid" || return 1
        ip link set "v$n" master br0 up
        on "$pid" hostname "n$n"
        on "$pid" ip link set lo up
        on "$pid" ip addr add "10.79.0.$n/24" dev eth0
        on "$pid" ip link set eth0 up
    done
}

on() { nsenter --target "$1" --net --uts -- "${@:2}"; }

# ---- Slurm -------------------------------------------------------------------------------------

start_slurm()
{
    local n
    for n in slurmctld slurmd srun; do
        has "$n" || skip_case "no $n (slurmctld, slurmd, slurm-client) here" || return
    done
    export SLURM_CONF=$work/slurm.conf
    [[ ! -e $SLURM_CONF ]] || return 0
    mkdir "$work/state" "$work"/tmp-n{1,2,3}
    sed "s,@WORK@,$work," "$(dirname "$0")/slurm.conf" >"$SLURM_CONF"
    slurmctld -D -f "$SLURM_CONF" >"$work/ctld.out" 2>&1 &
    servers+=($!)
    for n in 1 2 3; do
        on "${hosts[n - 1]}" slurmd -D -N "n$n" -f "$SLURM_CONF" >"$work/slurmd$n.out" 2>&1 &
        servers+=($!)
    done
    for ((n = 0; n < 300; n++)); do
        [[ $(sinfo -h -t idle -o %D) == 3 ]] && return 0
        sleep 0.1
    done
    sinfo
    return 1
}

case_slurm()
{
    start_slurm || return
    srun -N3 -n6 "${digits[@]}" >"$work/out" 2>&1
    trained 6
}

# The process manager of a step tells the address: no name and no file is needed.
case_slurm_pmi2()
{
    start_slurm || return
    srun --mpi=pmi2 -N3 -n6 "${digits[@]}" >"$work/out" 2>&1
    trained 6
}

# Slurm's server of PMIx, with Slurm's own variables and without.
case_slurm_pmix()
{
    start_slurm || return
    srun --mpi=list 2>&1 | grep -qw pmix || skip_case "no PMIx in this Slurm" || return
    srun --mpi=pmix -N3 -n6 "${digits[@]}" >"$work/out" 2>&1
    if ! trained 6; then
        return 1
    fi
    srun --mpi=pmix -N3 -n6 env -u SLURM_PROCID -u SLURM_NTASKS "${digits[@]}" >"$work/out" 2>&1
    trained 6
}

case_slurm_file()
{
    start_slurm || return
    TCDIST_RENDEZVOUS=file://$work/card srun -N3 -n6 "${digits[@]}" >"$work/out" 2>&1
    trained 6
}

# Two steps of one job at a time do not get into each other's way.
case_slurm_two_steps()
{
    start_slurm || return
    cat >"$work/job" <<END
#!/bin/bash
srun --exact -N3 -n3 ${digits[*]} >$work/step1 2>&1 &
srun --exact -N3 -n3 ${digits[*]} >$work/step2 2>&1 &
wait
END
    sbatch --wait -N3 -n6 --output="$work/job.out" "$work/job"
    cat "$work/job.out" "$work"/step*
    [[ $(grep -h 'same bits on all 3 ranks' "$work"/step* | uniq | wc -l) == 1 ]] &&
        [[ $(grep -hc 'same bits on all 3 ranks' "$work"/step* | tr -d '\n') == 11 ]]
}

# ---- MPI's launchers ---------------------------------------------------------------------------

# Stands for ssh: AGENT HOST COMMAND...
write_agent()
{
    {
        echo '#!/bin/bash'
        echo "hosts=(${hosts[*]})"
        cat <<'END'
while [[ $1 == -* ]]; do shift; done
pid=${hosts[${1#10.79.0.} - 1]}
shift
exec nsenter --target "$pid" --net --uts -- sh -c "$*"
END
    } >"$work/agent"
    chmod +x "$work/agent"
}

case_openmpi()
{
    has mpirun.openmpi || skip_case "no mpirun of Open MPI (openmpi-bin) here" || return
    write_agent
    mpirun.openmpi --host 10.79.0.1:2,10.79.0.2:2,10.79.0.3:2 -n 6 \
        --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include 10.79.0.0/24 \
        "${digits[@]}" >"$work/out" 2>&1
    trained 6
}

case_hydra()
{
    has mpiexec.hydra || skip_case "no mpiexec.hydra (mpich) here" || return
    write_agent
    mpiexec.hydra -hosts 10.79.0.1,10.79.0.2,10.79.0.3 -ppn 2 -n 6 -launcher ssh \
        -launcher-exec "$work/agent" -iface br0 "${digits[@]}" >"$work/out" 2>&1
    trained 6
}

all=(slurm slurm_pmi2 slurm_pmix slurm_file slurm_two_steps openmpi hydra)
[[ $# -gt 0 ]] || set -- "${all[@]}"
start_hosts || skip "no such networks here"
echo "[==========] Running $# clusters."
for name in "$@"; do
    run_case "$name"
done
echo "[==========] $# clusters run."
exit "$failed"
