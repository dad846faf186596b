# plot.py - times over sizes as SVG, one panel for each operation and number of ranks.
# SPDX-License-Identifier: Apache-2.0
"""Both axes are logarithmic; a library is drawn with its best variant."""
import math
import os

COLOURS = {"tcdist": "#c0392b", "open_mpi": "#2c6fbb", "mpich": "#8e5fb0", "gloo": "#3a9d5d"}
NAMES = {"tcdist": "tcdist", "open_mpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo"}

WIDTH, HEIGHT, LEFT, TOP, GAP = 420, 300, 60, 40, 90


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


def text(x, y, words, anchor="middle", colour="#333"):
    return ('<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>'
            % (x, y, anchor, colour, words))


class Panel:
    """A frame at x0, y0 with its scales."""

    def __init__(self, x0, y0, points):
        sizes, times = [p[0] for p in points], [p[1] for p in points]
        self.x0, self.y0 = x0, y0
        self.low_x, self.high_x = math.log2(min(sizes)), math.log2(max(sizes))
        self.low_y = math.floor(math.log10(min(times)))
        self.high_y = max(math.ceil(math.log10(max(times))), self.low_y + 1)

    def at(self, size, time):
        x = self.x0 + (math.log2(size) - self.low_x) / (self.high_x - self.low_x) * WIDTH
        y = (math.log10(time) - self.low_y) / (self.high_y - self.low_y) * HEIGHT
        return x, self.y0 + HEIGHT - y

    def frame(self, title, sizes):
        parts = ['<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999"/>'
                 % (self.x0, self.y0, WIDTH, HEIGHT),
                 text(self.x0 + WIDTH / 2, self.y0 - 14, title)]
        for power in range(self.low_y, self.high_y + 1):
            _, y = self.at(sizes[0], 10 ** power)
            parts.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>'
                         % (self.x0, y, self.x0 + WIDTH, y))
            parts.append(text(self.x0 - 6, y + 4, "%g" % 10 ** power, "end"))
        for size in sizes:
            x, _ = self.at(size, 10 ** self.low_y)
            parts.append(text(x, self.y0 + HEIGHT + 18, size_name(size)))
        return parts

    def curve(self, row, library, points):
        colour = COLOURS[library]
        places = [self.at(*point) for point in points]
        parts = ['<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>'
                 % (" ".join("%.1f,%.1f" % place for place in places), colour)]
        parts += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (*p, colour) for p in places]
        return parts + [text(self.x0 + 12, self.y0 + 20 + 18 * row, NAMES[library], "start",
                             colour)]


def draw_panel(results, x0, y0, title, lines):
    found = curves(results, lines)
    panel = Panel(x0, y0, [point for points in found.values() for point in points])
    parts = panel.frame(title, sorted({line.bytes for line in lines}))
    for row, (library, points) in enumerate(found.items()):
        parts += panel.curve(row, library, points)
    return parts


def write(results, path):
    """False, and no file, where nothing was measured that is a curve over sizes."""
    groups = {}
    for line in results.lines():
        if line.metric == "synced" and line.dtype == "f32" and line.bytes > 0:
            groups.setdefault((line.op, line.transport, line.ranks), []).append(line)
    groups = {key: lines for key, lines in groups.items() if len(lines) > 1}
    if not groups:
        if os.path.exists(path):
            os.unlink(path)
        return False
    columns = min(2, len(groups))
    rows = (len(groups) + columns - 1) // columns
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" '
             'font-size="12">' % (LEFT + columns * (WIDTH + GAP), rows * (HEIGHT + GAP) + TOP),
             '<rect width="100%" height="100%" fill="white"/>']

    for index, ((op, transport, ranks), lines) in enumerate(groups.items()):
        title = "%s, %s, %d ranks: us" % (op.replace("_", "-"), transport, ranks)
        parts += draw_panel(results, LEFT + index % columns * (WIDTH + GAP),
                            TOP + index // columns * (HEIGHT + GAP), title, lines)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts + ["</svg>"]) + "\n")
    return True
