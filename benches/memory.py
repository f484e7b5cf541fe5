"""memory.bandwidth and memory.latency beside likwid-bench, STREAM (in hpcc), mbw and lmbench, all in the same pages.

plimsoll asks for transparent huge pages; the others get them through glibc's tunable where they call malloc, so that both
are measured in the same pages. MEMORY_SIZE sets the bytes for each operation and thread (1 GiB), MEMORY_OPS the operations
beside likwid's.
"""

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from shared import CPUS, ROUNDS, interleave, median, plimsoll, spread, table, tool, verdict

HUGE = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
GIB = 1 << 30
SIZE = int(os.environ.get("MEMORY_SIZE", GIB))

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


def own(op, size, threads, samples=3):
    """Bytes a second of the best variant."""
    words = ["memory", "--only", "memory.bandwidth", "--op", op, "--size", size, "--threads", threads,
             "--samples", samples]
    return plimsoll(*words)[0].value


def likwid(kernel, size, threads):
    """Bytes a second; likwid's size is the sum over all streams and threads, in kB of 1000."""
    out = tool("env", HUGE, "likwid-bench", "-t", kernel, "-W", f"S0:{size * threads // 1000}kB:{threads}", "-s", "1",
               package="likwid")
    return float(re.search(r"MByte/s:\s+([\d.]+)", out).group(1)) * 1e6


def usable(kernels):
    """Those that this likwid has and this CPU can run."""
    if shutil.which("likwid-bench") is None:
        tool("likwid-bench", package="likwid")
    known = {line.split(" ")[0] for line in tool("likwid-bench", "-a", package="likwid").splitlines()}
    avx512 = "avx512f" in open("/proc/cpuinfo").read()
    return [kernel for kernel in kernels if kernel in known and (avx512 or "avx512" not in kernel)]


def best_by_trial(others, count):
    """The quickest of `others`, each tried once."""
    if len(others) <= count:
        return others
    tried = {name: run() for name, run in others.items()}
    names = sorted(tried, key=lambda name: -tried[name])[:count]
    return {name: others[name] for name in names}


def ratios(title, sides, header):
    """Rows of plimsoll against the best of the others, from `sides`: (row, ours, {name: theirs}). The two quickest of the
    others by a trial are interleaved with plimsoll; the better of them by its median counts."""
    header = [header, "GB/s", "best other, GB/s", "ratio of medians", "ratios"]
    table(title, header, (ratio(*side) for side in sides))


def ratio(name, ours, others):
    """One such row."""
    taken = interleave({"plimsoll": ours, **best_by_trial(others, 2)})
    mine = taken.pop("plimsoll")
    best = max(taken, key=lambda other: median(taken[other]))
    return (name, f"{median(mine) / 1e9:.2f}", f"{median(taken[best]) / 1e9:.2f} {best}",
            verdict(median(mine) / median(taken[best]), 1.0),
            spread([one / other for one, other in zip(mine, taken[best])]))


def memory_against_likwid(threads):
    """Each operation over SIZE bytes a thread against the best of likwid's kernels of that operation."""
    sides = []
    for op in OPS:
        kernels = LIKWID[op]
        others = {kernel: (lambda kernel=kernel: likwid(kernel, SIZE, threads)) for kernel in usable(kernels)}
        sides.append((op, lambda op=op: own(op, SIZE, threads), others))
    ratios(f"{SIZE >> 20} MiB a thread ÷ likwid-bench, {threads} thread(s)", sides, "operation")


def caches_against_likwid():
    """Reading, at half of each cache a thread, by one thread and by all."""
    sizes = {"L1": 16 << 10, "L2": 512 << 10, "L3": 16 << 20}
    sides = []
    for threads in sorted({1, CPUS}):
        for name, size in sizes.items():
            size = size // threads if name == "L3" else size
            others = {k: (lambda k=k, size=size, threads=threads: likwid(k, size, threads)) for k in usable(LIKWID["read"])}
            sides.append((f"{name}, {size >> 10} KiB × {threads}",
                          lambda size=size, threads=threads: own("read", size, threads, 5), others))
    ratios("Reading caches ÷ likwid-bench", sides, "level")


def copy_against_others(threads):
    """Copy against mbw and lmbench's bw_mem (one thread, bw_mem also several) and STREAM's copy in hpcc. plimsoll, likwid
    and STREAM count a copied byte twice, mbw and bw_mem once."""
    mib = SIZE // 2 >> 20
    sides = {}
    if threads == 1 and shutil.which("mbw"):
        for test in (0, 1, 2):
            sides[f"mbw -t{test}"] = lambda test=test: mbw(test, mib)
    if bw_mem():
        for kind in ("cp", "fcp", "bcopy"):
            sides[f"bw_mem {kind}"] = lambda kind=kind: lmbench_copy(kind, mib, threads)
    if shutil.which("hpcc"):
        sides["STREAM in hpcc"] = lambda: stream(threads)
    if sides:
        title = f"Copy ÷ mbw, lmbench and STREAM, {threads} thread(s)"
        ratios(title, [("copy", lambda: own("copy", SIZE, threads), sides)], "operation")


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
    """What an lmbench program printed; it does so on its standard error."""
    path = shutil.which(program, path="/usr/lib/lmbench/bin/x86_64-linux-gnu:" + os.environ["PATH"])
    return tool("sh", "-c", f'{HUGE} exec "$0" "$@" 2>&1', path, *words, package="lmbench (non-free)")


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
    sides = {
        "plimsoll 4k": lambda: plimsoll("memory", "--only", "memory.latency", "--size", "512M", "--pages", "4k",
                                        "--samples", 5)[0].value * 1e9,
        "lat_mem_rd -t 4k": lambda: lat_mem_rd(512, 256, "LC_ALL=C"),
        "plimsoll thp": lambda: plimsoll("memory", "--only", "memory.latency", "--size", "512M", "--pages", "thp",
                                         "--samples", 5)[0].value * 1e9,
        "lat_mem_rd -t thp": lambda: lat_mem_rd(512, 256, HUGE),
    }
    rows = [(name, f"{median(values):.2f}", spread(values)) for name, values in interleave(sides).items()]
    table("Latency of memory, 512 MiB, stride 256, ns", ["who", "median", "range"], rows)


def lat_mem_rd(mib, stride, environment):
    """Nanoseconds at the largest size."""
    path = shutil.which("lat_mem_rd", path="/usr/lib/lmbench/bin/x86_64-linux-gnu:" + os.environ["PATH"])
    out = tool("sh", "-c", f'{environment} exec "$0" "$@" 2>&1', path, "-t", "-N", 1, mib, stride, package="lmbench")
    return float(out.split()[-1])


def repeated():
    """Ten runs of the same: how far they lie apart, and the interval of their mean (Student's t, 95 %)."""
    header = ["operation", "threads", "GB/s", "range", "half the range", "half the interval of the mean"]
    cases = [("read", 1), ("copy", 1), ("copy", CPUS)]
    table("Ten runs of the same", header, (ten_runs(op, threads) for op, threads in cases))


def ten_runs(op, threads):
    """One such row."""
    values = [own(op, SIZE, threads) for _ in range(10)]
    half = (max(values) - min(values)) / 2 / median(values)
    interval = 2.262 * statistics.stdev(values) / 10**0.5 / statistics.mean(values)
    return (op, threads, f"{median(values) / 1e9:.2f}", spread([value / 1e9 for value in values], 2),
            f"{100 * half:.2f} %", f"{100 * interval:.2f} %")


PARTS = {
    "one": lambda: memory_against_likwid(1),
    "all": lambda: CPUS > 1 and memory_against_likwid(CPUS),
    "copy": lambda: copy_against_others(1),
    "copy-all": lambda: CPUS > 1 and copy_against_others(CPUS),
    "caches": caches_against_likwid,
    "latency": latency,
    "repeated": repeated,
}
