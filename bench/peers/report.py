#!/usr/bin/env python3
# report.py - turns the lines of run.py into a table and a plot.
# SPDX-License-Identifier: Apache-2.0
"""usage: report.py PEERS.csv PEERS.md PEERS.svg"""
import collections
import csv
import math
import statistics
import sys

HEADER = ("repetition,foreign_cpus,library,variant,mode,ranks,bytes,calls,median_us,min_us")

COLOURS = {"tcdist": "#c0392b", "open_mpi": "#2c6fbb", "gloo": "#3a9d5d"}
NAMES = {"tcdist": "tcdist", "open_mpi": "Open MPI", "gloo": "Gloo"}
TITLES = {"synced": "ranks aligned before each call", "back_to_back": "calls back to back"}


class Results:
    """Medians by library, variant, mode, ranks and bytes; one for each repetition."""

    def __init__(self, path):
        self.times = collections.defaultdict(dict)
        self.variants = collections.defaultdict(list)
        with open(path, encoding="ascii") as file:
            for row in csv.DictReader(file):
                case = (row["mode"], int(row["ranks"]), int(row["bytes"]))
                variants = self.variants[row["library"]]
                if row["variant"] not in variants:
                    variants.append(row["variant"])
                self.times[row["library"], row["variant"], case][int(row["repetition"])] = float(
                    row["median_us"])

    def cases(self, mode, ranks):
        return sorted({key[2] for key in self.times if key[2][:2] == (mode, ranks)})

    def ranks(self):
        return sorted({key[2][1] for key in self.times})

    def median(self, library, variant, case):
        times = self.times.get((library, variant, case))
        return statistics.median(times.values()) if times else None

    def best(self, libraries, case, only=None):
        """(median, library, variant) of the fastest, or None."""
        found = [(self.median(library, variant, case), library, variant)
                 for library in libraries for variant in self.variants.get(library, [])
                 if only is None or (library, variant) not in only]
        found = [entry for entry in found if entry[0] is not None]
        return min(found) if found else None

    def first(self, library, case):
        """(median, library, variant) of the variant that was named first, or None."""
        variant = self.variants.get(library, [None])[0]
        median = self.median(library, variant, case)
        return None if median is None else (median, library, variant)

    def ratios(self, own, other, case):
        """tcdist's time over the other's, for each repetition that has both."""
        mine = self.times[own[1], own[2], case]
        theirs = self.times[other[1], other[2], case]
        return sorted(mine[i] / theirs[i] for i in mine if i in theirs)


def size_name(count):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return "%d %s" % (count // unit, name)
    return "%d B" % count


def time_name(entry, with_variant=False):
    if entry is None:
        return "-"
    text = "%.1f" % entry[0] if entry[0] < 1000 else "%.0f" % entry[0]
    return "%s (%s)" % (text, entry[2].replace("_", " ")) if with_variant else text


def verdict(ratio, spread):
    if ratio <= 1.0:
        return "met" if spread[-1] <= 1.0 else "met; not in every repetition"
    return "missed" if spread[0] > 1.0 else "missed; met in some repetitions"


def table_row(results, case):
    forced = {("open_mpi", v) for v in results.variants.get("open_mpi", []) if v != "default"}
    own = results.first("tcdist", case)
    mpi = results.best(["open_mpi"], case, only=forced)
    gloo = results.best(["gloo"], case)
    better = results.best(["open_mpi", "gloo"], case, only=forced)
    best = results.best(["open_mpi", "gloo"], case)
    cells = [size_name(case[2]), time_name(own), time_name(mpi), time_name(gloo, True)]

    if own is None or better is None:
        return cells + ["-"] * 4
    spread = results.ratios(own, better, case) or [own[0] / better[0]]
    ratio = own[0] / better[0]
    tuned = "%.2f" % (own[0] / best[0])
    if best != better:
        tuned += " (%s)" % time_name(best)
    return cells + ["%.2f" % ratio, "%.2f - %.2f" % (spread[0], spread[-1]), tuned,
                    verdict(ratio, spread)]


def write_table(results, path):
    head = ["bytes", "tcdist us", "Open MPI us", "Gloo us (its best way)", "ratio", "spread",
            "to tuned Open MPI too", "target 1.00"]

    with open(path, "w", encoding="utf-8") as file:
        for ranks in results.ranks():
            for mode in ("synced", "back_to_back"):
                file.write("### %d ranks, %s\n\n" % (ranks, TITLES[mode]))
                file.write("| " + " | ".join(head) + " |\n")
                file.write("| " + " | ".join(["---:"] * 7 + ["---"]) + " |\n")
                for case in results.cases(mode, ranks):
                    file.write("| " + " | ".join(table_row(results, case)) + " |\n")
                file.write("\n")


# ---- The plot: time over bytes, both logarithmic, one panel for each number of ranks -------------

WIDTH, HEIGHT, LEFT, TOP, GAP = 420, 320, 60, 40, 90


def panel(results, ranks, x0, limits):
    low_x, high_x, low_y, high_y = limits
    parts = []

    def at(size, time):
        x = x0 + (math.log2(size) - low_x) / (high_x - low_x) * WIDTH
        y = TOP + HEIGHT - (math.log10(time) - low_y) / (high_y - low_y) * HEIGHT
        return x, y

    def text(x, y, words, anchor="middle", colour="#333"):
        parts.append('<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>'
                     % (x, y, anchor, colour, words))

    parts.append('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999"/>'
                 % (x0, TOP, WIDTH, HEIGHT))
    text(x0 + WIDTH / 2, TOP - 14, "%d ranks: time of an all-reduce in us" % ranks)
    for power in range(low_y, high_y + 1):
        _, y = at(2 ** low_x, 10 ** power)
        parts.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>'
                     % (x0, y, x0 + WIDTH, y))
        text(x0 - 6, y + 4, str(10 ** power), "end")
    for case in results.cases("synced", ranks):
        x, _ = at(case[2], 10 ** low_y)
        text(x, TOP + HEIGHT + 18, size_name(case[2]).replace(" ", "")[:-1].replace("i", ""))
    for row, library in enumerate(("tcdist", "open_mpi", "gloo")):
        cases = results.cases("synced", ranks)
        choose = results.first if library == "tcdist" else lambda name, case: results.best(
            [name], case)
        points = [(case[2], choose(library, case)) for case in cases]
        points = [at(size, entry[0]) for size, entry in points if entry]
        if not points:
            continue
        colour = COLOURS[library]
        parts.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>'
                     % (" ".join("%.1f,%.1f" % point for point in points), colour))
        parts += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (*p, colour) for p in points]
        text(x0 + 12, TOP + 20 + 18 * row, NAMES[library], "start", colour)
    return parts


def write_plot(results, path):
    cases = {key[2] for key in results.times if key[2][0] == "synced"}
    best = [results.best([library], case) for library in NAMES for case in cases]
    times = [entry[0] for entry in best if entry]
    sizes = [case[2] for case in cases]
    limits = (math.log2(min(sizes)), math.log2(max(sizes)),
              math.floor(math.log10(min(times))), math.ceil(math.log10(max(times))))
    width = LEFT + len(results.ranks()) * (WIDTH + GAP)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" '
             'font-size="12">' % (width, TOP + HEIGHT + 40),
             '<rect width="100%" height="100%" fill="white"/>']

    for index, ranks in enumerate(results.ranks()):
        parts += panel(results, ranks, LEFT + index * (WIDTH + GAP), limits)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts + ["</svg>"]) + "\n")


def write(csv_path, table_path, plot_path):
    results = Results(csv_path)
    write_table(results, table_path)
    write_plot(results, plot_path)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    write(*sys.argv[1:])
