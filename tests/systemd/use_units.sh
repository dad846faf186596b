# use_units.sh - what an administrator does with the units of a job, and what comes of it.
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Run by check_units.sh beside a systemd that knows these units alone.
failed=0
ranks=(tcdist-rank@0 tcdist-rank@1 tcdist-rank@2)

say_failed()
{
    echo "[  FAILED  ] $1"
    failed=1
    systemctl --no-pager --full status 'tcdist-rank@*' 2>&1 | head -n 40
    tail -n 5 /tmp/rank-*.log
}

property() { systemctl show --property="$2" --value "$1"; }

# settle STATE UNIT...: until all are in that state; false if it does not come.
settle()
{
    local state=$1 unit tries
    shift
    for unit in "$@"; do
        for ((tries = 0; tries < 600; tries++)); do
            [[ $(property "$unit" ActiveState) != "$state" ]] || continue 2
            sleep 0.1
        done
        return 1
    done
}

begin()
{
    echo "[ RUN      ] $1"
    rm -f /tmp/rank-*.log
    systemctl reset-failed
    cat >/etc/tcdist/job.env <<END
TCDIST_WORLD_SIZE=3
TCDIST_RENDEZVOUS=tcp://127.0.0.1:29500
TCDIST_PROGRAM=/opt/job/digits --data /opt/job/digits.csv.gz --epochs $2
TCDIST_START_TIMEOUT=60
END
}

finish()
{
    if "case_$1"; then
        echo "[       OK ] $1"
    else
        say_failed "$1"
        systemctl kill --signal=KILL 'tcdist-rank@*'
        settle inactive "${ranks[@]}"
    fi
}

is_training() { grep -q 'epoch   1 ' /tmp/rank-0.log 2>/dev/null; }

wait_for_training()
{
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        ! is_training || return 0
        sleep 0.1
    done
    return 1
}

case_a_job_trains()
{
    local unit
    systemctl start "${ranks[@]}" && settle inactive "${ranks[@]}" || return 1
    for unit in "${ranks[@]}"; do
        [[ $(property "$unit" Result) == success ]] || return 1
    done
    grep -q 'same bits on all 3 ranks' /tmp/rank-0.log
}

# As a user of its own who cannot write; one stop ends all ranks.
case_a_stop_of_the_target_ends_all()
{
    local pid
    systemctl start "${ranks[@]}" && wait_for_training || return 1
    pid=$(property tcdist-rank@1 MainPID)
    [[ $(stat -c %u "/proc/$pid") -ge 61184 ]] || return 1
    ! nsenter --target "$pid" --mount -- touch /opt/job/file 2>/dev/null || return 1
    systemctl stop tcdist-job.target || return 1 # which waits for the target, not for its ranks
    settle inactive "${ranks[@]}"
}

case_a_killed_rank_fails_the_others()
{
    local unit
    systemctl start "${ranks[@]}" && wait_for_training || return 1
    systemctl kill --signal=KILL tcdist-rank@2
    settle failed "${ranks[@]}" || return 1
    [[ $(property tcdist-rank@2 Result) == signal ]] || return 1
    for unit in "${ranks[@]:0:2}"; do
        [[ $(property "$unit" Result) == exit-code ]] || return 1
    done
    grep -q 'rank 2 ' /tmp/rank-0.log && grep -q 'rank 2 ' /tmp/rank-1.log
}

for ((tries = 0; tries < 300; tries++)); do
    [[ ! $(systemctl is-system-running 2>/dev/null) =~ ^(running|degraded)$ ]] || break
    sleep 0.1
done
ip link set lo up
begin a_job_trains 2
finish a_job_trains
begin a_stop_of_the_target_ends_all 10000
finish a_stop_of_the_target_ends_all
begin a_killed_rank_fails_the_others 10000
finish a_killed_rank_fails_the_others
echo "end $failed"
