"""memory.bandwidth and memory.latency beside likwid-bench, STREAM (in hpcc), mbw and lmbench, all in the same pages.

plimsoll asks for transparent huge pages; the others get them through glibc's tunable where they call malloc, so that both
are measured in the same pages. Every ratio is of a pair: plimsoll, then the other at once, in random order, about half a
second of measuring each. MEMORY_PARTS names the parts to run, MEMORY_SIZE the bytes for each operation and thread (1 GiB),
MEMORY_OPS the operations beside likwid's.

With several threads, the hypervisor may move CPUs between chiplets, which doubles or halves what two of them get from
memory. So `cpu.core-to-core` is asked before, between and after a pair, and a pair that the CPUs moved in is discarded.
"""

import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from shared import CPUS, HUGE, ROUNDS, interleave, median, plimsoll, spread, table, tool, verdict

GIB = 1 << 30
SIZE = int(os.environ.get("MEMORY_SIZE", GIB))
# Seconds that likwid measures: that many iterations at this rate for each thread. Sample time and samples of plimsoll.
SECONDS, PACE = 0.4, 30e9
SAMPLES = ("--samples", 5, "--sample-time", "80ms")
# Latencies from core to core further apart than this are those of other places.
MOVED = 1.5

LIKWID = {
    "read": ["load", "load_mem", "load_sse", "load_avx", "load_avx512"],
    "write": ["store_sse", "store_avx", "store_avx512", "store_mem_sse", "store_mem_avx", "store_mem_avx512"],
    "copy": ["copy_sse", "copy_avx", "copy_avx512", "copy_mem_sse", "copy_mem_avx", "copy_mem_avx512"],
    "triad": ["stream_sse_fma", "stream_avx_fma", "stream_avx512_fma", "stream_mem_sse_fma", "stream_mem_avx_fma",
              "stream_mem_avx512"],
}
OPS = os.environ.get("MEMORY_OPS", ",".join(LIKWID)).split(",")


def bench():
    """MEMORY_PARTS names those to run, as in PARTS; all without it."""
    for name in os.environ.get("MEMORY_PARTS", ",".join(PARTS)).split(","):
        if name not in PARTS:
            raise RuntimeError(f"MEMORY_PARTS: no part {name!r}: choose among {', '.join(PARTS)}")
        PARTS[name]()


def own(op, size, threads):
    """Bytes a second of the best variant."""
    words = ["memory", "--only", "memory.bandwidth", "--op", op, "--size", size, "--threads", threads, *SAMPLES]
    return plimsoll(*words)[0].value


def likwid(kernel, size, threads):
    """Bytes a second; likwid's size is the sum over all streams and threads, in kB of 1000."""
    iterations = max(10, math.ceil(SECONDS * PACE / size))
    out = tool("env", HUGE, "likwid-bench", "-t", kernel, "-W", f"S0:{size * threads // 1000}kB:{threads}", "-i",
               iterations, package="likwid")
    return float(re.search(r"MByte/s:\s+([\d.]+)", out).group(1)) * 1e6


def usable(kernels):
    """Those that this likwid has and this CPU can run."""
    if shutil.which("likwid-bench") is None:
        tool("likwid-bench", package="likwid")
    known = {line.split(" ")[0] for line in tool("likwid-bench", "-a", package="likwid").splitlines()}
    avx512 = "avx512f" in open("/proc/cpuinfo").read()
    return [kernel for kernel in kernels if kernel in known and (avx512 or "avx512" not in kernel)]


def best_by_trial(others, count):
    """The quickest of `others`, each tried twice, some time apart."""
    if len(others) <= count:
        return others
    tried = interleave(others, 2)
    names = sorted(tried, key=lambda name: -max(tried[name]))[:count]
    return {name: others[name] for name in names}


def where(threads):
    """Seconds from core to core, which tells how the CPUs lie to each other; the same always for one thread."""
    if threads == 1:
        return 1.0
    return plimsoll("cpu", "--only", "cpu.core-to-core", "--op", "cas", "--samples", 1, "--sample-time", "20ms")[0].value


def pairs(ours, theirs, threads, rounds=ROUNDS):
    """Rounds of both: what each gave, and how many were discarded because the CPUs moved meanwhile."""
    kept, discarded = [], 0
    for number in range(rounds):
        print(f"pair {number + 1} of {rounds}", file=sys.stderr)
        places, values = [where(threads)], {}
        for side in random.sample([ours, theirs], 2):
            values[side] = side()
            places.append(where(threads))
        if max(places) < MOVED * min(places):
            kept.append((values[ours], values[theirs], median(places)))
        else:
            discarded += 1
    return kept, discarded


def ratios(title, sides, header, threads):
    """Rows of plimsoll against the best of the others, from `sides`: (row, ours, {name: theirs}). The two quickest of the
    others by a trial are paired with plimsoll; the one that stands better against it counts."""
    header = [header, "GB/s", "best other, GB/s", "median ratio", "ratios (pairs)", "discarded"]
    header += ["ns from core to core"] if threads > 1 else []
    table(title, header, (row for side in sides for row in ratio(*side, threads)))


def ratio(name, ours, others, threads):
    """One such row; two where the CPUs lay near and far."""
    found = {other: pairs(ours, run, threads) for other, run in best_by_trial(others, 2).items()}
    discarded = sum(lost for _, lost in found.values())
    places = sorted(place for kept, _ in found.values() for _, _, place in kept)
    # The widest gap between neighbours parts near from far, if it is wide enough.
    gaps = [(high / low, high) for low, high in zip(places, places[1:])]
    border = max(gaps)[1] if gaps and max(gaps)[0] >= MOVED else float("inf")
    for side in (lambda place: place < border, lambda place: place >= border):
        near = {other: [pair for pair in kept if side(pair[2])] for other, (kept, _) in found.items()}
        near = {other: kept for other, kept in near.items() if kept}
        if not near:
            continue
        worst = min(near, key=lambda other: median([mine / theirs for mine, theirs, _ in near[other]]))
        mine, theirs, place = zip(*near[worst])
        each = [one / other for one, other in zip(mine, theirs)]
        row = [name, f"{median(mine) / 1e9:.2f}", f"{median(theirs) / 1e9:.2f} {worst}", verdict(median(each), 1.0),
               f"{spread(each)} ({len(each)})", discarded]
        yield row + ([f"{1e9 * median(place):.0f}"] if threads > 1 else [])


def memory_against_likwid(threads):
    """Each operation over SIZE bytes a thread against the best of likwid's kernels of that operation."""
    sides = []
    for op in OPS:
        kernels = LIKWID[op]
        others = {kernel: (lambda kernel=kernel: likwid(kernel, SIZE, threads)) for kernel in usable(kernels)}
        sides.append((op, lambda op=op: own(op, SIZE, threads), others))
    ratios(f"{SIZE >> 20} MiB a thread ÷ likwid-bench, {threads} thread(s)", sides, "operation", threads)


def caches_against_likwid(threads):
    """Reading, at half of each cache a thread."""
    sides = []
    for name, size in {"L1": 16 << 10, "L2": 512 << 10, "L3": (16 << 20) // threads}.items():
        others = {k: (lambda k=k, size=size: likwid(k, size, threads)) for k in usable(LIKWID["read"])}
        sides.append((f"{name}, {size >> 10} KiB × {threads}", lambda size=size: own("read", size, threads), others))
    ratios(f"Reading caches ÷ likwid-bench, {threads} thread(s)", sides, "level", threads)


def copy_against_others(threads):
    """Copy against mbw (one thread) and lmbench's bw_mem. plimsoll, likwid and STREAM count a copied byte twice, these
    once."""
    mib = SIZE // 2 >> 20
    sides = {}
    if threads == 1 and shutil.which("mbw"):
        # Not -t2: it copies the first 256 KiB of its source again and again, which stay in a cache.
        for test in (0, 1):
            sides[f"mbw -t{test}"] = lambda test=test: mbw(test, mib)
    if bw_mem():
        for kind in ("cp", "fcp", "bcopy"):
            sides[f"bw_mem {kind}"] = lambda kind=kind: lmbench_copy(kind, mib, threads)
    if sides:
        ratios(f"Copy ÷ mbw and lmbench, {threads} thread(s)", [("copy", lambda: own("copy", SIZE, threads), sides)],
               "operation", threads)


def copy_against_stream(threads):
    """Copy against STREAM's."""
    if shutil.which("hpcc") is None:
        tool("hpcc", package="hpcc")
    sides = {"STREAM in hpcc": lambda: stream(threads)}
    ratios(f"Copy ÷ STREAM, {threads} thread(s)", [("copy", lambda: own("copy", SIZE, threads), sides)], "operation", threads)


def stream(threads):
    """Bytes a second of STREAM's copy in hpcc, the better of its Star and Single forms, by OpenMP threads. hpcc ends here as
    soon as both are done. Its arrays are a third of an HPL matrix."""
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        (directory / "hpccinf.txt").write_text(hpcc_input(8000))
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true",
                       "OPENBLAS_NUM_THREADS": str(CPUS), "GLIBC_TUNABLES": HUGE.split("=", 1)[1]}
        process = subprocess.Popen(["hpcc"], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        out = directory / "hpccoutf.txt"
        deadline = time.monotonic() + 240
        try:
            while "End of SingleSTREAM section" not in (text := out.read_text(errors="replace") if out.exists() else ""):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"hpcc ended or did not get to STREAM: {text[-300:]!r}")
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
    found = re.findall(r"^(?:Single STREAM Copy GB/s|Star STREAM Copy GB/s \S+|Copy:?)\s+([\d.]+)", text, re.M)
    return max(map(float, found)) * 1e9


def hpcc_input(order):
    """What hpcc reads, line by line, for one process and one small factorisation."""
    values = ["", "", "HPL.out", "8", 1, order, 1, 128, 0, 1, 1, 1, "16.0", 1, 2, 1, 4, 1, 2, 1, 1, 1, 1,
              1, 1, 2, 64, 0, 0, 1, 8, "", 0, "", 0, ""]
    return "".join(f"{value}\n" for value in values)


def mbw(test, mib):
    """mbw moves MiB and counts them once."""
    out = tool("env", HUGE, "mbw", "-q", "-n", 5, f"-t{test}", mib, package="mbw")
    rates = [float(rate) for rate in re.findall(r"^\d+\s.*Copy:\s+([\d.]+) MiB/s", out, re.M)]
    return 2 * median(rates) * (1 << 20)


def bw_mem():
    """Where Debian puts lmbench's bw_mem."""
    found = shutil.which("bw_mem", path="/usr/lib/lmbench/bin/x86_64-linux-gnu:" + os.environ["PATH"])
    return found


def lmbench(program, *words):
    """What an lmbench program printed; it does so on its standard error. Without being told how long to measure and
    what its own loop costs (of half a second: nothing), it looks for both for many seconds."""
    path = shutil.which(program, path="/usr/lib/lmbench/bin/x86_64-linux-gnu:" + os.environ["PATH"])
    return tool("sh", "-c", f'ENOUGH=100000 TIMING_O=0 LOOP_O=0 {HUGE} exec "$0" "$@" 2>&1', path, *words, package="lmbench (non-free)")


def lmbench_copy(kind, mib, threads):
    """bw_mem prints megabytes of 10^6, of all its processes (-P)."""
    out = lmbench("bw_mem", "-P", threads, "-N", 3, f"{mib}m", kind)
    return 2 * float(out.split()[-1]) * 1e6


def latency():
    """Latencies beside their floors, and memory beside `lat_mem_rd -t` in small pages."""
    rows = []
    taken = {}
    for _ in range(ROUNDS):
        for metric in plimsoll("memory", "--only", "memory.latency"):
            taken.setdefault(metric.case, []).append(metric)
    for case, metrics in taken.items():
        values = [metric.value * 1e9 for metric in metrics]
        shares = [metric.of_limit for metric in metrics if metric.of_limit is not None]
        rows.append((case, f"{median(values):.3f}", spread(values), verdict(median(shares), 0.97) if shares else "unknown"))
    table("memory.latency", ["case", "ns", "range", "of the documented floor"], rows)
    if bw_mem() is None:
        return
    rows = []
    for pages, environment in (("thp", HUGE), ("4k", "LC_ALL=C")):
        sides = {f"plimsoll, groups of {group}": lambda group=group, pages=pages: chase(pages, group) for group in GROUPS}
        sides["lat_mem_rd -t"] = lambda environment=environment: lat_mem_rd(512, 256, environment)
        taken = interleave(sides)
        theirs = taken["lat_mem_rd -t"]
        for name, values in taken.items():
            each = [value / other for value, other in zip(values, theirs)]
            rows.append((pages, name, f"{median(values):.1f}", spread(values, 1), f"{median(each):.3f} ({spread(each)})"))
    header = ["pages", "who", "ns, median", "range", "÷ lat_mem_rd, median (range)"]
    table("Latency of memory by the order of the pages, 512 MiB, a load each 256 bytes", header, rows)


# What a chase stays within: from 64 small pages to all of it, which is the order of lat_mem_rd -t.
GROUPS = ("256K", "16M", "512M")


def chase(pages, group):
    """Nanoseconds."""
    words = ["--size", "512M", "--pages", pages, "--group", group, "--samples", 3, "--sample-time", "150ms"]
    return plimsoll("memory", "--only", "memory.latency", *words)[0].value * 1e9


def lat_mem_rd(mib, stride, environment):
    """Nanoseconds at the largest size."""
    path = shutil.which("lat_mem_rd", path="/usr/lib/lmbench/bin/x86_64-linux-gnu:" + os.environ["PATH"])
    out = tool("sh", "-c", f'ENOUGH=20000 {environment} exec "$0" "$@" 2>&1', path, "-t", "-W", 0, "-N", 1, mib, stride, package="lmbench")
    return float(out.split()[-1])


def repeated():
    """Ten runs of the same, in turn with a kernel of likwid's, which tells how far the machine itself is the same: how far
    they lie apart, and the interval of their mean (Student's t, 95 %)."""
    header = ["operation", "threads", "tool", "GB/s", "range", "half the range", "half the interval of the mean"]
    cases = [("read", 1, "load_avx"), ("copy", 1, "copy_mem_avx"), ("copy", CPUS, "copy_mem_avx")]
    table("Ten runs of the same", header, (row for case in cases for row in ten_runs(*case)))


def ten_runs(op, threads, kernel):
    """Two such rows."""
    words = ["memory", "--only", "memory.bandwidth", "--op", op, "--size", SIZE, "--threads", threads]
    sides = {"plimsoll": lambda: plimsoll(*words)[0].value, f"likwid {kernel}": lambda: likwid(kernel, SIZE, threads)}
    for name, values in interleave(sides, 10).items():
        half = (max(values) - min(values)) / 2 / median(values)
        interval = 2.262 * statistics.stdev(values) / 10**0.5 / statistics.mean(values)
        yield (op, threads, name, f"{median(values) / 1e9:.2f}", spread([value / 1e9 for value in values], 2),
               f"{100 * half:.2f} %", f"{100 * interval:.2f} %")


PARTS = {
    "one": lambda: memory_against_likwid(1),
    "all": lambda: CPUS > 1 and memory_against_likwid(CPUS),
    "copy": lambda: copy_against_others(1),
    "copy-all": lambda: CPUS > 1 and copy_against_others(CPUS),
    "stream": lambda: copy_against_stream(1),
    "stream-all": lambda: CPUS > 1 and copy_against_stream(CPUS),
    "caches": lambda: caches_against_likwid(1),
    "caches-all": lambda: CPUS > 1 and caches_against_likwid(CPUS),
    "latency": latency,
    "repeated": repeated,
}
