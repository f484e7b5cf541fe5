"""cpu.gemm and cpu.linpack: share of the limit, gemm beside the dgemm of OpenBLAS and MKL, linpack beside MKL's LU (dgetrf and
dgetrs) and beside HPL with OpenBLAS (Debian: hpcc). What OpenBLAS's multiplication gives bounds what HPL can. PARTS
names some of them: shares, dgemm, mkl, hpl.

MKL is `pip install mkl`; its libmkl_rt.so is named by the variable MKL, or is where the loader looks. On processors that are not
Intel's it chooses kernels of its own accord: MKL_ENABLE_INSTRUCTIONS is passed on.

hpcc has no way to run HPL alone, and what comes before it takes a minute. So each hpcc runs up to its HPL section, is
stopped there (SIGSTOP), and is let go on for one result at a time, in turn with plimsoll.
"""

import ctypes.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from shared import CPUS, ROUNDS, Missing, interleave, median, plimsoll, spread, table, verdict

GEMM, LINPACK, HPL, MKL_GEMM, MKL_LU = 0.92, 0.80, 1.15, 1.0, 1.10
N = int(os.environ.get("N", "8000"))
BLOCKS = int(os.environ.get("HPL_NB", "256"))
CORES = os.environ.get("OPENBLAS_CORETYPES", "Zen,SkylakeX").split(",")
PATIENCE = 420
GEMM_N = 4000
PARTS = os.environ.get("PARTS", "shares,dgemm,mkl,hpl").split(",")

# Median of three after a first one, as a program of its own: the libraries choose their kernels when they are loaded. argv:
# library, what, order. plimsoll's figure is the median of three samples, too.
OTHER = """
import array, ctypes, random, statistics, sys, time
blas, what, n = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL), sys.argv[2], int(sys.argv[3])
some = array.array("d", [random.random() - 0.5 for _ in range(10007)])

def numbers(count):
    kept = (some * (count // len(some) + 1))[:count]
    return (ctypes.c_double * count).from_buffer(kept)

one, order, single, info = ctypes.c_double(1.0), ctypes.c_int(n), ctypes.c_int(1), ctypes.c_int()
a, b, c = numbers(n * n), numbers(n * n), numbers(n * n)
x, pivots, took = numbers(n), (ctypes.c_int * n)(), []
by = ctypes.byref

def lu():
    blas.dgetrf_(by(order), by(order), c, by(order), pivots, by(info))
    blas.dgetrs_(b"N", by(order), by(single), c, by(order), pivots, x, by(order), by(info))

for _ in range(4):
    if what == "lu":
        ctypes.memmove(c, a, 8 * n * n)
        for place in range(0, n * n, n + 1):
            c[place] += 1
    begun = time.perf_counter()
    if what == "lu":
        lu()
    else:
        blas.cblas_dgemm(102, 111, 111, n, n, n, one, a, n, b, n, one, c, n)
    took.append(time.perf_counter() - begun)
    if info.value != 0:
        sys.exit(f"dgetrf or dgetrs: info {info.value}")
print((2 / 3 * n**3 + 1.5 * n**2 if what == "lu" else 2 * n**3) / statistics.median(took[1:]))
"""


def bench():
    if "shares" in PARTS:
        shares()
    if "dgemm" in PARTS:
        against_dgemm()
    if "mkl" in PARTS:
        against_mkl()
    if "hpl" in PARTS:
        against_hpl()


def other(library, what, order, threads, **more):
    """FLOP/s of another library's product or LU."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), **more}
    argv = [sys.executable, "-c", OTHER, library, what, str(order)]
    ran = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=600)
    if ran.returncode != 0:
        raise RuntimeError(f"{library}: {what} failed: {ran.stderr.strip()[-300:]}")
    return float(ran.stdout)


def against_dgemm():
    """cpu.gemm and OpenBLAS's dgemm of the same size, on one thread and on all, median of three each."""
    library = ctypes.util.find_library("openblas")
    if library is None:
        raise Missing("needs OpenBLAS: apt-get install libopenblas0-pthread")
    for threads in sorted({1, CPUS}):
        case = ["--only", "cpu.gemm", "--type", "f64", "--n", GEMM_N, "--threads", threads, "--samples", 3]
        cores = {f"OpenBLAS {core}": lambda core=core: other(library, "dgemm", GEMM_N, threads, OPENBLAS_CORETYPE=core)
                 for core in CORES}
        side_by_side(f"dgemm N = {GEMM_N}, {threads} threads", case, cores, MKL_GEMM)


def against_mkl():
    """cpu.gemm and cpu.linpack beside MKL's dgemm and LU."""
    library = os.environ.get("MKL") or ctypes.util.find_library("mkl_rt")
    if library is None:
        raise Missing("needs MKL: pip install mkl, and its libmkl_rt.so in the variable MKL")
    for threads in sorted({1, CPUS}):
        case = ["--only", "cpu.gemm", "--type", "f64", "--n", GEMM_N, "--threads", threads, "--samples", 3]
        mkl = {"MKL": lambda threads=threads: other(library, "dgemm", GEMM_N, threads)}
        side_by_side(f"dgemm N = {GEMM_N}, {threads} threads", case, mkl, MKL_GEMM)
    case = ["--only", "cpu.linpack", "--n", N, "--threads", CPUS, "--samples", 3]
    mkl = {"MKL dgetrf, dgetrs": lambda: other(library, "lu", N, CPUS)}
    side_by_side(f"LU N = {N}, {CPUS} threads", case, mkl, MKL_LU)


def side_by_side(title, case, others, wanted):
    """A table of one of our cases and others; the best of these is the one that counts."""
    taken = interleave({"plimsoll": lambda: plimsoll("cpu", *case)[0], **others})
    own, limit = [metric.value for metric in taken["plimsoll"]], limit_of(taken["plimsoll"])
    best = max(others, key=lambda name: median(taken[name]))
    rows = [("plimsoll", f"{median(own) / 1e9:.1f}", f"{median(own) / limit:.3f}", spread([v / limit for v in own]), "", "")]
    for name in others:
        ratio = median(own) / median(taken[name])
        rows.append((name, f"{median(taken[name]) / 1e9:.1f}", f"{median(taken[name]) / limit:.3f}",
                     spread([value / limit for value in taken[name]]),
                     verdict(ratio, wanted) if name == best else f"{ratio:.4f}",
                     spread([mine / value for mine, value in zip(own, taken[name])])))
    header = ["what", "GFLOP/s", "of the limit", "range", "plimsoll ÷ it, of medians", "of each round"]
    table(f"{title}, {len(own)} rounds", header, rows)


def limit_of(metrics):
    """FLOP/s that the processor can do at most, by the clock that was measured; without one nothing is divided."""
    limits = [metric.value / metric.of_limit for metric in metrics if metric.of_limit]
    return median(limits) if limits else float("nan")


def shares():
    """Median over the rounds of each case's share of its limit."""
    both = f"1,{CPUS}" if CPUS > 1 else "1"
    sides = {
        "gemm": lambda: plimsoll("cpu", "--only", "cpu.gemm", "--n", GEMM_N, "--threads", both, "--samples", 3),
        "linpack": lambda: plimsoll("cpu", "--only", "cpu.linpack", "--n", N, "--threads", both, "--samples", 2),
    }
    rows = []
    for side, runs in interleave(sides).items():
        for metrics in zip(*runs):
            wanted = GEMM if side == "gemm" else LINPACK
            of_limit = [metric.of_limit for metric in metrics if metric.of_limit is not None]
            if not of_limit:
                rows.append((metrics[0].case, "", f"unknown: {metrics[0].why}", ""))
                continue
            rate = median([metric.value for metric in metrics]) / 1e9
            rows.append((metrics[0].case, f"{rate:.1f}", verdict(median(of_limit), wanted), spread(of_limit)))
    table("cpu.gemm, cpu.linpack: share of the limit", ["case", "GFLOP/s", "median", "range"], rows)


def against_hpl():
    """The same order on as many threads; HPL with each core type of OpenBLAS, the best of which counts."""
    peers = {core: Hpl(core) for core in CORES}
    try:
        for peer in peers.values():
            peer.reach()
        case = ["cpu", "--only", "cpu.linpack", "--n", N, "--threads", CPUS, "--samples", 1]
        taken = interleave({"plimsoll": lambda: plimsoll(*case)[0], **{c: p.one for c, p in peers.items()}})
    finally:
        for peer in peers.values():
            peer.end()
    own, limit = [metric.value for metric in taken["plimsoll"]], limit_of(taken["plimsoll"])
    best = max(CORES, key=lambda core: median(taken[core]))
    rows = []
    for core in CORES:
        ratio = median(own) / median(taken[core])
        ratios = [mine / other for mine, other in zip(own, taken[core])]
        rows.append((core, f"{median(own) / 1e9:.1f}", f"{median(own) / limit:.3f}", f"{median(taken[core]) / 1e9:.1f}",
                     f"{median(taken[core]) / limit:.3f}", verdict(ratio, HPL) if core == best else f"{ratio:.4f}",
                     spread(ratios)))
    header = ["OPENBLAS_CORETYPE", "plimsoll, GFLOP/s", "of limit", "HPL, GFLOP/s", "of limit", "ratio of medians", "ratios"]
    table(f"cpu.linpack ÷ HPL of hpcc, N = {N}, NB = {BLOCKS}, {CPUS} threads, {len(own)} rounds", header, rows)


class Hpl:
    """One hpcc, stopped whenever it is not asked for a result."""

    def __init__(self, core):
        if shutil.which("hpcc") is None:
            raise Missing("needs hpcc and OpenBLAS: apt-get install hpcc libopenblas0-pthread")
        self.dir = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.dir.name) / "hpccoutf.txt"
        (pathlib.Path(self.dir.name) / "hpccinf.txt").write_text(configuration())
        environment = {**os.environ, "OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": str(CPUS)}
        self.process = subprocess.Popen(["hpcc"], cwd=self.dir.name, env=environment, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        self.process.send_signal(signal.SIGSTOP)

    def text(self):
        return self.out.read_text(errors="replace") if self.out.exists() else ""

    def results(self):
        return [line.split() for line in self.text().splitlines() if line.startswith("WR") and len(line.split()) == 7]

    def until(self, condition):
        self.process.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"hpcc ended or did not get on: {self.text()[-300:]!r}")
            time.sleep(0.02)
        self.process.send_signal(signal.SIGSTOP)

    def reach(self):
        """Runs up to the HPL section."""
        self.until(lambda: "Begin of HPL section" in self.text())

    def one(self):
        """FLOP/s of the next factorisation."""
        before = len(self.results())
        self.until(lambda: len(self.results()) > before)
        return float(self.results()[-1][6]) * 1e9

    def end(self):
        self.process.kill()
        self.process.wait()
        self.dir.cleanup()


def configuration():
    """What hpcc reads, line by line; one more result than is used, so that none is the last."""
    orders = " ".join([str(N)] * (ROUNDS + 1))
    values = ["", "", "HPL.out", "8", ROUNDS + 1, orders, 1, BLOCKS, 0, 1, 1, 1, "16.0", 1, 2, 1, 4, 1, 2, 1, 1, 1, 1,
              1, 1, 2, 64, 0, 0, 1, 8, "", 0, "", 0, ""]
    return "".join(f"{value}\n" for value in values)
