# shellcheck shell=bash
# tcdist.bash - what bash offers behind the names of tcdist's tools.
# SPDX-License-Identifier: Apache-2.0
#
# The options are those that a tool's --help lists; installed under the name of each tool.

# What may follow an option of a tool, as words; nothing where it is a file, a number or free text.
_tcdist_values()
{
    local tool=$1
    case $2 in
    # tcperf says which names it knows when it is given another one.
    --op | --type | -d | --reduce | -o)
        [[ ${tool##*/} != tcperf ]] ||
            { "$tool" "$2" '?' 2>&1 || true; } | sed -n "s/.*; there are \(.*\), and all$/\1, all/p" | tr -d ,
        ;;
    --backend) echo any ring tcp shm rdma gloo jaccl jaccl-ring nccl ;;
    --bind) echo cores none ;;
    --stdin) echo all 0 none ;;
    --key) echo auto ;;
    --over) echo any ethernet thunderbolt ;;
    --form) echo dictionary list plain ;;
    --numerics) echo canonical fast exact ;;
    esac
}

# Whether a word is an option of tcrun whose value is the next word.
_tcdist_takes_value()
{
    case $1 in
    -n | -p | --env | --cwd | --hosts | --hostfile | --ssh | --rendezvous | --key | --backend | \
        --bind | --stdin | --timeline | --ranks | --repeat-hosts | --connections-per-ip | \
        --starting-port | --nccl-port | --python | --remote-tcrun | --timeout-kill | --heartbeat | --connect-timeout)
        return 0
        ;;
    esac
    return 1
}

# The place of the command that tcrun is to run; 0: it is not there yet.
_tcdist_command_at()
{
    local i
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            echo $((i + 1))
            return
        elif _tcdist_takes_value "${COMP_WORDS[i]}"; then
            ((i++))
            # bash takes the = of --env=A apart.
            [[ ${COMP_WORDS[i]} != = ]] || ((i++))
        elif [[ ${COMP_WORDS[i]} != -* ]]; then
            echo "$i"
            return
        fi
    done
    if [[ ${COMP_WORDS[COMP_CWORD]} != -* && $i -eq $COMP_CWORD ]]; then
        echo "$i"
    else
        echo 0
    fi
}

_tcdist()
{
    local tool=$1 word=$2 before=$3 at values
    COMPREPLY=()
    if [[ ${tool##*/} == tcrun ]]; then
        at=$(_tcdist_command_at)
        if ((at > 0 && at <= COMP_CWORD)); then
            if declare -F _command_offset >/dev/null; then
                _command_offset "$at"
            else
                mapfile -t COMPREPLY < <(compgen -c -- "$word")
            fi
            return
        fi
    fi
    if [[ $before == = && $COMP_CWORD -ge 2 ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    values=$(_tcdist_values "$tool" "$before")
    if [[ -n $values ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
    elif [[ $before == --hosts ]]; then
        mapfile -t COMPREPLY < <(compgen -A hostname -- "$word")
    elif [[ $before == --cwd ]]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
    elif [[ $word == -* ]]; then
        values=$("$tool" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}

complete -o filenames -F _tcdist tcrun tcdoctor tcconfig tcperf tcdump tcstat tcinfo
