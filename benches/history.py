"""A history of 10 000 runs: how long each question to it takes, wanted below a second.

`plimsoll run quick` is measured once and its run copied in the file (RUNS=n sets how many), each copy with other figures:
noise of 1 %, and in every second case a fall by a tenth that lasts. 8 GB are needed for a while, below target/.
"""

import json
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import time

from shared import PLIMSOLL, ROUNDS, interleave, median, table

RUNS = int(os.environ.get("RUNS", "10000"))
WANTED = 1.0
PLACE = pathlib.Path("target/bench-history")
STORE = PLACE / "history.db"
DOCUMENT = PLACE / "run.json"

# An hour between two runs.
COPIES = """
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :runs),
    made AS (SELECT i, printf('01a2%04x-%04x-7000-8000-%012x', i >> 16, i & 65535, i) AS id FROM n)
    INSERT INTO run (id, started, state, plan, machine, host, elapsed_s, header, origin)
    SELECT made.id, strftime('%Y-%m-%dT%H:%M:%SZ', 'now', (i - :runs) || ' hours'),
           state, plan, machine, host, elapsed_s, replace(header, run.id, made.id), origin
    FROM run JOIN made WHERE number = 1 ORDER BY i
"""
DOCUMENTS = """
    INSERT INTO measurement (run, position, case_id, status, document)
    SELECT number, position, case_id, measurement.status, document
    FROM run JOIN measurement ON measurement.run = 1 WHERE number > 1
"""
POINTS = """
    INSERT INTO point (series, run, position, median, of_limit)
    SELECT series, number, position, median * other(series, number), of_limit
    FROM run JOIN point ON point.run = 1 WHERE number > 1
"""


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
    store = sqlite3.connect(STORE)
    chance = random.Random(1)

    def other(series, number):
        fallen = series % 2 == 0 and number > 0.6 * RUNS
        return chance.gauss(1.0, 0.01) * (0.9 if fallen else 1.0)

    store.create_function("other", 2, other)
    # Nothing here must survive a power cut.
    store.execute("PRAGMA journal_mode = off")
    store.execute("PRAGMA synchronous = off")
    for step in (COPIES, DOCUMENTS, POINTS):
        store.execute(step, {"runs": RUNS - 1})
    store.commit()
    cases, figures = (store.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("measurement", "point"))
    store.execute("PRAGMA journal_mode = wal")
    store.close()
    new_run(DOCUMENT)
    # The disk's backlog is not what is asked about.
    os.sync()
    size = STORE.stat().st_size / 1e9
    return f"{RUNS} runs, {cases} measurements, {figures} figures, {size:.1f} GB"


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
        show("*", "--machine", "nowhere"),
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
