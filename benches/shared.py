"""What the benches share: running plimsoll and other tools, interleaving them, medians, tables.

A bench is a file beside this one with a function `bench()`, which prints Markdown tables for docs/src/performance.md.
`benches/run NAME …` runs those that are named, or all of them. Nothing here knows a subsystem.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass

PLIMSOLL = "target/release/plimsoll"
# What has another program's malloc ask for huge pages, as plimsoll's own buffers do.
HUGE = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"
ROUNDS = int(os.environ.get("ROUNDS", "5"))
CPUS = len(os.sched_getaffinity(0))


class Missing(Exception):
    """A tool that a bench needs is not installed."""


@dataclass(frozen=True)
class Metric:
    """The first metric of one measurement."""

    case: str
    value: float
    unit: str
    of_limit: float | None
    excluded: float
    delivered: float | None
    why: str
    curve: list


def plimsoll(*words):
    """Runs `plimsoll WORDS` and returns its measurements, in order. A case that failed ends the bench."""
    argv = [PLIMSOLL, *map(str, words), "--json", "-", "--store", "none", "--quiet"]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=600)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit {ran.returncode}: {ran.stderr.strip()}")
    return [metric_of(measurement) for measurement in json.loads(ran.stdout)["measurements"]]


def metric_of(measurement):
    """The headline of one measurement of a run document."""
    case, metrics = measurement["case"]["id"], measurement["metrics"]
    if not metrics:
        return Metric(case, float("nan"), "", None, 0.0, None, measurement["reason"] or measurement["status"], [])
    first, conditions = metrics[0], measurement.get("conditions") or {}
    why = ((first["limit"] or {}).get("reason") or "") if first["of_limit"] is None else ""
    return Metric(
        case,
        first["summary"]["median"],
        first["unit"],
        first["of_limit"],
        conditions.get("excluded") or 0.0,
        conditions.get("delivered"),
        why,
        first.get("curve") or [],
    )


def tool(*argv, package):
    """Runs another tool and returns what it printed. `package` is the Debian package that has it."""
    if shutil.which(argv[0]) is None:
        raise Missing(f"needs {argv[0]}: apt-get install {package}")
    ran = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=600)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))}: exit {ran.returncode}: {ran.stderr.strip()}")
    return ran.stdout


def interleave(sides, rounds=ROUNDS):
    """Calls each of `sides` (a dict of functions) once a round, in a new random order each, so that none has the
    quieter minutes. Returns a dict of the lists of what they returned."""
    taken = {name: [] for name in sides}
    order = list(sides)
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        random.shuffle(order)
        for name in order:
            taken[name].append(sides[name]())
    return taken


def median(values):
    """The median."""
    return statistics.median(values)


def spread(values, digits=3):
    """Smallest to largest."""
    return f"{min(values):.{digits}f} – {max(values):.{digits}f}"


def table(title, header, rows):
    """Prints a Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("| " + " | ".join("---" for _ in header) + " |")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def verdict(value, wanted):
    """A ratio beside what it must reach."""
    return f"{value:.4f} ({'reached' if value >= wanted else 'BELOW'} {wanted:g})"
