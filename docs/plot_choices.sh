#!/bin/bash
# plot_choices.sh - the plots of docs/plans.md: which algorithm wins where.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: plot_choices.sh BUILD_DIR [RANKS]
#
# Needs gnuplot.  Writes choices-simulated.svg and choices-measured.svg beside itself; the curves
# stay in BUILD_DIR/choices.

set -eu
build=$1
ranks=${2:-4}
docs=$(cd "$(dirname "$0")" && pwd)
work=$build/choices
mkdir -p "$work"

TCDIST_TEST_CURVES=$work/simulated.csv "$build/tests/test_cost" >"$work/log" 2>&1
"$build/tools/tcrun" -n "$ranks" "$build/tools/tcperf" --tune "$work/table.json" \
    --csv "$work/measured.csv" -b 64 -e 4M -f 4 --budget 0.05 --warmup 2 >>"$work/log" 2>&1

# One file an algorithm: bytes, time; of several lines of one size the least.
split()
{
    awk -F, -v collective="$2" -v out="$3" -v ranks="$4" -v algorithm="$5" -v bytes="$6" -v us="$7" '
        $1 == collective && (ranks == 0 || $3 == ranks) {
            key = $algorithm SUBSEP $bytes
            if (!(key in least) || $us < least[key]) least[key] = $us
        }
        END {
            for (key in least) {
                split(key, part, SUBSEP)
                print part[2], least[key] | ("sort -n >" out part[1] ".dat")
            }
        }' "$1"
}

curves()
{
    local list='' file name
    for file in "$1"*.dat; do
        name=${file#"$1"}
        name=${name%.dat}
        list="$list${list:+, }'$file' using 1:2 with linespoints pointsize 0.4 title '${name//_/ }'"
    done
    echo "$list"
}

head='set terminal svg size 900,720 font "sans,11" background "white"
set logscale xy 2
set format x "%.0b%B"
set logscale y 10
set format y "%g"
set xlabel "bytes"
set ylabel "microseconds"
set key outside right
set linetype 9 linecolor rgb "#888888" dashtype 2
set linetype 10 linecolor rgb "#e51e10" dashtype 2
set linetype 11 linecolor rgb "#0072b2" dashtype 2
set linetype 12 linecolor rgb "#009e73" dashtype 2
set linetype cycle 12
set grid'

rm -f "$work"/*.dat
split "$work/simulated.csv" allreduce "$work/s4-" 4 2 4 5
split "$work/simulated.csv" allreduce "$work/s64-" 64 2 4 5
split "$work/measured.csv" allreduce "$work/ma-" 0 17 2 11
split "$work/measured.csv" broadcast "$work/mb-" 0 17 2 11

gnuplot <<END
$head
set output "$docs/choices-simulated.svg"
set multiplot layout 2,1
set title "all-reduce, simulated, 4 ranks"
plot $(curves "$work/s4-")
set title "all-reduce, simulated, 64 ranks"
plot $(curves "$work/s64-")
unset multiplot
END
gnuplot <<END
$head
set output "$docs/choices-measured.svg"
set multiplot layout 2,1
set title "all-reduce, measured, $ranks ranks on loopback"
plot $(curves "$work/ma-")
set title "broadcast, measured, $ranks ranks on loopback"
plot $(curves "$work/mb-")
unset multiplot
END
