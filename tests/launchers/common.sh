#!/bin/bash
# common.sh - what the scripts about launchers share: reports, servers, the program that is started.
# SPDX-License-Identifier: Apache-2.0
#
# To be sourced, with `build` set.
#
# shellcheck disable=SC2034,SC2154

data=$(dirname "${BASH_SOURCE[0]}")/../../examples/digits/digits.csv.gz
digits=("$build/examples/digits" "--data=$data" --epochs=1)
work=$(mktemp -d)
failed=0
expected=
servers=()

end()
{
    local pid
    for pid in "${servers[@]}"; do
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    rm -rf "$work"
}
trap end EXIT

skip_case() { echo "skipped: $*"; return 77; }
has() { command -v "$1" >/dev/null; }

# run_case NAME: a function case_NAME; what it prints is shown when it fails.
run_case()
{
    local status=0
    echo "[ RUN      ] $1"
    "case_$1" >"$work/log" 2>&1 || status=$?
    case $status in
    0)
        grep -h 'joined within\|at a time' "$work/log"
        echo "[       OK ] $1"
        ;;
    77)
        grep skipped: "$work/log"
        echo "[  SKIPPED ] $1"
        ;;
    *)
        tail -n 30 "$work/log"
        echo "[  FAILED  ] $1"
        failed=1
        ;;
    esac
}

# Whether the ranks of $work/out have trained, to the same weights as those before them did.
trained()
{
    local ranks=$1 hash
    hash=$(sed -n "s/.*same bits on all $ranks ranks (hash \([0-9a-f]*\)).*/\1/p" "$work"/out*)
    cat "$work"/out*
    rm -f "$work"/out*
    [[ -n $hash ]] || return 1
    [[ -n $expected ]] || expected=$hash
    [[ $hash == "$expected" ]]
}

# by_hand RANKS NAME=VALUE...: a process a rank; @ stands for the rank in values.
by_hand()
{
    local ranks=$1 rank pids=() status=0
    shift
    for ((rank = 0; rank < ranks; rank++)); do
        env "${@//@/$rank}" "${digits[@]}" >"$work/out$rank" 2>&1 &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do
        wait "$rank" || status=1
    done
    trained "$ranks" && return "$status"
}

# serve ANSWERS PROGRAM...: starts a server at a port that is free, which stands for @ and goes into
# $port; ANSWERS is the name of a function that says whether it is ready.
serve()
{
    local ready=$1 try wait pid
    shift
    for ((try = 0; try < 8; try++)); do
        port=$((20000 + RANDOM % 10000))
        "${@//@/$port}" >"$work/server.log" 2>&1 &
        pid=$!
        servers+=("$pid")
        for ((wait = 0; wait < 300; wait++)); do
            kill -0 "$pid" 2>/dev/null || break
            if "$ready"; then
                # It is ours, and not another one's at that port.
                kill -0 "$pid" 2>/dev/null && return 0
            fi
            sleep 0.1
        done
        kill "$pid" 2>/dev/null
    done
    cat "$work/server.log"
    return 1
}

stop_server()
{
    local pid=${servers[-1]}
    unset "servers[-1]"
    kill "$pid"
    wait "$pid" 2>/dev/null
    return 0
}
