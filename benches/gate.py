"""plimsoll gate: how often it calls a machine sick that is not, quiet and beside an endless loop, and which faults that are made here it finds.

ROUNDS gates of each (500), each fault FAULTS times (3), then WRONG gates of level 2 (100) of a machine one of whose CPUs inverts a bit of a kernel's answer once in 1000 bursts. PARTS names some of
them: quiet, loop, faults, wrong. All take hours, so it runs only where it is named. The history is made first, in a directory below HOME, because a file system in memory has no disk. Every process,
control group and network namespace is gone at the end."""

import collections
import contextlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from netns import Veth
from shared import CPUS, PLIMSOLL, Missing, metric_of, table

GATES = int(os.environ.get("ROUNDS", "500"))
FAULTS = int(os.environ.get("FAULTS", "3"))
WRONG = int(os.environ.get("WRONG", "100"))
PARTS = os.environ.get("PARTS", "quiet,loop,faults,wrong").split(",")
# A program that computes wrongly on request, which a released one never does.
WRONG_PROGRAM = os.environ.get("WRONG_PROGRAM", "target/wrong/release/plimsoll")
WRONG_BUILD = "cargo build --release --package plimsoll --features plimsoll-metal/testing --target-dir target/wrong"
PROBABILITY = 0.001
# The fewest runs that say what is usual.
RUNS = 3
PERIOD = 100_000
CGROUPS = pathlib.Path("/sys/fs/cgroup")
# What the gates of a part are called, and what runs beside them.
MACHINES = {"quiet": ("quiet", None), "loop": ("an endless loop on one CPU", ["sh", "-c", "while :; do :; done"])}
ANSWERS = {0: "healthy", 1: "sick", 6: "unknown"}


def bench():
    """The false alarms, then the faults."""
    if "gate" not in sys.argv[1:]:
        raise Missing("takes hours: benches/run gate")
    if os.geteuid() != 0:
        raise Missing("needs root for control groups and network namespaces")
    unknown = set(PARTS) - {*MACHINES, "faults", "wrong"}
    if unknown:
        raise RuntimeError(f"PARTS: no part {sorted(unknown)[0]!r}: choose among quiet, loop, faults, wrong")
    if "wrong" in PARTS:
        wrong_answers()
    if PARTS == ["wrong"]:
        return
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="plimsoll-bench-", dir=pathlib.Path.home()))
        base = Gate(["--store", f"{home}/history"])
        print(f"\nlevel 1, history of {RUNS} runs of `gate`", flush=True)
        figures = history(base.also("--dir", home))
        alarms(base)
        if "faults" in PARTS:
            faults(base, home, figures)


class Gate:
    """A command line of the gate: what stands before the program, and its options."""

    def __init__(self, options, before=()):
        self.options, self.before = list(options), list(before)

    def also(self, *options):
        return Gate([*self.options, *options], self.before)

    def under(self, *before):
        return Gate(self.options, [*before, *self.before])

    def run(self):
        """Its document. An exit code that is no answer ends the bench."""
        argv = [*self.before, PLIMSOLL, "gate", "--format", "json", "--quiet", *self.options]
        begun = time.monotonic()
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        if ANSWERS.get(ran.returncode) is None:
            raise RuntimeError(f"{' '.join(argv)}: exit {ran.returncode}: {ran.stderr.strip()[-400:]}")
        made = json.loads(ran.stdout)
        if made["answer"] != ANSWERS[ran.returncode]:
            raise RuntimeError(f"answer {made['answer']}, exit {ran.returncode}")
        return {**made, "took": time.monotonic() - begun}


def history(gate):
    """Runs of the plan of level 1, with the same options. They have time for all cases, also while others use the machine. The figures of all."""
    made = []
    for _ in range(RUNS):
        argv = [*gate.before, PLIMSOLL, "run", "gate", "--budget", "60s", "--json", "-", "--quiet", *gate.options]
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=300)
        if ran.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: exit {ran.returncode}: {ran.stderr.strip()[-400:]}")
        made += [metric_of(measurement) for measurement in json.loads(ran.stdout)["measurements"]]
    return made


def half(figures, benchmark):
    """Half of the middle figure of a benchmark."""
    values = [one.value for one in figures if one.case.startswith(benchmark) and one.unit]
    if not values:
        raise Missing(f"no run has a figure of {benchmark}")
    return int(statistics.median(values) / 2)


def alarms(gate):
    """Gates of a machine that nothing is wrong with."""
    rows, sick = [], []
    for name, beside in [MACHINES[part] for part in PARTS if part in MACHINES]:
        with process(beside):
            made = []
            for number in range(GATES):
                made.append(gate.run())
                print(f"{name}: {number + 1} of {GATES}: {made[-1]['line']}", file=sys.stderr)
        answers = collections.Counter(one["answer"] for one in made)
        causes = collections.Counter(one["cause"] or "none" for one in made if one["answer"] == "unknown")
        told = ", ".join(f"{cause} {count}" for cause, count in causes.most_common())
        times = [one["took"] for one in made]
        rows.append((name, len(made), *(answers[answer] for answer in ("healthy", "unknown", "sick")), told or "-", took(times)))
        sick += [one["line"] for one in made if one["answer"] == "sick"]
    if not rows:
        return
    table("Nothing is wrong", ["machine", "gates", "healthy", "unknown", "sick", "causes of the unknown", "median and longest time"], rows)
    for line in sick:
        print(f"\nfalse alarm: {line}")


def faults(gate, home, figures):
    """Gates of a machine with a fault, one kind after the other."""
    rows = []
    # A history has the quota of its runs, so a new one is known without measuring.
    unaided = Gate(["--store", "none"])
    for name, fault in [
        ("CPU quota of 50 % of a CPU, no history", lambda stack: quota(stack, unaided, 0.5)),
        ("CPU quota of 90 % of a CPU, no history", lambda stack: quota(stack, unaided, 0.9)),
        ("CPU quota of 90 % of a CPU", lambda stack: quota(stack, gate, 0.9)),
        ("one CPU fewer", lambda stack: fewer_cpus(gate)),
        ("disk held to half of its usual rate", lambda stack: slow_disk(stack, gate.also("--dir", home), home, half(figures, "disk.io"))),
        ("link held to half of its usual rate", lambda stack: slow_link(stack, home)),
        ("a neighbour takes the bandwidth of the memory", lambda stack: neighbour(stack, gate)),
    ]:
        try:
            with contextlib.ExitStack() as stack:
                faulty, case = fault(stack)
                made = [faulty.run() for _ in range(FAULTS)]
        except Missing as missing:
            rows.append((name, f"skipped: {missing}", "-", "-"))
            continue
        answers = collections.Counter(one["answer"] for one in made)
        counts = ", ".join(f"{answer} {count} of {len(made)}" for answer, count in answers.most_common())
        lines = collections.Counter(one["line"] + state(one, case) for one in made)
        rows.append((name, counts, "<br>".join(f"`{line}`" for line in lines), took([one["took"] for one in made])))
    table("Something is wrong", ["fault", "answer", "lines", "median and longest time"], rows)


def wrong_answers():
    """Gates of level 2 while one CPU inverts a bit of the answers of one kernel: how many name both."""
    if not pathlib.Path(WRONG_PROGRAM).exists():
        raise Missing(f"{WRONG_PROGRAM}: {WRONG_BUILD}")
    words = ["cpu", "--only", "cpu.peak", "--op", "all", "--type", "all", "--isa", "all", "--samples", "2", "--sample-time", "2ms"]
    argv = [PLIMSOLL, *words, "--json", "-", "--store", "none", "--quiet"]
    measured = json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=300).stdout)["measurements"]
    kernels = {one["achieved"]["kernel"] for one in measured if "kernel" in one["achieved"]}
    # Those of cpu.peak, without the ones that only it has, and memory.
    kernels = sorted(name for name in kernels if not name.endswith("_in_turn")) + ["memory_l1", "memory_l2", "memory_l3"]
    found, times, missed = 0, [], []
    for number in range(WRONG):
        cpu, kernel = random.choice(sorted(os.sched_getaffinity(0))), random.choice(kernels)
        argv = [WRONG_PROGRAM, "gate", "--level", "2", "--store", "none", "--format", "json", "--quiet"]
        begun = time.monotonic()
        flip = {"PLIMSOLL_TEST_FLIP": f"{cpu}:{kernel}:{PROBABILITY}"}
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=300, env={**os.environ, **flip})
        times.append(time.monotonic() - begun)
        made = json.loads(ran.stdout)
        is_found = made["answer"] == "sick" and f"CPU {cpu} computed" in made["line"] and f" in {kernel} " in made["line"]
        found += is_found
        missed += [] if is_found else [f"CPU {cpu}, {kernel}: {made['line']}"]
        print(f"wrong: {number + 1} of {WRONG}, {found} found: {made['line']}", file=sys.stderr, flush=True)
    columns = ["one bit of one kernel, once in", "gates of level 2", "sick with CPU and kernel", "median and longest time"]
    table("A CPU computes wrongly", columns, [(f"{1 / PROBABILITY:.0f} bursts", WRONG, found, took(times))])
    for line in missed:
        print(f"\nmissed: {line}")


def took(times):
    return f"{statistics.median(times):.1f} s, {max(times):.1f} s"


def state(document, case):
    """What became of the case that the fault is about, where the answer is another."""
    if case is None or document["answer"] == "sick":
        return ""
    for row in document["checks"]:
        if row["case"].startswith(case):
            return f" ({case}: {row['state']})"
    why = [row["reason"] for row in document["not_judged"] if row["case"].startswith(case)]
    return f" ({case}: {why[0] if why else 'not measured'})"


def quota(stack, gate, cpus):
    """A CPU quota."""
    if (CGROUPS / "cpu").is_dir():
        files = {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": int(cpus * PERIOD)}
    else:
        files = {"cpu.max": f"{int(cpus * PERIOD)} {PERIOD}"}
    return gate.under(*joining(group(stack, "cpu", files))), None


def fewer_cpus(gate):
    """An affinity of all CPUs but one."""
    if CPUS < 2:
        raise Missing("needs two CPUs")
    kept = sorted(os.sched_getaffinity(0))[:-1]
    return gate.under("taskset", "-c", ",".join(map(str, kept))), None


def slow_disk(stack, gate, home, rate):
    """A limit of the control group on the device below `home`."""
    device = whole_device(home)
    if (CGROUPS / "blkio").is_dir():
        controller, files = "blkio", {"blkio.throttle.read_bps_device": f"{device} {rate}"}
    else:
        controller, files = "io", {"io.max": f"{device} rbps={rate}"}
    return gate.under(*joining(group(stack, controller, files))), "disk.io"


def whole_device(path):
    """The numbers of the device that a file system is on; of a partition those of its disk, which alone can be limited."""
    number = os.stat(path).st_dev
    device = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        raise Missing(f"{path} is on no block device")
    device = device.resolve()
    return ((device.parent if (device / "partition").exists() else device) / "dev").read_text().strip()


def slow_link(stack, home):
    """A token bucket on the near end of a link between two namespaces, which have a history of their own."""
    veth = stack.enter_context(Veth.pair())
    server = stack.enter_context(veth.serving())
    gate = Gate(["--store", f"{home}/link", *server], veth.near)
    rate = half(history(gate), "network.tcp")
    tc = ["tc", "-n", veth.names[0], "qdisc", "add", "dev", "veth0", "root", "tbf"]
    subprocess.run([*tc, "rate", f"{rate}bit", "burst", "256k", "latency", "50ms"], check=True)
    return gate, "network.tcp"


def neighbour(stack, gate):
    """A run of plimsoll's own that reads memory with all threads."""
    words = ["memory", "--only", "memory.bandwidth", "--op", "read", "--threads", str(CPUS), "--samples", "10000", "--sample-time", "1s"]
    stack.enter_context(process([PLIMSOLL, *words, "--store", "none", "--quiet"]))
    # Until it has set up its memory.
    time.sleep(3)
    return gate, "memory.bandwidth"


@contextlib.contextmanager
def process(argv):
    """A process that runs meanwhile; none without words."""
    if argv is None:
        yield
        return
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        if running.poll() is not None:
            raise RuntimeError(f"{' '.join(argv)} ended by itself: {running.returncode}")
    finally:
        running.terminate()
        running.wait()


def group(stack, controller, files):
    """A control group with these files; of the second version where the controller is there."""
    first = CGROUPS / controller
    if not first.is_dir() and controller not in (CGROUPS / "cgroup.subtree_control").read_text().split():
        raise Missing(f"no control groups have {controller}")
    made = (first if first.is_dir() else CGROUPS) / f"plimsoll-bench-{os.getpid()}"
    made.mkdir()
    stack.callback(remove, made)
    for name, text in files.items():
        (made / name).write_text(str(text))
    return made


def remove(made):
    """Removes a control group, as soon as its last process has ended."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            return made.rmdir()
        time.sleep(0.1)
    raise RuntimeError(f"cannot remove {made}: processes are left in it")


def joining(made):
    """What stands before a command that is to run in the group."""
    return ["sh", "-c", 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"', "sh", str(made)]
