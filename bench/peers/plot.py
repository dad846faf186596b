# plot.py - times over sizes as SVG, one panel for each operation and number of ranks.
# SPDX-License-Identifier: Apache-2.0
"""gnuplot draws; both axes are logarithmic; a library is drawn with its best variant."""
import os
import shutil
import subprocess

COLOURS = {"tcdist": "#c0392b", "open_mpi": "#2c6fbb", "mpich": "#8e5fb0", "gloo": "#3a9d5d"}
NAMES = {"tcdist": "tcdist", "open_mpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo"}

WIDTH, HEIGHT = 520, 360  # of a panel

HEAD = """set terminal svg size {width},{height} font "sans-serif,12" background "white"
set output "{path}"
set logscale x 2
set logscale y
set format y "%g"
set xtics rotate by -45 nomirror
set ytics nomirror
set grid ytics lc rgb "#dddddd"
set border 3 lc rgb "#777777"
set key top left reverse Left samplen 2
set ylabel "us"
set multiplot layout {rows},{columns}
"""


def size_name(count):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return "%d %s" % (count // unit, name)
    return "%d B" % count


def curves(results, lines):
    """{library: [(bytes, time), ...]}"""
    found = {}
    for library in NAMES:
        entries = [results.best(line, library) for line in lines]
        points = [(entry.line.bytes, entry.value) for entry in entries if entry]
        if points:
            found[library] = points
    return found


def panel(results, title, lines):
    found = curves(results, lines)
    sizes = sorted({line.bytes for line in lines})
    ticks = ", ".join('"%s" %d' % (size_name(size), size) for size in sizes)
    script = ['set title "%s"' % title, "set xtics (%s)" % ticks,
              "set xrange [%g:%g]" % (sizes[0] / 1.5, sizes[-1] * 1.5)]
    for library, points in found.items():
        script += ["$%s << END" % library, *("%d %g" % point for point in points), "END"]
    script.append("plot " + ", ".join(
        '$%s using 1:2 with linespoints lw 2 pt 7 ps 0.5 lc rgb "%s" title "%s"'
        % (library, COLOURS[library], NAMES[library]) for library in found))
    return script


def write(results, path):
    """False, and no file, where nothing was measured that is a curve, or gnuplot is missing."""
    groups = {}
    for line in results.lines():
        if line.metric == "synced" and line.dtype == "f32" and line.bytes > 0:
            groups.setdefault((line.op, line.transport, line.ranks), []).append(line)
    groups = {key: lines for key, lines in groups.items() if len(lines) > 1}
    if not groups or not shutil.which("gnuplot"):
        if os.path.exists(path):
            os.unlink(path)
        return False
    columns = min(2, len(groups))
    rows = (len(groups) + columns - 1) // columns
    script = [HEAD.format(width=columns * WIDTH, height=rows * HEIGHT, rows=rows, columns=columns,
                          path=path)]
    for (op, transport, ranks), lines in groups.items():
        script += panel(results, "%s, %s, %d ranks" % (op.replace("_", "-"), transport, ranks),
                        lines)
    subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)
    return True
