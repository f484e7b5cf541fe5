"""disk.io beside fio: the same job on the very file that plimsoll filled, a sample of each in turn.

plimsoll's worker is driven directly (its lines of JSON), so that it keeps its file and pauses while fio has the device.
The steady device is a loop device on a file in memory, held by a blkio throttle, which needs root and cgroup v1. The
throttle lets a tenth of a second's worth go at once and then holds everything back until the next tenth (blk-throttle.c,
throtl_slice), so that above ten times the depth a second most transfers take what the CPU takes. Each job is therefore
held to less than one queue a tenth: every transfer waits for the throttle, and that is the same for everybody. `bursts`
has the other case, `disk` the disk below DIR (the environment's; here: the current directory), and `pages` what the pages of
the buffers make of 1 MiB transfers there. PARTS names the parts to run (floor,steady,bursts,disk,pages), SECONDS_EACH the
seconds of a sample (2).
"""

import json
import math
import os
import pathlib
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass

from shared import HUGE, PLIMSOLL, ROUNDS, Missing, interleave, median, spread, table, tool

SECONDS = float(os.environ.get("SECONDS_EACH", "2"))
# A device that does a few transfers a second needs longer samples: what fio drains at its end, half a queue that waits a
# tenth longer than the others, is then less than a hundredth of all.
STEADY_SECONDS = float(os.environ.get("STEADY_SECONDS", "20"))
STEADY_ROUNDS = int(os.environ.get("STEADY_ROUNDS", "3"))
# The C library's default, said aloud because it may be set around us.
SMALL = HUGE.replace("=1", "=0")
SIZE = 256 << 20
MARGIN = 0.03
# One-sided 95 % quantiles of Student's t by degrees of freedom.
T = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 14: 1.761, 19: 1.729}



@dataclass(frozen=True)
class Job:
    """One job, as plimsoll and fio call it, and what the steady device lets through a second."""

    name: str
    case: str
    rw: str
    block: str
    depth: int
    held: dict

    @property
    def ring(self):
        return f"disk.io/{self.case}/block={self.block.upper()}/depth={self.depth}/size={SIZE}/threads=1/engine=io_uring/cache=direct"


def transfers(per_second):
    return {"read_iops": per_second, "write_iops": per_second}


def megabytes(per_second):
    return {"read_bps": per_second << 20, "write_bps": per_second << 20}


JOBS = [
    Job("4 KiB random read, depth 32", "op=read/pattern=random", "randread", "4k", 32, transfers(160)),
    Job("4 KiB random read, depth 1", "op=read/pattern=random", "randread", "4k", 1, transfers(10)),
    Job("1 MiB read, depth 8", "op=read/pattern=sequential", "read", "1m", 8, megabytes(40)),
    Job("1 MiB write, depth 8", "op=write/pattern=sequential", "write", "1m", 8, megabytes(40)),
    Job("4 KiB 70/30, depth 32", "op=mixed/read-share=70/pattern=random", "randrw", "4k", 32, transfers(160)),
]
BURSTS = {"read_iops": 4000, "write_iops": 4000, "read_bps": 400 << 20, "write_bps": 400 << 20}
CGROUP = pathlib.Path("/sys/fs/cgroup/blkio/plimsoll-bench")


class Worker:
    """A plimsoll worker with one prepared case."""

    def __init__(self, directory, job):
        machine = json.loads(subprocess.run([PLIMSOLL, "machine", "--json"], capture_output=True, check=True).stdout)
        self.process = subprocess.Popen([PLIMSOLL, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.ask({"begin": {"machine": machine, "options": {"dir": str(directory), "seed": 1}}})
            self.ask({"prepare": {"case": {"id": job.ring}}})
            self.ask({"sample": {"seconds": 0.5}})
            self.ask("pause")
        except RuntimeError:
            self.end()
            raise

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline() or '"the worker ended"')
        if reply == "the worker ended" or (isinstance(reply, dict) and "cannot" in reply):
            raise RuntimeError(f"plimsoll worker: {reply}")
        return reply

    def file(self):
        """The path by which another process opens the test file."""
        for link in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            if link.is_symlink() and "(deleted)" in os.readlink(link) and link.stat().st_size == SIZE:
                return str(link)
        raise RuntimeError("plimsoll's test file is not among its descriptors")

    def sample(self, seconds):
        sample = self.ask({"sample": {"seconds": seconds}})["sampled"]
        self.ask("pause")
        values = sample["values"]
        buckets = next(h["buckets"] for h in sample["histograms"] if h["metric"] == "clat")
        return values["rate"], percentile(buckets, 0.5), percentile(buckets, 0.99), values["cpu"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def percentile(buckets, share):
    """Nanoseconds below which the share lies, of [upper edge, count] ascending."""
    rank, seen = math.ceil(share * sum(count for _, count in buckets)), 0
    return next(edge for edge, count in buckets if (seen := seen + count) >= rank)


def fio(path, job, seconds, malloc=HUGE):
    """One run of fio: rate, p50 and p99 of the completion latency in ns, CPU seconds for each transfer. The percentiles
    are those of reads and writes together, by the same rule as plimsoll's, from fio's own buckets. `malloc` is the setting
    of the C library that fio runs with."""
    words = ["--name=job", f"--filename={path}", f"--size={SIZE}", f"--rw={job.rw}", f"--bs={job.block}", f"--iodepth={job.depth}"]
    words += ["--direct=1", "--ioengine=io_uring", "--registerfiles=1", "--fixedbufs=1", "--time_based", "--norandommap"]
    words += [f"--runtime={seconds}", "--ramp_time=0.5", "--randrepeat=0", "--refill_buffers", "--group_reporting"]
    words += ["--rwmixread=70", "--output-format=json+", "--allow_file_create=0"]
    told = json.loads(tool("env", malloc, "fio", *words, package="fio"))["jobs"][0]
    sides = [told[side] for side in ("read", "write") if told[side]["total_ios"]]
    merged = Counter()
    for side in sides:
        merged.update({int(edge): count for edge, count in side["clat_ns"]["bins"].items()})
    buckets = sorted(merged.items())
    # `iops` counts the queue that is drained after the time is up; `iops_mean` is of half seconds within it, which hold too
    # few transfers of one at a time, and of which a short run has none.
    done = sum(side["iops"] for side in sides)
    rate = sum(side["iops_mean"] for side in sides) if job.depth > 1 and seconds >= 1 else done
    cpu = (told["usr_cpu"] + told["sys_cpu"]) / 100 / done
    return rate, percentile(buckets, 0.5), percentile(buckets, 0.99), cpu


def equivalence(ours, theirs):
    """TOST on paired logarithms: the 90 % interval of the ratio, and what it says at the margin."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs)]
    mean, n = sum(logs) / len(logs), len(logs)
    if n < 2:
        return f"{math.exp(mean):.3f}", "undecided"
    half = T.get(n - 1, 1.70) * math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1) / n)
    low, high = math.exp(mean - half), math.exp(mean + half)
    inside = low > 1 - MARGIN and high < 1 + MARGIN
    return f"{low:.3f} – {high:.3f}", "equivalent" if inside else "undecided" if low < 1 + MARGIN and high > 1 - MARGIN else "different"


def compare(title, directory, seconds, rounds=ROUNDS, hold=lambda job: None):
    """All jobs on the file system of `directory`; `hold` has the device throttled once the file is filled."""
    rows = []
    for job in JOBS:
        with Worker(directory, job) as worker:
            try:
                hold(job)
                worker.sample(0.5)
                path = worker.file()
                ours = lambda: worker.sample(seconds)  # noqa: E731
                taken = interleave({"plimsoll": ours, "fio": lambda: fio(path, job, seconds), "again": ours}, rounds)
            finally:
                hold(None)
        column = lambda side, i: [values[i] for values in taken[side]]  # noqa: E731
        ratio = lambda i: median([a / b for a, b in zip(column("plimsoll", i), column("fio", i))])  # noqa: E731
        interval, verdict = equivalence(column("plimsoll", 0), column("fio", 0))
        noise, _ = equivalence(column("plimsoll", 0), column("again", 0))
        cells = [f"{median(column('plimsoll', 0)):.0f}", f"{ratio(0):.3f}", interval, verdict, noise]
        rows.append([job.name, *cells, f"{ratio(1):.3f}", f"{ratio(2):.3f}", f"{ratio(3):.2f}"])
    head = ["job", "IO/s", "rate ÷ fio", "90 % interval", "at ± 3 %", "A/A interval", "p50 ÷", "p99 ÷", "CPU per I/O ÷"]
    table(f"{title}, {rounds} rounds of {seconds:g} s", head, rows)


def pages(directory):
    """The 1 MiB jobs: plimsoll, fio whose buffers are in huge pages too, and fio as it comes."""
    rows = []
    for job in (job for job in JOBS if job.block == "1m"):
        with Worker(directory, job) as worker:
            path = worker.file()
            sides = {
                "plimsoll": lambda: worker.sample(SECONDS)[0],  # noqa: B023
                "fio, huge pages": lambda: fio(path, job, SECONDS)[0],  # noqa: B023
                "fio": lambda: fio(path, job, SECONDS, SMALL)[0],  # noqa: B023
            }
            taken = interleave(sides)
        rows.append([job.name, *(f"{median(rates):.0f} ({spread(rates, 0)})" for rates in taken.values())])
    title = f"Pages of the buffers, transfers a second, {ROUNDS} rounds of {SECONDS:g} s: median (range)"
    table(title, ["job", "plimsoll", "fio, huge pages", "fio, pages of 4 KiB"], rows)


@contextmanager
def mounted():
    """A directory in memory with a file, a loop device on it, and a file system on that; and its device number."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as scratch:
        memory, mount = pathlib.Path(scratch, "memory"), pathlib.Path(scratch, "mount")
        memory.mkdir()
        mount.mkdir()
        tool("mount", "-t", "tmpfs", "-o", "size=2200m", "none", str(memory), package="mount")
        image = memory / "image"
        loop = None
        try:
            # Sparse: plimsoll leaves a gibibyte free, which need not be there.
            tool("truncate", "-s", "2G", str(image), package="coreutils")
            loop = tool("losetup", "--find", "--show", str(image), package="mount").strip()
            tool("mkfs.ext4", "-q", "-m", "0", loop, package="e2fsprogs")
            tool("mount", loop, str(mount), package="mount")
            number = os.stat(loop).st_rdev
            yield mount, f"{os.major(number)}:{os.minor(number)}"
        finally:
            # A ring lets go of its files a little after its process has ended.
            for _ in range(50):
                if subprocess.run(["umount", str(mount)], check=False, capture_output=True).returncode == 0:
                    break
                time.sleep(0.1)
            if loop:
                subprocess.run(["losetup", "--detach", loop], check=False)
            subprocess.run(["umount", str(memory)], check=False)


@contextmanager
def steady():
    """The file system on the steady device, and a function that holds the device; this process is under the throttle."""
    if os.geteuid() != 0 or not CGROUP.parent.joinpath("blkio.throttle.read_iops_device").exists():
        raise Missing("the steady device needs root and the blkio controller of cgroup v1")
    before = pathlib.Path("/proc/self/cgroup").read_text()
    own = next(line.split(":")[2] for line in before.splitlines() if ":blkio:" in line)
    with mounted() as (mount, number):
        CGROUP.mkdir(exist_ok=True)

        def hold(limits):
            for key in BURSTS:
                CGROUP.joinpath(f"blkio.throttle.{key}_device").write_text(f"{number} {limits.get(key, 0)}")

        try:
            CGROUP.joinpath("cgroup.procs").write_text(str(os.getpid()))
            yield mount, hold
        finally:
            CGROUP.parent.joinpath(own.strip("/"), "cgroup.procs").write_text(str(os.getpid()))
            CGROUP.rmdir()


def floor():
    """What the loops cost without a device: plimsoll's and fio's, in turn."""
    ours = [PLIMSOLL, "disk", "--only", "disk.null", "--json", "-", "--store", "none", "--quiet"]

    def plimsoll():
        run = json.loads(subprocess.run(ours, capture_output=True, text=True, check=True).stdout)
        return [measured["metrics"][0]["summary"]["median"] * 1e9 for measured in run["measurements"]]

    def null(depth):
        words = ["--name=job", "--ioengine=null", "--size=1g", "--rw=randread", "--bs=4k", f"--iodepth={depth}", "--norandommap"]
        words += ["--time_based", f"--runtime={SECONDS}", "--output-format=json"]
        return 1e9 / json.loads(tool("fio", *words, package="fio"))["jobs"][0]["read"]["iops"]

    # At its depth of 1 fio's null engine is a synchronous one (FIO_SYNCIO), as psync is.
    cases = [("one at a time in a call", 1), ("ring, depth 1", 1), ("ring, depth 32", 32)]
    taken = interleave({"plimsoll": plimsoll, "fio": lambda: [null(depth) for _, depth in cases]})
    rows = []
    for index, (case, _) in enumerate(cases):
        one, other = ([values[index] for values in taken[side]] for side in ("plimsoll", "fio"))
        rows.append([case, f"{median(one):.1f} ns", spread(one, 1), f"{median(other):.0f} ns", spread(other, 0)])
    table(f"The loop without a device, per transfer, {ROUNDS} rounds", ["case", "plimsoll", "range", "fio's null", "range"], rows)


def held():
    with steady() as (mount, hold):
        title = "disk.io ÷ fio, a loop device whose throttle decides each transfer"
        compare(title, mount, STEADY_SECONDS, STEADY_ROUNDS, lambda job: hold(job.held if job else {}))


def bursts():
    with steady() as (mount, hold):
        compare("disk.io ÷ fio, the loop device in bursts", mount, SECONDS, ROUNDS, lambda job: hold(BURSTS if job else {}))


DIR = os.environ.get("DIR", ".")
PARTS = {
    "floor": floor,
    "steady": held,
    "bursts": bursts,
    "disk": lambda: compare("disk.io ÷ fio, the disk itself", DIR, SECONDS),
    "pages": lambda: pages(DIR),
}


def bench():
    for name in os.environ.get("PARTS", ",".join(PARTS)).split(","):
        if name not in PARTS:
            raise RuntimeError(f"PARTS: no part {name!r}: choose among {', '.join(PARTS)}")
        PARTS[name]()
