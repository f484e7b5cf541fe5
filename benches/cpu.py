"""cpu.peak: every operation and type beside its limit, fma beside a raw loop of the same instruction, and f64 fma beside
likwid-bench. PARTS names some of them: limits, raw, likwid."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

from shared import Missing, CPUS, ROUNDS, interleave, median, plimsoll, spread, table, tool, verdict

FMA, OTHERS = 0.995, 0.97
# Seconds of a raw loop, and what the ratio to it may be off by.
RAW_SECONDS, RAW_NEAR = 2, 0.01
PARTS = os.environ.get("PARTS", "limits,raw,likwid").split(",")

# Threads, each on a CPU of its own, that do one multiply-add after the other on independent registers for some seconds of
# wall time. argv: seconds, CPUs. Prints the FLOP/s of all.
RAW = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_barrier_t ready;
static double seconds, ends[1024];
static long blocks[1024];
static int cpus[1024];

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

static void block(void) {
    long turns = 20000;
    __asm__ volatile(PROLOGUE "2:\n" BODY REPEAT : "+r"(turns) : "r"(OPERANDS) : CLOBBERS);
}

static void *work(void *which) {
    long me = (long)which;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[me], &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    for (int warm = 0; warm < 200; warm++) block();
    pthread_barrier_wait(&ready);
    double start = now();
    while (now() - start < seconds) { block(); blocks[me]++; }
    ends[me] = now() - start;
    return 0;
}

int main(int argc, char **argv) {
    pthread_t threads[1024];
    seconds = atof(argv[1]);
    int n = argc - 2;
    pthread_barrier_init(&ready, 0, n);
    for (long i = 0; i < n; i++) { cpus[i] = atoi(argv[i + 2]); pthread_create(&threads[i], 0, work, (void *)i); }
    double sum = 0;
    for (int i = 0; i < n; i++) { pthread_join(threads[i], 0); sum += blocks[i] * 20000.0 * FLOP / ends[i]; }
    printf("%.0f\n", sum);
}
"""


def bench():
    parts = {"limits": against_limits, "raw": against_raw_loop, "likwid": against_likwid}
    for part in PARTS:
        parts[part]()


def against_raw_loop():
    """What plimsoll got in all (`delivered`), and what a loop of the same instruction gets that is timed once, over seconds."""
    if shutil.which("cc") is None:
        raise Missing("needs a C compiler: apt-get install gcc libc6-dev")
    allowed = sorted(os.sched_getaffinity(0))
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for kind in ["f64", "f32"]:
            program = raw_loop(pathlib.Path(place), kind)
            for threads in sorted({1, CPUS}):
                case = ["cpu", "--op", "fma", "--type", kind, "--threads", threads, "--samples", 8, "--sample-time", "250ms"]
                argv = [program, str(RAW_SECONDS), *map(str, allowed[:threads])]
                run = lambda argv=argv: float(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
                taken = interleave({"plimsoll": lambda case=case: plimsoll(*case)[0], "raw": run})
                own, raw = [metric.delivered for metric in taken["plimsoll"]], taken["raw"]
                ratio = median([one / other for one, other in zip(own, raw)])
                near = "reached" if abs(ratio - 1) <= RAW_NEAR else "MISSED"
                rows.append((f"{kind}, {threads} threads", f"{median(own) / 1e9:.2f}", f"{median(raw) / 1e9:.2f}",
                             f"{ratio:.4f} ({near} ± {RAW_NEAR:g})", spread([a / b for a, b in zip(own, raw)], 4)))
    header = ["fma", "plimsoll, delivered, GFLOP/s", f"raw loop of {RAW_SECONDS} s, GFLOP/s", "median ratio", "ratios"]
    table("cpu.peak ÷ a raw loop of the same instruction", header, rows)


def raw_loop(place, kind):
    """Compiles the raw loop for this processor's widest multiply-add."""
    size = 8 if kind == "f64" else 4
    number = ("double", "1e-3, 1.0, 0.999") if kind == "f64" else ("float", "1e-3f, 1.0f, 0.999f")
    if platform.machine() == "aarch64":
        arrangement = "2d" if kind == "f64" else "4s"
        lanes, registers, clobber = 16 // size, 24, "v"
        body = "".join(f'"fmla v{i + 2}.{arrangement}, v0.{arrangement}, v1.{arrangement}\\n"' for i in range(registers))
        prologue = "".join(f'"ld1r {{v{i}.{arrangement}}}, [%1]\\n"' for i in range(registers + 2))
        repeat = '"subs %0, %0, #1\\n b.ne 2b\\n"'
    else:
        flags = open("/proc/cpuinfo").read()
        width, file, registers = (64, "zmm", 24) if "avx512f" in flags else (32, "ymm", 12)
        if " fma " not in flags:
            raise Missing("the raw loop needs a processor with FMA or NEON")
        lanes, clobber = width // size, "xmm"
        suffix, broadcast = ("pd", "vbroadcastsd") if kind == "f64" else ("ps", "vbroadcastss")
        body = "".join(f'"vfmadd213{suffix} %%{file}1, %%{file}0, %%{file}{i + 2}\\n"' for i in range(registers))
        prologue = f'"{broadcast} {2 * size}(%1), %%{file}0\\n"' + "".join(
            f'"{broadcast} {0 if i == 1 else size}(%1), %%{file}{i}\\n"' for i in range(1, registers + 2))
        prologue += '".p2align 6\\n"'
        repeat = '"dec %0\\n jnz 2b\\n vzeroupper\\n"'
    clobbers = ", ".join(f'"{clobber}{i}"' for i in range(registers + 2)) + ', "cc", "memory"'
    source = RAW.replace("PROLOGUE", prologue).replace("BODY", body).replace("REPEAT", repeat)
    source = source.replace("OPERANDS", "operands").replace("CLOBBERS", clobbers)
    source = source.replace("FLOP /", f"{2 * lanes * registers} /")
    source = source.replace("static void block", f"static const {number[0]} operands[3] = {{{number[1]}}};\n\nstatic void block")
    text, program = place / f"raw_{kind}.c", place / f"raw_{kind}"
    text.write_text(source)
    flags = [] if platform.machine() == "aarch64" else ["-mavx512f" if lanes * size == 64 else "-mfma"]
    subprocess.run(["cc", "-O2", "-pthread", *flags, "-o", str(program), str(text)], check=True)
    return str(program)


def against_limits():
    """Median over the rounds of each case's share of its limit. Cases that read below their target in these rounds are
    measured for twice as many more, which all count: on a shared machine a neighbour takes half a core for seconds."""
    both = f"1,{CPUS}" if CPUS > 1 else "1"
    sides = {
        "fma": lambda: plimsoll("cpu", "--op", "fma", "--type", "f64,f32", "--threads", both, "--samples", 8),
        "all": lambda: plimsoll("cpu", "--op", "all", "--type", "all", "--isa", "all", "--threads", both, "--samples",
                                5, "--sample-time", "50ms"),
    }
    cases = {}
    for runs in interleave(sides).values():
        for metric in (metric for run in runs for metric in run):
            cases.setdefault(metric.case, []).append(metric)
    below = {case: lambda case=case: alone(case) for case, metrics in cases.items() if short(case, metrics)}
    for case, runs in interleave(below, 2 * ROUNDS).items():
        cases[case] += runs
    rows = []
    for case, metrics in cases.items():
        shares = [metric.of_limit for metric in metrics if metric.of_limit is not None]
        if not shares:
            rows.append((case, metrics[0].why, "", "", ""))
            continue
        rows.append((case, verdict(median(shares), wanted(case)), spread(shares, 4), len(shares),
                     spread([100 * metric.excluded for metric in metrics], 0) + " %"))
    table("cpu.peak: share of the limit", ["case", "median", "range", "rounds", "time set aside"], rows)


def wanted(case):
    return FMA if "/op=fma/" in case else OTHERS


def short(case, metrics):
    shares = [metric.of_limit for metric in metrics if metric.of_limit is not None]
    return bool(shares) and median(shares) < wanted(case)


def alone(case):
    """One measurement of a case, typed as its id has it."""
    words = [word for part in case.split("/")[1:] for word in ("--" + part.split("=")[0], part.split("=")[1])]
    return plimsoll("cpu", *words, "--samples", 5, "--sample-time", "50ms")[0]


def against_likwid():
    """likwid's rate is what it got, so on a busy machine only plimsoll's delivered rate is comparable with it; on a quiet
    one that and the rate of undisturbed slices are the same."""
    kernel = "peakflops_avx512_fma" if "avx512f" in open("/proc/cpuinfo").read() else "peakflops_avx_fma"
    sides = {
        "plimsoll": lambda: plimsoll("cpu", "--op", "fma", "--type", "f64", "--threads", CPUS, "--samples", 10)[0],
        "likwid": lambda: likwid(kernel),
    }
    taken = interleave(sides)
    theirs = taken["likwid"]
    rows = []
    for name in ["value", "delivered"]:
        own = [getattr(metric, name) for metric in taken["plimsoll"]]
        ratio = verdict(median(own) / median(theirs), 1.0)
        rows.append((name, f"{median(own) / 1e9:.2f}", f"{median(theirs) / 1e9:.2f}", ratio,
                     spread([one / other for one, other in zip(own, theirs)])))
    header = ["plimsoll's", "GFLOP/s", "likwid, GFLOP/s", "ratio of medians", "ratios"]
    table(f"f64 fma ÷ likwid-bench {kernel}, {CPUS} threads", header, rows)


def likwid(kernel):
    """FLOP/s of one run over 16 kB for each thread."""
    out = tool("likwid-bench", "-t", kernel, "-W", f"N:{16 * CPUS}kB:{CPUS}", package="likwid")
    return float(re.search(r"^MFlops/s:\s+([0-9.]+)", out, re.MULTILINE).group(1)) * 1e6
