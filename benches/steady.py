"""plimsoll steady: how often it calls a quiet machine disturbed, whether it finds what is injected for half of a run, and what it costs.

ROUNDS runs of each quiet command (200), INJECTED runs of each disturbance (100), PAIRS runs with and without it (200). PARTS names some of them (quiet, injected, cost), ONLY some disturbances by their first words. All take hours, so it runs only
where it is named, on a machine that nobody else uses. A disturbance counts where it took at least 5 % of the command's time. Every process and control group is gone at the end."""

import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from gate import CGROUPS, group, process
from shared import CPUS, PLIMSOLL, Missing, table

RUNS = int(os.environ.get("ROUNDS", "200"))
INJECTED = int(os.environ.get("INJECTED", "100"))
PAIRS = int(os.environ.get("PAIRS", "200"))
PARTS = os.environ.get("PARTS", "quiet,injected,cost").split(",")
ONLY = tuple(os.environ.get("ONLY", "").split(","))
SECONDS = 4.0
START, LENGTH = 1.0, 2.0
TOLERANCE = 0.5
MIN_EFFECT = 0.05
# A loop of a shell: its time varies by 0.5 % from start to start, that of Python's by 6 %.
SPIN = 'i=0; while [ $i -lt "$0" ]; do i=$((i+1)); done'
# Copies MiB count times, into memory that is there: a copy with a place of its own would be bound by page faults.
COPY = "import sys\na, b = (bytearray(int(sys.argv[1]) << 20) for _ in range(2))\nb = memoryview(b)\nfor _ in range(int(sys.argv[2])): b[:] = a"


def bench():
    """False alarms, then injected disturbances, then the cost."""
    if "steady" not in sys.argv[1:]:
        raise Missing("takes hours: benches/run steady")
    if CPUS < 2 or os.geteuid() != 0:
        raise Missing("needs two CPUs, and root for control groups")
    with contextlib.ExitStack() as stack:
        home = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plimsoll-bench-", dir=pathlib.Path.home())))
        commands = workloads(home)
        if "quiet" in PARTS:
            quiet(commands, home)
        if "injected" in PARTS:
            injected(commands, home)
            baselines(home)
        if "cost" in PARTS:
            cost(commands["CPU"])


def workloads(home):
    """Commands of some SECONDS each: one that sleeps, one bound by a CPU, by memory, by the disk."""
    cpu = str(sorted(os.sched_getaffinity(0))[0])
    pinned = ["taskset", "-c", cpu]

    def calibrated(words, count):
        """The count of passes that takes the wanted time here."""
        begun = time.monotonic()
        subprocess.run([*words, str(count)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [*words, str(max(1, int(count * SECONDS / (time.monotonic() - begun))))]

    writes = ["sh", "-c", 'exec dd if=/dev/zero of="$0" bs=64k oflag=dsync conv=notrunc count="$1"', str(home / "data")]
    return {
        "sleep": ["sleep", str(SECONDS)],
        "CPU": calibrated([*pinned, "sh", "-c", SPIN], 1_000_000),
        "memory": calibrated([*pinned, "python3", "-c", COPY, "128"], 100),
        # The first pass makes the file, which takes longer than to overwrite it.
        "disk": calibrated(writes, int(calibrated(writes, 1000)[-1])),
    }


def steady(words, home, before=(), on_start=None, options=()):
    """Runs a command; calls `on_start` with the monotonic time when it has begun. The document of the verdict."""
    mark, output = home / "mark", home / "steady.json"
    mark.unlink(missing_ok=True)
    # The command itself marks its start; the shell becomes the command.
    marking = ["sh", "-c", ': > "$0"; exec "$@"', str(mark), *words]
    argv = [*before, PLIMSOLL, "steady", "--quiet", "--store", "none", "--output", str(output), *options, "--", *marking]
    running = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        if on_start:
            while not mark.exists() and running.poll() is None:
                time.sleep(0.005)
            on_start(time.monotonic(), running)
        running.wait(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    if running.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit {running.returncode}")
    return json.loads(output.read_text())


def quiet(commands, home):
    """Runs without a disturbance of ours."""
    rows, lines = [], []
    for name, words in commands.items():
        made = []
        for number in range(RUNS):
            made.append(steady(words, home))
            print(f"{name}: {number + 1} of {RUNS}: {made[-1]['line']}", file=sys.stderr, flush=True)
        still = sum(one["answer"] == "held-still" for one in made)
        shares = [one["observer_share"] for one in made if one["observer_share"] is not None]
        rows.append((name, RUNS, still, f"{100 * statistics.median(shares):.2f} %" if shares else "-"))
        lines += [f"{name}: {one['line']}" for one in made if one["answer"] != "held-still"]
    table("Quiet", ["command", "runs", "held still", "observation, of one CPU"], rows)
    for line in lines:
        print(f"\nnot still: {line}")


def injected(commands, home):
    """Disturbances from START on for LENGTH seconds."""
    rows, lines = [], []
    for name, command, causes, disturb in [
        ("competitor on its CPU", "CPU", ["competitor"], competitor),
        ("quota of 80 %", "CPU", ["quota"], quota),
        ("neighbour in cache and memory", "memory", ["neighbour", "level"], neighbour),
        ("writer on the disk", "disk", ["disk"], writer),
        ("stop of the process group", "CPU", ["stop", "pause"], stop),
    ]:
        if not name.startswith(ONLY):
            continue
        alone = statistics.median(steady(commands[command], home)["runs"][0]["elapsed_s"] for _ in range(5))
        found = counted = 0
        for number in range(INJECTED):
            with contextlib.ExitStack() as stack:
                made, ends = disturb(stack, commands[command], home)
            run = made["runs"][0]
            if run["elapsed_s"] < alone * (1 + MIN_EFFECT):
                continue
            counted += 1
            is_found = any(span["cause"] in causes and is_near(span, ends) for span in run["spans"])
            found += is_found
            lines += [] if is_found else [f"{name} from {ends[0]:.1f} to {ends[1]:.1f} s: {made['line']}"]
            print(f"{name}: {number + 1} of {INJECTED}, {found} of {counted}: {made['line']}", file=sys.stderr, flush=True)
        rows.append((name, command, INJECTED, counted, found))
    table("Injected", ["disturbance", "command", "runs", "with an effect of 5 %", "found with its cause and time"], rows)
    for line in lines:
        print(f"\nmissed: {line}")


def baselines(home):
    """The document of another machine as baseline: one fact of it differs, each in turn."""
    if not "another machine".startswith(ONLY):
        return
    words, other = ["sleep", "0.5"], home / "other.json"
    found, lines = 0, []
    here = steady(words, home)
    for number in range(INJECTED):
        fact = sorted(here["machine"])[number % len(here["machine"])]
        other.write_text(json.dumps(here | {"machine": here["machine"] | {fact: f"other {number}"}}))
        judged = steady(words, home, options=["--baseline", str(other)])
        is_found = judged["answer"] == "another-machine" and [one["fact"] for one in judged["differences"]] == [fact]
        found += is_found
        lines += [] if is_found else [f"{fact}: {judged['line']}"]
        print(f"another machine: {number + 1} of {INJECTED}, {found}: {judged['line']}", file=sys.stderr, flush=True)
    table("Baseline of another machine", ["runs", "found with the fact that differs"], [(INJECTED, found)])
    for line in lines:
        print(f"\nmissed: {line}")


def is_near(span, ends):
    return all(abs(span[key] - end) <= TOLERANCE for key, end in zip(("from", "to"), ends, strict=True))


def during(words, home, begin, end, before=()):
    """Runs a command; calls `begin` after START and `end` LENGTH later. The document, and both times since the start of the command."""
    times = []

    def on_start(started, running):
        def act():
            time.sleep(max(0.0, started + START - time.monotonic()))
            times.append(time.monotonic() - started)
            begin(running)
            time.sleep(LENGTH)
            end(running)
            times.append(time.monotonic() - started)

        threads.append(threading.Thread(target=act))
        threads[-1].start()

    threads = []
    made = steady(words, home, before, on_start)
    for thread in threads:
        thread.join()
    # What lasts longer than the command ends with it.
    elapsed = made["runs"][0]["elapsed_s"]
    return made, [min(one, elapsed) for one in times]


def started(stack, words):
    """Functions that start and end a process."""
    inner = contextlib.ExitStack()
    stack.enter_context(inner)
    return lambda _: inner.enter_context(process(words)), lambda _: inner.close()


def competitor(stack, words, home):
    begin, end = started(stack, [*words[:3], "sh", "-c", "while :; do :; done"])
    return during(words, home, begin, end)


def neighbour(stack, words, home):
    cpu = str(sorted(os.sched_getaffinity(0))[1])
    # Of the size of a last-level cache, which it fills and which is faster than memory: so it takes most from its neighbour.
    begin, end = started(stack, ["taskset", "-c", cpu, "python3", "-c", COPY, "32", "1000000000"])
    return during(words, home, begin, end)


def writer(stack, words, home):
    script = 'while :; do dd if=/dev/zero of="$0" bs=1M count=64 oflag=direct conv=fsync 2>/dev/null; done'
    begin, end = started(stack, ["sh", "-c", script, str(home / "other")])
    return during(words, home, begin, end)


def quota(stack, words, home):
    """A quota of 80 % of a CPU for the command alone; before and after none."""
    is_first = (CGROUPS / "cpu").is_dir()
    name, none, some = ("cpu.cfs_quota_us", "-1", "80000") if is_first else ("cpu.max", "max 100000", "80000 100000")
    made = group(stack, "cpu", {})
    joined = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(made), *words]
    return during(joined, home, lambda _: (made / name).write_text(some), lambda _: (made / name).write_text(none))


def stop(stack, words, home):
    return during(words, home, lambda it: os.killpg(it.pid, signal.SIGSTOP), lambda it: os.killpg(it.pid, signal.SIGCONT))


def cost(words):
    """A CPU-bound command with and without observation, interleaved."""
    ratios, shares = [], []
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as home:
        for number in range(PAIRS):
            begun = time.monotonic()
            subprocess.run(words, check=True)
            alone = time.monotonic() - begun
            made = steady(words, pathlib.Path(home))
            ratios.append(made["runs"][0]["elapsed_s"] / alone)
            shares.append(made["observer_share"] or 0.0)
            print(f"pair {number + 1} of {PAIRS}: {ratios[-1]:.4f}", file=sys.stderr, flush=True)
    middle, share = statistics.median(ratios), statistics.median(shares)
    spread = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    columns = ["pairs", "observed ÷ alone", "standard error of the mean", "observation, of one CPU"]
    table("Cost", columns, [(PAIRS, f"{middle:.4f}", f"{spread:.4f}", f"{100 * share:.2f} %")])
