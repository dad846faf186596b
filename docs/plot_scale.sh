#!/bin/bash
# plot_scale.sh - the plot of docs/plans.md: what an all-reduce takes as the ranks become many.
# SPDX-License-Identifier: Apache-2.0
#
# Usage: plot_scale.sh BUILD_DIR
#
# Needs gnuplot, 2 GB of memory and about a minute.  Writes scale.svg beside itself; the figures
# stay in BUILD_DIR/scale.

set -eu
build=$1
docs=$(cd "$(dirname "$0")" && pwd)
work=$build/scale
mkdir -p "$work"

CMOCKA_TEST_FILTER='*curves*' TCDIST_TEST_CURVES=$work/scale.csv \
    "$build/tests/test_sim_scale" >"$work/log" 2>&1

# curves EXPRESSION: one line an algorithm; COLUMN4 is the fourth column.
curves()
{
    local list='' name
    while read -r name; do
        list="$list${list:+, }'<grep ^$name, $work/scale.csv' using 2:(${1//COLUMN/\$})"
        list="$list with linespoints pointsize 0.5 title '${name//_/ }'"
    done < <(awk -F, 'NR > 1 && !seen[$1]++ { print $1 }' "$work/scale.csv")
    echo "$list"
}

gnuplot <<END
set terminal svg size 900,900 font "sans,11" background "white"
set datafile separator ","
set logscale x 10
set xrange [10:200000]
set xlabel "ranks"
set key outside right
set grid
set output "$docs/scale.svg"
set multiplot layout 3,1
set yrange [0:]
set title "virtual time of an all-reduce of 1 KiB"
set ylabel "microseconds"
plot $(curves COLUMN3)
set title "memory a rank"
set ylabel "kB"
plot $(curves 'COLUMN4 / 1000')
set title "processor time of the simulation a rank"
set ylabel "microseconds"
plot $(curves 'COLUMN6 / COLUMN2 * 1e6')
unset multiplot
END
