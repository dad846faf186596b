#!/usr/bin/env bash
# check_completion.sh - bash offers the options of each tool, and its manual page has them all.
# SPDX-License-Identifier: Apache-2.0
# usage: check_completion.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1
tools=$2/tools
# shellcheck source=/dev/null
source "$source_dir/tools/completion/tcdist.bash"

failed=0
fail() { echo "$*"; failed=1; }

# offer WORD...: what is offered for the last one.
offer()
{
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _tcdist "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
}

for tool in tcrun tcdoctor tcconfig tcperf tcdump tcstat; do
    page=$source_dir/docs/man/$tool.1
    [[ -f $page ]] || { fail "$tool has no manual page"; continue; }
    offer "$tools/$tool" --
    [[ ${#COMPREPLY[@]} -gt 2 ]] || fail "$tool: bash offers nothing"
    while read -r option; do
        name=${option#--}
        grep -q -- "\\\\-$name\b" "$page" || fail "$page does not have --$name"
    done < <("$tools/$tool" --help | grep -oE -- '--[a-z][a-z-]+' |
        grep -vE -- '--(help|usage|version)$' | sort -u)
done

offer "$tools/tcrun" --hostf
[[ ${COMPREPLY[*]} == --hostfile ]] || fail "--hostf gives '${COMPREPLY[*]}'"
offer "$tools/tcrun" --stdin a
[[ ${COMPREPLY[*]} == all ]] || fail "--stdin a gives '${COMPREPLY[*]}'"
offer "$tools/tcrun" -n 4 --backend jaccl-
[[ ${COMPREPLY[*]} == jaccl-ring ]] || fail "--backend jaccl- gives '${COMPREPLY[*]}'"
offer "$tools/tcperf" --op allr
[[ ${COMPREPLY[*]} == allreduce ]] || fail "--op allr gives '${COMPREPLY[*]}'"
offer "$tools/tcperf" -d f
[[ ${COMPREPLY[*]} == "f16 f32 f64 f8e4m3 f8e5m2" ]] || fail "-d f gives '${COMPREPLY[*]}'"
offer "$tools/tcrun" -n 4 mkdi
[[ " ${COMPREPLY[*]} " == *" mkdir "* ]] || fail "the command is not looked for"
exit $failed
