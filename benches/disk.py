"""disk.io beside fio: the same job on the very file that plimsoll filled, a sample of each in turn.

plimsoll's worker is driven directly (its lines of JSON), so that it keeps its file and pauses while fio has the device.
The steady device is a loop device held by a blkio throttle, which needs root and cgroup v1; the other is the disk below
DIR (the environment's; here: the current directory).
"""

import json
import math
import os
import pathlib
import subprocess
import tempfile
import time
from contextlib import contextmanager

from shared import PLIMSOLL, ROUNDS, Missing, interleave, median, table, tool

SECONDS = float(os.environ.get("SECONDS_EACH", "2"))
SIZE = 1 << 30
MARGIN = 0.03
# One-sided 95 % quantiles of Student's t by degrees of freedom.
T = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833, 14: 1.761, 19: 1.729}

JOBS = [
    ("4 KiB random read, depth 32", "op=read/pattern=random/block=4K/depth=32", "randread", "4k", 32),
    ("4 KiB random read, depth 1", "op=read/pattern=random/block=4K/depth=1", "randread", "4k", 1),
    ("1 MiB read, depth 8", "op=read/pattern=sequential/block=1M/depth=8", "read", "1m", 8),
    ("1 MiB write, depth 8", "op=write/pattern=sequential/block=1M/depth=8", "write", "1m", 8),
    ("4 KiB 70/30, depth 32", "op=mixed/read-share=70/pattern=random/block=4K/depth=32", "randrw", "4k", 32),
]
CGROUP = pathlib.Path("/sys/fs/cgroup/blkio/plimsoll-bench")


class Worker:
    """A plimsoll worker with one prepared case."""

    def __init__(self, directory, case):
        machine = json.loads(subprocess.run([PLIMSOLL, "machine", "--json"], capture_output=True, check=True).stdout)
        self.process = subprocess.Popen([PLIMSOLL, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.ask({"begin": {"machine": machine, "options": {"dir": str(directory), "seed": 1}}})
            self.ask({"prepare": {"case": {"id": f"disk.io/{case}/size={SIZE}/threads=1/engine=io_uring/cache=direct"}}})
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

    def sample(self):
        sample = self.ask({"sample": {"seconds": SECONDS}})["sampled"]
        self.ask("pause")
        values = sample["values"]
        buckets = next(h["buckets"] for h in sample["histograms"] if h["metric"] == "complete")
        return values["rate"], percentile(buckets, 0.5), percentile(buckets, 0.99), values["cpu"]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def percentile(buckets, share):
    """Nanoseconds below which the share lies, of [upper edge, count] ascending."""
    rank, seen = math.ceil(share * sum(count for _, count in buckets)), 0
    return next(edge for edge, count in buckets if (seen := seen + count) >= rank)


def fio(path, rw, block, depth):
    """One run of fio: rate, p50 and p99 of the completion latency in ns, CPU seconds for each transfer."""
    words = ["--name=job", f"--filename={path}", f"--size={SIZE}", f"--rw={rw}", f"--bs={block}", f"--iodepth={depth}"]
    words += ["--direct=1", "--ioengine=io_uring", "--registerfiles=1", "--fixedbufs=1", "--time_based", "--norandommap"]
    words += [f"--runtime={SECONDS}", "--ramp_time=0.5", "--randrepeat=0", "--refill_buffers", "--group_reporting"]
    words += ["--rwmixread=70", "--output-format=json", "--allow_file_create=0", "--percentile_list=50:99"]
    job = json.loads(tool("fio", *words, package="fio"))["jobs"][0]
    sides = [job[side] for side in ("read", "write") if job[side]["total_ios"]]
    total = sum(side["iops"] for side in sides)
    at = lambda p: sum(side["clat_ns"]["percentile"][p] * side["iops"] for side in sides) / total  # noqa: E731
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 / total
    return total, at("50.000000"), at("99.000000"), cpu


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


def compare(title, directory):
    rows = []
    for name, case, rw, block, depth in JOBS:
        worker = Worker(directory, case)
        try:
            path = worker.file()
            sides = {"plimsoll": worker.sample, "fio": lambda: fio(path, rw, block, depth), "again": worker.sample}
            taken = interleave(sides)
        finally:
            worker.end()
        column = lambda side, i: [values[i] for values in taken[side]]  # noqa: E731
        ratio = lambda i: median([a / b for a, b in zip(column("plimsoll", i), column("fio", i))])  # noqa: E731
        interval, verdict = equivalence(column("plimsoll", 0), column("fio", 0))
        noise, _ = equivalence(column("plimsoll", 0), column("again", 0))
        cells = [f"{median(column('plimsoll', 0)):.0f}", f"{ratio(0):.3f}", interval, verdict, noise]
        rows.append([name, *cells, f"{ratio(1):.3f}", f"{ratio(2):.3f}", f"{ratio(3):.2f}"])
    head = ["job", "IO/s", "rate ÷ fio", "90 % interval", "at ± 3 %", "A/A interval", "p50 ÷", "p99 ÷", "CPU per I/O ÷"]
    table(f"{title}, {ROUNDS} rounds of {SECONDS:g} s", head, rows)


@contextmanager
def steady():
    """A mounted loop device whose rate a throttle holds, with this process and its children under it."""
    if os.geteuid() != 0 or not CGROUP.parent.joinpath("blkio.throttle.read_iops_device").exists():
        raise Missing("the steady device needs root and the blkio controller of cgroup v1")
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-", dir=os.environ.get("DIR", ".")) as scratch:
        image, mount = pathlib.Path(scratch, "image"), pathlib.Path(scratch, "mount")
        mount.mkdir()
        tool("fallocate", "-l", str(4 << 30), str(image), package="util-linux")
        loop = tool("losetup", "--find", "--show", "--direct-io=on", str(image), package="mount").strip()
        before = pathlib.Path("/proc/self/cgroup").read_text()
        own = next(line.split(":")[2] for line in before.splitlines() if ":blkio:" in line)
        try:
            tool("mkfs.ext4", "-q", loop, package="e2fsprogs")
            tool("mount", loop, str(mount), package="mount")
            CGROUP.mkdir(exist_ok=True)
            number = os.stat(loop).st_rdev
            for name, value in [("read_iops", 4000), ("write_iops", 4000), ("read_bps", 400 << 20), ("write_bps", 400 << 20)]:
                line = f"{os.major(number)}:{os.minor(number)} {value}"
                CGROUP.joinpath(f"blkio.throttle.{name}_device").write_text(line)
            CGROUP.joinpath("cgroup.procs").write_text(str(os.getpid()))
            yield mount
        finally:
            CGROUP.parent.joinpath(own.strip("/"), "cgroup.procs").write_text(str(os.getpid()))
            # A ring lets go of its files a little after its process has ended.
            for _ in range(50):
                if subprocess.run(["umount", str(mount)], check=False, capture_output=True).returncode == 0:
                    break
                time.sleep(0.1)
            subprocess.run(["losetup", "--detach", loop], check=False)
            if CGROUP.exists():
                CGROUP.rmdir()


def bench():
    floor = subprocess.run([PLIMSOLL, "disk", "--only", "disk.null", "--json", "-", "--store", "none", "--quiet"], capture_output=True, text=True, check=True)
    rows = [(m["case"]["id"], f"{m['metrics'][0]['summary']['median'] * 1e9:.1f} ns") for m in json.loads(floor.stdout)["measurements"]]
    table("The loop without a device, per transfer", ["case", "time"], rows)
    compare("disk.io ÷ fio, the disk itself", os.environ.get("DIR", "."))
    with steady() as mount:
        compare("disk.io ÷ fio, a throttled loop device", mount)
