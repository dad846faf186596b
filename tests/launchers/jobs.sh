#!/bin/bash
# jobs.sh - starts jobs two at a time, all with the same settings, and counts those that fail.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: jobs.sh BUILD_DIR [JOBS]      (200; of 3 ranks each)
build=$1 jobs=${2:-200}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

one()
{
    "$build/tools/tcrun" -n 3 -- "$build/tests/crowd" >"$work/job$1" 2>&1 && return
    echo "job $1 failed"
    cat "$work/job$1"
    touch "$work/failed$1"
}

for ((job = 0; job < jobs; job += 2)); do
    one "$job" &
    one $((job + 1)) &
    wait
done
failed=$(find "$work" -name 'failed*' | wc -l)
echo "$jobs jobs, two at a time: $failed failed"
[[ $failed -eq 0 ]]
