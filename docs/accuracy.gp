# accuracy.gp - draws docs/accuracy.svg from the output of bench/accuracy.
# SPDX-License-Identifier: Apache-2.0
#
#   build/release/bench/accuracy > build/accuracy.csv
#   gnuplot docs/accuracy.gp
#
if (!exists("data")) data = "build/accuracy.csv"
if (!exists("picture")) picture = "docs/accuracy.svg"
if (!exists("kind")) kind = "svg"
if (kind eq "png") set terminal pngcairo size 1080,800 font "sans,12"; \
    else set terminal svg size 1080,800 font "sans-serif,13" background "white"
set output picture
set datafile separator ","

set logscale x 2
set logscale y
set xrange [1.8:1150]
set xtics (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
set format y "10^{%T}"
set grid xtics ytics lc rgb "#dddddd"
set border lc rgb "#777777"
unset mytics
set key top left reverse Left samplen 2 spacing 1.2
set xlabel "ranks"
set title font ",12"
set ylabel "error in last places; dashed: the largest"

# Rows of one type, kind of data and way.
pick(type, numbers, way) = sprintf("< grep '^%s,%s,%s,' %s", type, numbers, way, data)
title_of(way) = way eq "ring" ? "fast, ring (in the element type, as peers do it)" : \
    way eq "tree" ? "fast, tree" : way eq "exact" ? "exact" : "canonical"
ways = "ring tree canonical exact"
colors = "#d55e00 #e69f00 #0072b2 #009e73"
types = "7 5 6 7"

set multiplot layout 2,2 margins 0.08,0.985,0.075,0.95 spacing 0.085,0.12
do for [type in "f32 bf16"] {
    do for [numbers in "normal cancel"] {
        set title type . ", " . (numbers eq "normal" ? "normally distributed numbers" : \
            "large numbers among them that cancel")
        if (numbers eq "normal") { set yrange [0.1:20000] } else { set yrange [0.1:*] }
        if (type eq "f32" && numbers eq "normal") { set key } else { unset key }
        plot for [w = 1:4] pick(type, numbers, word(ways, w)) using 4:5 with linespoints \
            lw (w == 4 ? 3 : 2) pt int(word(types, w)) ps (w == 3 ? 1.1 : w == 4 ? 0.4 : 0.7) \
            lc rgb word(colors, w) title title_of(word(ways, w)), \
            for [w = 1:4] pick(type, numbers, word(ways, w)) using 4:6 with lines \
            lw 1 dt 2 lc rgb word(colors, w) notitle
    }
}
unset multiplot
