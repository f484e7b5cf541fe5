"""A run of 2000 machines: how long what is done with it takes, and how much memory, wanted below 10 s and 1 GiB.

A plan of eight cases is measured once and its rows copied, with noise of 0.3 %, to MACHINES (2000) made-up machines. One of
them comes late, as what a lost machine has left: then all outliers are found anew. How long rank 0 takes to gather
them from messages the test tells: `cargo test -p plimsoll --lib
--config profile.dev.package.plimsoll.opt-level=2 two_thousand -- --nocapture`.
"""

import copy
import json
import os
import pathlib
import random
import shutil
import subprocess
import time

from shared import PLIMSOLL, ROUNDS, median, table

MACHINES = int(os.environ.get("MACHINES", "2000"))
SECONDS, MEMORY = 10.0, 1 << 30
PLACE = pathlib.Path("target/bench-cluster")
PLAN = """
samples = 10
sample-time = "10ms"
[[group]]
benchmark = "cpu.peak"
op = ["fma", "add"]
type = ["f32", "f64"]
threads = 1
[[group]]
benchmark = "memory.bandwidth"
op = ["read", "write", "copy", "triad"]
size = "64K"
threads = 1
"""


def bench():
    PLACE.mkdir(parents=True, exist_ok=True)
    try:
        make()
        rounds = [asked(PLACE / f"history-{number}") for number in range(ROUNDS)]
        rows = []
        for name in rounds[0]:
            seconds, memory = zip(*(taken[name] for taken in rounds))
            reached = max(seconds) < SECONDS and max(memory) < MEMORY
            figures = f"{median(seconds):.2f}", f"{max(seconds):.2f}", f"{max(memory) / 2**20:.0f}"
            rows.append((f"`{name}`", *figures, "reached" if reached else "MISSED"))
        title = f"{MACHINES} machines, {ROUNDS} times each (wanted: {SECONDS:.0f} s, {MEMORY >> 20} MiB)"
        table(title, ["command", "median s", "longest s", "most MiB", "wanted"], rows)
    finally:
        shutil.rmtree(PLACE)


def make():
    """Writes the run without its last machine, what that one left, and a whole run to compare it with."""
    plan, one = PLACE / "plan.toml", PLACE / "one.json"
    plan.write_text(PLAN)
    finished("run", plan, "--quiet", "--store", "none", "--json", one)
    run = json.loads(one.read_text())
    names = [f"node{number:04}" for number in range(MACHINES)]
    late = names[-1]
    lost = {"node": late, "rank": MACHINES - 1, "why": "its process ended", "machines": MACHINES}
    finding = {"code": "machine-lost", "text": f"{late} was lost", "evidence": lost}
    write("late.json", run, names[-1:], [], "complete")
    write("less.json", run, names[:-1], [finding], "partial")
    write("other.json", dict(run, id=run["id"][:-12] + "0" * 12), names, [], "complete")


def write(file, run, names, findings, status):
    chance = random.Random(len(names))
    nodes = [{"name": name, "machine": run["machine"]} for name in names]
    measurements = [row(like, name, chance.gauss(1.0, 0.003)) for name in names for like in run["measurements"]]
    made = dict(run, nodes=nodes, measurements=measurements, findings=findings, status=status)
    (PLACE / file).write_text(json.dumps(made))


def row(like, name, share):
    """A row of another machine. The one that comes late is slow."""
    own = copy.deepcopy(dict(like, node=name))
    share *= 0.6 if name == f"node{MACHINES - 1:04}" else 1.0
    for metric in own["metrics"][:1]:
        metric["samples"] = [sample * share for sample in metric["samples"]]
        summary = metric["summary"]
        summary["median"] *= share
        summary["ci95"] = summary["ci95"] and [end * share for end in summary["ci95"]]
    return own


def asked(store):
    """What each command took: seconds and bytes."""
    commands = [
        ("history", "import", "less.json"),
        ("history", "import", "late.json"),
        ("report", "last"),
        ("report", "last", "--html", "page.html"),
        ("export", "last", "--format", "json"),
        ("history", "import", "other.json"),
        ("compare", "last~1", "last"),
    ]
    place = lambda word: PLACE / word if word.endswith((".json", ".html")) else word
    taken = {" ".join(words): finished(*map(place, words), "--store", store) for words in commands}
    store.unlink()
    return taken


def finished(*words):
    """Runs a command to its end: seconds, and the most memory that it held."""
    argv = [PLIMSOLL, *map(str, words)]
    before = time.perf_counter()
    with open(PLACE / "stderr", "w+") as said:
        ran = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(ran.pid, 0)
        seconds = time.perf_counter() - before
        ran.returncode = os.waitstatus_to_exitcode(status)
        if ran.returncode != 0:
            said.seek(0)
            raise RuntimeError(f"{' '.join(argv)}: exit {ran.returncode}: {said.read().strip()}")
    return seconds, used.ru_maxrss * 1024
