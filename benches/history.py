"""A history of 10 000 runs: how long each question to it takes, wanted below a second.

`plimsoll run quick` is measured once and its document copied (RUNS=n sets how many), an hour
between two. The index is made anew first.
"""

import datetime
import gzip
import json
import os
import pathlib
import random
import shutil
import subprocess
import time

from shared import PLIMSOLL, ROUNDS, interleave, median, table

RUNS = int(os.environ.get("RUNS", "10000"))
WANTED = 1.0
PLACE = pathlib.Path("target/bench-history")
STORE = PLACE / "history"
DOCUMENT = PLACE / "run.json"

def bench():
    PLACE.mkdir(parents=True, exist_ok=True)
    try:
        made = make()
        sides = {name: (lambda words=words: seconds(words)) for name, words in questions().items()}
        taken = interleave(sides)
        rows = [
            (f"`{name}`", f"{median(each) * 1e3:.0f}", f"{max(each) * 1e3:.0f}", "reached" if max(each) < WANTED else "MISSED")
            for name, each in taken.items()
        ]
        title = f"{made}: {ROUNDS} times each, in random order, milliseconds (wanted: {WANTED * 1e3:.0f})"
        table(title, ["command", "median", "longest", "wanted"], rows)
    finally:
        shutil.rmtree(PLACE)


def make():
    """Makes the history, and says how large it is."""
    run("run", "quick", "--samples", "6", "--quiet", "--json", str(DOCUMENT))
    document = json.loads(DOCUMENT.read_text())
    now = datetime.datetime.now(datetime.timezone.utc)
    for number in range(1, RUNS):
        began = now - datetime.timedelta(hours=RUNS - number)
        document["id"] = f"01a2{number >> 16:04x}-{number & 65535:04x}-7000-8000-{number:012x}"
        document["started"] = began.strftime("%Y-%m-%dT%H:%M:%SZ")
        file = STORE / "runs" / began.strftime("%Y/%m") / f"{began.strftime('%dT%H%MZ')}-{document['id']}.json.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 6))
    new_run(DOCUMENT)
    os.sync()
    before = time.perf_counter()
    run("history")
    size = sum(file.stat().st_size for file in (STORE / "runs").rglob("*.gz")) / 1e9
    return f"{RUNS} runs, {size:.1f} GB; index made in {time.perf_counter() - before:.1f} s"


def new_run(document):
    """Gives the document an id that the history does not have, so that it is entered."""
    run = json.loads(document.read_text())
    run["id"] = f"01ffffff-{random.getrandbits(16):04x}-7000-8000-{random.getrandbits(48):012x}"
    document.write_text(json.dumps(run))


def questions():
    """What is asked, by its words."""
    history = lambda *words: ("history", *words)
    show = lambda *words: history("show", *words)
    asked = [
        history("list"),
        show("last"),
        show("*"),
        show("*", "--since", "1000d"),
        show("*", "--since", "30d"),
        show("memory.*"),
        show("*threads=1*"),
        show("cpu.peak"),
        show("disk.io/*", "--metric", "latency"),
        ("report", f"last~{RUNS - 1}"),
        ("export", "last", "--format", "csv"),
        ("compare", "baseline:last10", "last"),
        ("compare", "baseline:last100", "last"),
        history("tag", "last", "bench"),
        history("note", "last", "a note"),
        history("import", str(DOCUMENT)),
    ]
    return {" ".join(words).replace(str(DOCUMENT), "run.json"): words for words in asked}


def seconds(words):
    """How long a question takes, from start to end of the program."""
    if "import" in words:
        new_run(DOCUMENT)
    before = time.perf_counter()
    run(*words)
    return time.perf_counter() - before


def run(*words):
    argv = [PLIMSOLL, *words, "--store", str(STORE)]
    ran = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit {ran.returncode}: {ran.stderr.strip()}")
