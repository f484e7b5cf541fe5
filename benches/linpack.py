"""cpu.gemm and cpu.linpack: share of the limit, and linpack beside HPL with OpenBLAS (Debian: hpcc).

hpcc has no way to run HPL alone, and what comes before it takes a minute. So each hpcc runs up to its HPL section, is
stopped there (SIGSTOP), and is let go on for one result at a time, in turn with plimsoll.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from shared import CPUS, ROUNDS, Missing, interleave, median, plimsoll, spread, table, verdict

GEMM, LINPACK, HPL = 0.92, 0.80, 1.20
N = int(os.environ.get("N", "8000"))
BLOCKS = int(os.environ.get("HPL_NB", "256"))
CORES = os.environ.get("OPENBLAS_CORETYPES", "Zen,SkylakeX").split(",")
PATIENCE = 420


def bench():
    shares()
    against_hpl()


def shares():
    """Median over the rounds of each case's share of its limit."""
    both = f"1,{CPUS}" if CPUS > 1 else "1"
    sides = {
        "gemm": lambda: plimsoll("cpu", "--only", "cpu.gemm", "--n", 4000, "--threads", both, "--samples", 3),
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
        taken = interleave({"plimsoll": lambda: plimsoll(*case)[0].value, **{c: p.one for c, p in peers.items()}})
    finally:
        for peer in peers.values():
            peer.end()
    best = max(CORES, key=lambda core: median(taken[core]))
    rows = []
    for core in CORES:
        ratio = median(taken["plimsoll"]) / median(taken[core])
        ratios = [own / other for own, other in zip(taken["plimsoll"], taken[core])]
        rows.append((core, f"{median(taken['plimsoll']) / 1e9:.1f}", f"{median(taken[core]) / 1e9:.1f}",
                     verdict(ratio, HPL) if core == best else f"{ratio:.4f}", spread(ratios)))
    header = ["OPENBLAS_CORETYPE", "plimsoll, GFLOP/s", "HPL, GFLOP/s", "ratio of medians", "ratios"]
    table(f"cpu.linpack ÷ HPL of hpcc, N = {N}, NB = {BLOCKS}, {CPUS} threads", header, rows)


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
