"""How soon the page that compares thirty machines can be used, in headless Chromium."""

import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import tempfile

import shared

MACHINES = 30


def of_another(document, number):
    """The document of another machine: each metric and its limit times a factor of its own."""
    made, name = json.loads(json.dumps(document)), f"node-{number:02}"
    made["id"] = f"01900000-0000-7000-8000-0000000000{number:02}"
    made["machine"]["host"], made["nodes"] = name, [{"name": name}]
    for measurement in made["measurements"]:
        measurement["node"] = name
        for metric in measurement["metrics"]:
            factor = random.uniform(0.7, 1.3)
            metric["samples"] = [value * factor for value in metric["samples"]]
            summary = metric["summary"]
            for key in summary.keys() - {"n", "ci95"}:
                summary[key] = summary[key] and summary[key] * factor
            summary["ci95"] = summary["ci95"] and [end * factor for end in summary["ci95"]]
            if (metric.get("limit") or {}).get("value"):
                metric["limit"]["value"] *= factor
            metric["references"] = []
    return made


def usable_ms(page, profile):
    """Milliseconds from opening the page until it can be used."""
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
             f"--user-data-dir={profile}", "--window-size=1440,900", "--timeout=20000", "--dump-dom", f"file://{page}"]
    opened = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(re.search(r'data-usable="([0-9.]+)"', opened.stdout)[1])


def bench():
    if not shutil.which("chromium"):
        raise shared.Missing("chromium")
    random.seed(30)
    with tempfile.TemporaryDirectory() as place:
        plimsoll, words = os.path.abspath(shared.PLIMSOLL), ["run", "quick", "--sample-time", "50ms", "--store", "none", "--quiet", "--json", "-"]
        run = json.loads(subprocess.run([plimsoll, *words], capture_output=True, check=True, cwd=place).stdout)
        names = []
        for number in range(MACHINES):
            names.append(f"./run-{number:02}.json")
            (pathlib.Path(place) / names[-1]).write_text(json.dumps(of_another(run, number)))
        subprocess.run([plimsoll, "compare", *names, "--html", "page.html", "--store", "none"], capture_output=True, check=True, cwd=place)
        page = os.path.join(place, "page.html")
        times = [usable_ms(page, os.path.join(place, f"profile-{n}")) for n in range(shared.ROUNDS)]
        print(f"\n| page of {MACHINES} machines | usable after (median, {shared.ROUNDS} openings) | size |\n| --- | ---: | ---: |")
        spread = f"{statistics.median(times):.0f} ms ({min(times):.0f} – {max(times):.0f})"
        print(f"| compare of {MACHINES} quick runs | {spread} | {os.path.getsize(page) / 1e6:.1f} MB |")
