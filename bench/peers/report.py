#!/usr/bin/env python3
# report.py - turns the lines of run.py into a page, a plot and a table of verdicts.
# SPDX-License-Identifier: Apache-2.0
"""usage: report.py PEERS.csv...

Writes beside the first: peers.md, peers.svg, verdicts.csv.  Lines of several files, one for each
transport for example, come together."""
import csv
import itertools
import os
import sys

sys.dont_write_bytecode = True  # the tree stays as it is
import plot  # noqa: E402
import results as lines_of  # noqa: E402

METRICS = {"synced": "ranks aligned before each call", "back_to_back": "calls back to back",
           "many": "64 at once, of these bytes each", "urgent": "urgent during 256 MiB",
           "hidden": "share hidden, every rank computes",
           "hidden_beside": "share hidden, rank 0 computes",
           "slowdown": "slowdown of the computing, every rank computes",
           "slowdown_beside": "slowdown of the computing, rank 0 computes",
           "wait_cpu": "processor used while waiting"}
HEAD = ["bytes", "tcdist", "compared with", "ratio", "spread", "target", "verdict"]


def value_name(entry):
    if entry is None:
        return "-"
    if entry.line.metric in lines_of.SHARES:
        return "%.1f %%" % entry.value
    return "%.2f us" % entry.value if entry.value < 10 else "%.1f us" % entry.value \
        if entry.value < 1000 else "%.0f us" % entry.value


def other_name(verdict):
    other = verdict.peer
    if other is None:
        return "-"
    if other.library != "tcdist":
        words = [plot.NAMES[other.library], other.variant.replace("_", " ")]
        if other.line.metric != verdict.own.line.metric:
            words.append(other.line.metric.replace("_", " "))
        name = ", ".join(words)
    else:
        name = "its f32" if other.line.dtype != verdict.own.line.dtype else "idle"
    return "%s (%s)" % (value_name(other), name)


def cells(verdict):
    own = verdict.own
    spread = "-"
    if verdict.low is not None:
        unit = " %" if own.line.metric in lines_of.SHARES else ""
        digits = "%.1f - %.1f%s" if unit else "%.2f - %.2f%s"
        spread = digits % (verdict.low, verdict.high, unit)
    return [plot.size_name(own.line.bytes) if own.line.bytes else "-",
            "%s (%s)" % (value_name(own), own.variant), other_name(verdict),
            "-" if verdict.ratio is None else "%.2f" % verdict.ratio, spread,
            verdict.target or "-", verdict.verdict]


def tally(verdicts):
    judged = [v for v in verdicts if v.target]
    missed = sum(v.verdict.startswith("missed") for v in judged)
    return "%d lines with a target: %d met, %d missed.\n\n" % (
        len(judged), len(judged) - missed, missed)


def write_page(verdicts, has_plot, path):
    def group(verdict):
        line = verdict.own.line
        return line.transport, line.ranks, line.op, line.dtype, line.metric

    with open(path, "w", encoding="utf-8") as file:
        file.write("# tcdist beside its peers\n\nA ratio is tcdist's median over that of the best "
                   "peer, or of what the cell names; the spread is\nover the repetitions.\n\n"
                   + ("![Time over size](peers.svg)\n\n" if has_plot else "") + tally(verdicts))
        for (transport, ranks, op, dtype, metric), rows in itertools.groupby(verdicts, group):
            file.write("## %s, %d ranks: %s, %s: %s\n\n"
                       % (transport, ranks, op.replace("_", "-"), dtype, METRICS[metric]))
            file.write("| " + " | ".join(HEAD) + " |\n")
            file.write("| " + " | ".join(["---:"] * 5 + ["---"] * 2) + " |\n")
            for row in rows:
                file.write("| " + " | ".join(cells(row)) + " |\n")
            file.write("\n")


def write_verdicts(verdicts, path):
    with open(path, "w", encoding="ascii", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["transport", "ranks", "op", "dtype", "metric", "bytes", "variant", "value",
                      "other", "other_variant", "other_value", "ratio", "low", "high", "target",
                      "verdict"])
        for v in verdicts:
            other = [v.peer.library, v.peer.variant, v.peer.value] if v.peer else [""] * 3
            out.writerow([*v.own.line, v.own.variant, v.own.value, *other,
                          *("" if x is None else "%.3f" % x for x in (v.ratio, v.low, v.high)),
                          v.target, v.verdict])


def write(csv_path, folder):
    results = lines_of.Results(csv_path)
    verdicts = lines_of.judge_all(results)
    has_plot = plot.write(results, os.path.join(folder, "peers.svg"))
    write_page(verdicts, has_plot, os.path.join(folder, "peers.md"))
    write_verdicts(verdicts, os.path.join(folder, "verdicts.csv"))
    return ["peers.csv", "verdicts.csv", "peers.md"] + ["peers.svg"] * has_plot


def join(paths, out):
    """Repetitions of the files count on, so that none hides another."""
    rows, begin = [], 0
    for path in paths:
        with open(path, encoding="ascii") as file:
            found = list(csv.DictReader(file))
        for row in found:
            row["repetition"] = str(int(row["repetition"]) + begin)
        begin += 1 + max((int(row["repetition"]) for row in found), default=0)
        rows += found
    with open(out, "w", encoding="ascii", newline="") as file:
        writer = csv.DictWriter(file, lines_of.HEADER.split(","), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = os.path.dirname(os.path.abspath(sys.argv[1]))
    path = sys.argv[1]
    if len(sys.argv) > 2:
        path = os.path.join(folder, "joined.csv")
        join(sys.argv[1:], path)
    write(path, folder)


if __name__ == "__main__":
    main()
