# results.py - the lines of a run, and what each of tcdist's is measured against.
# SPDX-License-Identifier: Apache-2.0
"""Medians by library, variant and line; targets.csv; verdicts."""
import collections
import csv
import fnmatch
import itertools
import os
import statistics

HEADER = ("repetition,foreign_cpus,transport,library,variant,op,dtype,metric,ranks,bytes,samples,"
          "median,best")
TARGETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets.csv")

# Behind a variant whose ranks were bound, more of them than processors.
BOUND = "-bound"

Line = collections.namedtuple("Line", "transport ranks op dtype metric bytes")
Entry = collections.namedtuple("Entry", "value library variant line")
Verdict = collections.namedtuple("Verdict", "own peer ratio low high target verdict")

# Shares in per cent, not times; of those that are hidden more is better.
SHARES = ("hidden", "hidden_beside", "slowdown", "slowdown_beside", "wait_cpu")
# Measured for the sake of another line.
HELPERS = ("urgent_idle", "in_turn")


def better(entries, line):
    """The best of several, or None: of what is hidden the most, else the least."""
    choose = max if line.metric.startswith("hidden") else min
    return choose(entries, default=None, key=lambda entry: entry.value)


class Results:
    """Values of each repetition by library, variant and line."""

    def __init__(self, path):
        self.values = collections.defaultdict(dict)
        with open(path, encoding="ascii") as file:
            for row in csv.DictReader(file):
                line = Line(row["transport"], int(row["ranks"]), row["op"], row["dtype"],
                            row["metric"], int(row["bytes"]))
                key = row["library"], row["variant"], line
                self.values[key][int(row["repetition"])] = float(row["median"])

    def lines(self):
        return sorted({key[2] for key in self.values})

    def entry(self, library, variant, line):
        values = self.values.get((library, variant, line))
        return Entry(statistics.median(values.values()), library, variant, line) if values else None

    def own(self, line):
        """tcdist's entries, one for each variant that has the line: bound, if that is better."""
        def name(variant):
            return variant.removesuffix(BOUND)

        variants = sorted({key[1] for key in self.values
                           if key[0] == "tcdist" and key[2] == line}, key=name)
        ways = itertools.groupby(variants, name)
        return [better([self.entry("tcdist", variant, line) for variant in both], line)
                for _, both in ways]

    def best(self, line, library=None):
        """The best entry of the peers, or of one library; of many at once in turn counts too."""
        lines = {line}
        if line.metric == "many":
            lines.add(line._replace(metric="in_turn"))
        found = [self.entry(*key) for key in self.values if key[2] in lines and (
            key[0] == library if library else key[0] != "tcdist")]
        return better(found, line)

    def ratios(self, own, other):
        """One for each repetition that has both."""
        mine = self.values[own.library, own.variant, own.line]
        theirs = self.values[other.library, other.variant, other.line]
        return sorted(mine[i] / theirs[i] for i in mine if i in theirs and theirs[i] > 0)


def read_targets(path=TARGETS):
    with open(path, encoding="ascii") as file:
        return list(csv.DictReader(file))


def matches(target, own):
    line = own.line
    names = {"transport": line.transport, "ranks": str(line.ranks),
             "variant": own.variant.removesuffix(BOUND),
             "op": line.op, "dtype": line.dtype, "metric": line.metric}
    return (int(target["bytes_min"]) <= line.bytes
            and (not target["bytes_max"] or line.bytes <= int(target["bytes_max"]))
            and all(any(fnmatch.fnmatchcase(name, pattern) for pattern in target[field].split())
                    for field, name in names.items()))


def find_target(targets, own):
    """The first row that speaks of the line, or None."""
    return next((target for target in targets if matches(target, own)), None)


def compared(results, own, target):
    """The entry whose time is the unit."""
    against = target["against"] if target else "peer"
    if against == "f32":
        line = own.line._replace(dtype="f32", bytes=2 * own.line.bytes)
        return results.entry("tcdist", own.variant, line)
    if against == "idle":
        return results.entry("tcdist", own.variant, own.line._replace(metric="urgent_idle"))
    return results.best(own.line)


def words(limit, low, high, value):
    if value <= limit:
        return "met" if high <= limit else "met; not in every repetition"
    return "missed" if low > limit else "missed; met in some repetitions"


def judge_share(results, own, target):
    values = sorted(results.values[own.library, own.variant, own.line].values())
    low, high, peer = values[0], values[-1], results.best(own.line)
    if target is None:
        return Verdict(own, peer, None, low, high, "", "no target")
    limit = float(target["limit"])
    if target["against"] == "least":
        said = words(-limit, -high, -low, -own.value)
    else:
        said = words(limit, low, high, own.value)
    return Verdict(own, peer, None, low, high, "%s %g %%" % (target["against"], limit), said)


def judge(results, own, targets):
    target = find_target(targets, own)
    if own.line.metric in SHARES:
        return judge_share(results, own, target)
    other = compared(results, own, target)
    if other is None or other.value <= 0:
        return Verdict(own, None, None, None, None, "", "nothing to compare with")
    ratio = own.value / other.value
    spread = results.ratios(own, other) or [ratio]
    if target is None:
        return Verdict(own, other, ratio, spread[0], spread[-1], "", "no target")
    said = words(float(target["limit"]), spread[0], spread[-1], ratio)
    return Verdict(own, other, ratio, spread[0], spread[-1], target["limit"], said)


def judge_all(results):
    targets = read_targets()
    return [judge(results, own, targets) for line in results.lines()
            if line.metric not in HELPERS for own in results.own(line)]
