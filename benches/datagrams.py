"""network.udp beside iperf3, interleaved: datagrams of 1 KiB as fast as they go, over loopback and over a veth pair
between two network namespaces that this bench makes and removes. Delivered is what the receiver counted."""

import json
import os
import subprocess
import time

from netns import Veth
from shared import CPUS, PLIMSOLL, ROUNDS, median, spread, table, tool, verdict

SECONDS = float(os.environ.get("SECONDS_EACH", "2"))
WANTED = 10.0


def delivered_by_plimsoll(veth):
    words = ["network", "--only", "network.udp", "--message", "1K", "--samples", "1", "--sample-time", f"{SECONDS}s"]
    argv = [PLIMSOLL, *words, "--json", "-", "--store", "none", "--quiet"]
    pinned = ["taskset", "-c", "0"] if veth.apart else []
    # On another CPU: a far end that shares the near end's spares it the wake-up of another.
    with veth.serving(str(CPUS - 1) if veth.apart else None) as server:
        ran = subprocess.run([*veth.near, *pinned, *argv, *server], capture_output=True, text=True, timeout=120)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit {ran.returncode}: {ran.stderr.strip()}")
    metrics = {m["name"]: m["summary"]["median"] for m in json.loads(ran.stdout)["measurements"][0]["metrics"]}
    return metrics["goodput"], metrics["loss"]


def delivered_by_iperf3(veth):
    server = subprocess.Popen(
        [*veth.far, "iperf3", "-s", "-1", "-p", "5999"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(0.3)
        argv = ["iperf3", "-c", veth.address, "-p", 5999, "-u", "-b", 0, "-l", 1024, "-t", int(SECONDS), "-J"]
        end = json.loads(tool(*veth.near, *argv, package="iperf3"))["end"]
    finally:
        server.kill()
        server.wait()
    total = end["sum"]
    return total["bits_per_second"] * (1 - total["lost_percent"] / 100), total["lost_percent"] / 100


def bench():
    tool("iperf3", "--version", package="iperf3")
    rows = []
    for name, veth in (("loopback", Veth.none()), ("veth", Veth.pair())):
        with veth:
            pairs = []
            for number in range(ROUNDS):
                sides = [("plimsoll", delivered_by_plimsoll), ("iperf3", delivered_by_iperf3)]
                pairs.append({side: run(veth) for side, run in (sides if number % 2 else sides[::-1])})
        ratios = [pair["plimsoll"][0] / pair["iperf3"][0] for pair in pairs]
        ours, theirs = ([pair[side] for pair in pairs] for side in ("plimsoll", "iperf3"))
        rows.append(
            (
                name,
                f"{median([g for g, _ in ours]) / 1e9:.2f}",
                f"{median([loss for _, loss in ours]):.1%}",
                f"{median([g for g, _ in theirs]) / 1e9:.2f}",
                f"{median([loss for _, loss in theirs]):.1%}",
                verdict(median(ratios), WANTED),
                spread(ratios, 1),
            )
        )
    header = ["path", "plimsoll Gbit/s", "loss", "iperf3 Gbit/s", "loss", "ratio", "range"]
    table("UDP, datagrams of 1 KiB, unlimited, delivered", header, rows)
