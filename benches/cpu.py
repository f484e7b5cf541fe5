"""cpu.peak: every operation and type beside its limit, and f64 fma beside likwid-bench."""

import re

from shared import CPUS, ROUNDS, interleave, median, plimsoll, spread, table, tool, verdict

FMA, OTHERS = 0.995, 0.97


def bench():
    against_limits()
    against_likwid()


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
                     spread([100 * metric.set_aside for metric in metrics], 0) + " %"))
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
