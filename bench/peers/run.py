#!/usr/bin/env python3
# run.py - measures tcdist beside Open MPI, MPICH and Gloo, interleaved, and writes the results.
# SPDX-License-Identifier: Apache-2.0
"""Builds the programs of this folder, runs them in turn several times over and writes
peers.csv, verdicts.csv, peers.md and peers.svg.  A library that is not installed is left out."""
import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

sys.dont_write_bytecode = True  # the tree stays as it is
import report  # noqa: E402
from results import BOUND, HEADER  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HARNESS = ["harness.c", "check.c", "sample.c", "overlap.c", "sets.c"]
# What each set measures, for --help.
SETS = {
    "all_reduce": "all-reduces of f32 from 4 B to 64 MiB, one after the other; up to 1 MiB back to "
                  "back as well",
    "collectives": "barrier, and reduce-scatter, all-gather, broadcast and all-to-all of the same "
                   "sizes",
    "types": "all-reduces of as many elements in f32, bf16 and f16, from 1 MiB of f32 on",
    "many": "64 all-reduces started before the first is waited for, of 4 KiB and of 256 KiB each",
    "urgent": "one all-reduce of 4 KiB with priority beside one of 256 MiB that is under way, "
              "and without that one",
    "overlap": "how much of an all-reduce of 64 KiB, 1 MiB and 16 MiB hides behind computing, and "
               "what the computing loses",
    "waiting": "processor time of a rank that waits for one that does not come yet",
}
# What only a library with a thread of its own can do well.
SETS_OF_THREADS = ["overlap", "waiting"]
FLAGS = ["-O2", "-D_GNU_SOURCE", "-Wall", "-I" + HERE]

# Memory that the peers free stays mapped: faults would otherwise be most of their large calls.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
          "MALLOC_TOP_PAD_": str(256 << 20)}

OPEN_MPI_TCP = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
                "--mca", "btl_tcp_if_include", "lo"]
OPEN_MPI_SHM = ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"]
OPEN_MPI_UCX = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any",
                "--mca", "pml_ucx_devices", "any", "-x", "UCX_TLS=posix,cma,self"]
MPICH_TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "MPIR_CVAR_NOLOCAL": "1"}
OPEN_MPI_DOUBLING = ["--mca", "coll_tuned_use_dynamic_rules", "1",
                     "--mca", "coll_tuned_allreduce_algorithm", "3"]

# Gloo's calls that block or poll on the calling thread send before they receive: with more than
# the sockets hold, both sides wait for ever.
GLOO_BLOCKING_MAX = 4 << 20
GLOO_VARIANTS = ["ring", "ring_chunked-sleep", "ring_chunked-busy",
                 "halving_doubling-sleep", "halving_doubling-block", "halving_doubling-busy"]


# Processors that other programs may keep busy; what the clock ticks miss of our own is below it.
QUIET = 0.15


class Program:
    """One library in one variant."""

    def __init__(self, library, variant, path, launcher=None, environment=None,
                 bytes_max=64 << 20, pin=False, polls=False, sets=None):
        self.library = library
        self.variant = variant
        self.path = path
        self.launcher = launcher  # of an MPI: what starts its ranks, given their number
        self.environment = environment or {}
        self.bytes_max = bytes_max
        self.pin = pin
        self.polls = polls  # without ever giving the processor away
        self.sets = sets or SETS

    def command(self, ranks, args, control, pin):
        words = [self.path, "--variant", self.variant, "--budget", str(args.budget),
                 "--min-bytes", str(args.min_bytes),
                 "--max-bytes", str(min(self.bytes_max, args.max_bytes)),
                 "--sets", ",".join(name for name in args.sets if name in self.sets)]
        if args.sizes:
            words += ["--sizes", ",".join(str(size) for size in args.sizes)]
        if self.launcher is None:
            return words + ["--ranks", str(ranks)] + (["--pin"] if pin else [])
        words += ["--pin"] if pin and ranks > os.cpu_count() else []
        return [*self.launcher(ranks), *words, "--control", control]

    def places(self, ranks, args):
        """Whether its ranks keep to a processor each: where they share them, free and bound."""
        if ranks <= os.cpu_count():
            return [self.pin]
        return {"free": [False], "bound": [True], "both": [False, True]}[args.bind]


def open_mpi(options):
    """How Open MPI starts ranks with these options."""
    program = shutil.which("mpirun.openmpi") or shutil.which("mpirun")

    def launcher(ranks):
        place = ["--oversubscribe"] if ranks > os.cpu_count() else ["--bind-to", "core"]
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        return [program, *root, *place, "-np", str(ranks), *options]
    return launcher


def mpich(ranks):
    place = [] if ranks > os.cpu_count() else ["-bind-to", "core"]
    return ["mpirun.mpich", *place, "-n", str(ranks)]


def compile_peer(command):
    """True when it compiled; what the compiler says is the reader's to see."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, check=False).returncode == 0


def build_harness(build):
    """The object files that every peer is linked with."""
    objects = []
    for name in HARNESS:
        objects.append(os.path.join(build, name.replace(".c", ".o")))
        subprocess.run(["cc", "-std=c11", *FLAGS, "-c", os.path.join(HERE, name),
                        "-o", objects[-1]], check=True)
    return objects


def build_mpi(build, transport, objects):
    """Open MPI and MPICH."""
    source = os.path.join(HERE, "mpi", "bench_mpi.c")
    path = os.path.join(build, "bench_open_mpi")
    mpicc = "mpicc.openmpi" if shutil.which("mpicc.openmpi") else "mpicc"
    programs = []

    if compile_peer([mpicc, "-std=c11", *FLAGS, source, *objects, "-o", path]):
        variants = {"default": OPEN_MPI_SHM, "ucx": OPEN_MPI_UCX}
        if transport == "tcp":
            variants = {"default": OPEN_MPI_TCP,
                        "recursive_doubling": OPEN_MPI_TCP + OPEN_MPI_DOUBLING}
        programs += [Program("open_mpi", name, path, open_mpi(options))
                     for name, options in variants.items()]
    path = os.path.join(build, "bench_mpich")
    if compile_peer(["mpicc.mpich", "-std=c11", *FLAGS, source, *objects, "-o", path]):
        programs.append(Program("mpich", "default", path, mpich,
                                MPICH_TCP if transport == "tcp" else None, polls=True))
    return programs


def build_gloo(build, objects):
    path = os.path.join(build, "bench_gloo")
    programs = []

    if os.path.exists("/usr/include/gloo/config.h") and compile_peer(
            ["g++", "-std=c++17", *FLAGS, os.path.join(HERE, "gloo/bench_gloo.cc"), *objects,
             "-lgloo", "-lpthread", "-o", path]):
        for variant in GLOO_VARIANTS:
            blocking = variant.endswith(("-busy", "-block"))
            programs.append(Program("gloo", variant, path,
                                    bytes_max=GLOO_BLOCKING_MAX if blocking else 64 << 20,
                                    pin=blocking, polls=variant.endswith("-busy")))
    return programs


def build_peers(build, transport):
    """The programs of the peers that are installed here; Gloo has no shared memory."""
    objects = build_harness(build)
    programs = build_mpi(build, transport, objects)
    return programs + (build_gloo(build, objects) if transport == "tcp" else [])


def busy_seconds():
    """Processor time of the whole machine since it started."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(word) for word in file.readline().split()[1:]]
    return (sum(fields[0:3]) + sum(fields[5:7])) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def end(process):
    """Ends the process group of one run, and nothing else."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sig)
            process.wait(timeout=3)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            pass


def go_first():
    """In the new session of a run: other programs get a processor when this one sleeps."""
    try:
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write("-20")
    except OSError:
        pass  # a kernel without groups of sessions
    os.nice(-20)


def run_once(program, ranks, args, pin):
    """The CSV lines of one run, and how many processors were busy with something else."""
    fd, control = tempfile.mkstemp(prefix="tcdist-peers.", dir="/dev/shm")
    os.close(fd)
    begin, busy, own = time.monotonic(), busy_seconds(), own_seconds()
    environment = {**os.environ, **MALLOC, "TCDIST_SHM": str(int(args.transport == "shm")),
                   **program.environment}
    process = subprocess.Popen(program.command(ranks, args, control, pin), env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True,
                               preexec_fn=go_first if args.first else None)
    try:
        out, err = process.communicate(timeout=args.timeout)
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        err = "timeout\n" + err
    except BaseException:
        end(process)
        raise
    finally:
        os.unlink(control)
    wall = time.monotonic() - begin
    foreign = max(0.0, busy_seconds() - busy - (own_seconds() - own)) / wall
    lines = [line for line in out.splitlines() if line.count(",") == 9]
    if process.returncode != 0:
        print("  %s %s: exit code %s\n%s" % (program.library, program.variant, process.returncode,
                                             err[-500:]), file=sys.stderr)
    return lines, foreign


def say_waits(seconds, busy):
    """The first time with what it is good for and how to do without."""
    print("waiting for a quiet machine, at most %g s: other programs keep %.2f processors busy%s"
          % (seconds, busy, "" if say_waits.has_said else
             " (%g count as quiet; --patience 0 goes on at once, with figures that they disturb)"
             % QUIET), flush=True)
    say_waits.has_said = True


say_waits.has_said = False


def wait_for_quiet(seconds):
    """Waits until the machine has nothing else to do, at most so long."""
    end_at = time.monotonic() + seconds
    is_said = False
    while time.monotonic() < end_at:
        busy, begin = busy_seconds(), time.monotonic()
        time.sleep(0.3)
        busy = (busy_seconds() - busy) / (time.monotonic() - begin)
        if busy <= QUIET:
            return
        if not is_said:
            say_waits(seconds, busy)
            is_said = True


def run_quietly(program, ranks, args, pin):
    """The least disturbed of a few runs."""
    best = None
    for _ in range(args.attempts):
        wait_for_quiet(args.patience)
        lines, foreign = run_once(program, ranks, args, pin)
        if lines and (best is None or foreign < best[1]):
            best = lines, foreign
        if not lines or foreign <= QUIET:
            break
    return best or ([], 0.0)


def transport_name(transport):
    """Which congestion control the peers get decides over much of TCP."""
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as file:
        is_reno = file.read().strip() == "reno"
    return "tcp-reno" if transport == "tcp" and is_reno else transport


def measure_one(program, ranks, args, pin, place):
    """One run of a program, as lines of the file."""
    repetition, transport, csv = place
    lines, foreign = run_quietly(program, ranks, args, pin)
    is_bound = pin and ranks > os.cpu_count()
    variant = program.variant + (BOUND if is_bound else "")
    print("repetition %d: %d ranks: %-9s %-29s %3d lines, %.2f processors busy with other things"
          % (repetition, ranks, program.library, variant, len(lines), foreign), flush=True)
    for line in lines:
        library, _, rest = line.split(",", 2)
        csv.write("%d,%.2f,%s,%s,%s,%s\n"
                  % (repetition, foreign, transport, library, variant, rest))
    csv.flush()


def measure(programs, args, csv):
    transport = transport_name(args.transport)
    for repetition in range(args.repetitions):
        for ranks in args.ranks:
            # Each repetition begins with another program: nobody is always first.
            turn = repetition % len(programs)
            for program in programs[turn:] + programs[:turn]:
                if not set(args.sets) & set(program.sets):
                    continue
                if ranks > os.cpu_count() and program.polls:
                    continue
                for pin in program.places(ranks, args):
                    measure_one(program, ranks, args, pin, (repetition, transport, csv))


def parse():
    sets = "".join("  %-12s %s\n" % (name, ("\n" + " " * 15).join(textwrap.wrap(what, 80)))
                   for name, what in SETS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="sets:\n" + sets + "\nEvery program runs --repetitions times, in turn with the "
        "others, and each line takes\n--budget seconds of a run: all sets with 2 and 4 ranks take "
        "an hour or more, one set\nwith --ranks 2 --repetitions 3 --budget 0.01 a minute.")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                        help="where tcdist is built (build/release)")
    parser.add_argument("--out", help="folder for the results (BUILD/peers)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4],
                        help="numbers of ranks, one after the other (2 4)")
    parser.add_argument("--repetitions", type=int, default=5,
                        help="how often each program runs; the median counts (5)")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds for one line (0.1)")
    parser.add_argument("--attempts", type=int, default=3,
                        help="runs of which the least disturbed one counts, unless the first is "
                        "not disturbed (3)")
    parser.add_argument("--patience", type=float, default=10,
                        help="seconds to wait for a quiet machine before a run; 0: go on at once "
                        "(10)")
    parser.add_argument("--first", action="store_true",
                        help="run before everything else on the machine (needs root)")
    parser.add_argument("--min-bytes", type=int, default=0, help="no smaller sizes (0)")
    parser.add_argument("--max-bytes", type=int, default=64 << 20,
                        help="no larger sizes (%d)" % (64 << 20))
    parser.add_argument("--sizes", type=int, nargs="+",
                        help="these sizes in bytes alone, of those that a set has")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET",
                        help="what to measure: some of the sets below (all)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one run (300)")
    parser.add_argument("--tcdist", nargs="+", default=["manual"], metavar="VARIANT",
                        help="variants of tcdist: manual (who waits turns the loop) or thread, "
                        "with -fast (TC_NUMERICS_FAST), with -buffer (memory of tc_buffer); "
                        "overlap and waiting are measured with thread, too (manual)")
    parser.add_argument("--transport", choices=["tcp", "shm"], default="tcp",
                        help="TCP over loopback, or shared memory (tcp)")
    parser.add_argument("--bind", choices=["free", "bound", "both"], default="both",
                        help="more ranks than processors: run where the system puts them, bound to "
                        "one processor each, or both, of which the better counts (both)")
    parser.add_argument("--only", metavar="TEXT",
                        help="only libraries with this in their name: tcdist, open_mpi, mpich, "
                        "gloo (all that are built here)")
    return parser.parse_args()


def main():
    args = parse()
    out = args.out or os.path.join(args.build, "peers")
    own = os.path.join(args.build, "bench", "peers")
    csv_path = os.path.join(out, "peers.csv")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.makedirs(out, exist_ok=True)
    programs = build_peers(out, args.transport)
    if os.path.exists(own):
        programs = [Program("tcdist", name, own, pin=not name.startswith("thread"))
                    for name in args.tcdist] + (
                        [] if "thread" in args.tcdist
                        else [Program("tcdist", "thread", own, sets=SETS_OF_THREADS)]) + programs
    programs = [p for p in programs if args.only is None or args.only in p.library]
    if not programs and args.only is not None:
        sys.exit("run.py: nothing to measure: no library that is built here has '%s' in its name"
                 % args.only)
    if not programs:
        sys.exit("run.py: nothing to measure: build tcdist with -DTCDIST_BENCH=ON, or install "
                 "libopenmpi-dev, libmpich-dev or libgloo-dev")
    with open(csv_path, "w", encoding="ascii") as csv:
        csv.write(HEADER + "\n")
        measure(programs, args, csv)
    files = report.write(csv_path, out)
    with open(os.path.join(out, "peers.md"), encoding="utf-8") as file:
        print("\n" + file.read())
    print("results in %s: %s" % (out, ", ".join(files)))


if __name__ == "__main__":
    main()
