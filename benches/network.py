"""network.tcp beside iperf3 and round trips of one byte beside netperf (sockperf where that is not installed), in pairs
of random order, over loopback and over a veth pair between two network namespaces that this bench makes and removes.
Then crowds: 64 streams, 1000 sessions beside 100 silent connections."""

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time

from netns import Veth, listening
from shared import CPUS, PLIMSOLL, ROUNDS, median, spread, table, tool, verdict

SECONDS = float(os.environ.get("SECONDS_EACH", "1"))
PAIRS = max(9, ROUNDS)
NEAR, FAR = 0, min(1, CPUS - 1)
PORT = "5997"


def measured(veth, *words, pinned=None, far_cpus=None):
    """The first measurement of `plimsoll network WORDS`. `pinned` and `far_cpus` are CPU lists of the two ends."""
    argv = [PLIMSOLL, "network", *words, "--samples", "1", "--sample-time", f"{SECONDS}s"]
    argv += ["--json", "-", "--store", "none", "--quiet"]
    on = ["taskset", "-c", pinned] if pinned else []
    with veth.serving(far_cpus) as server:
        ran = subprocess.run([*veth.near, *on, *argv, *server], capture_output=True, text=True, timeout=120)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit {ran.returncode}: {ran.stderr.strip()}")
    return json.loads(ran.stdout)["measurements"][0]


def goodput(*args, **kwargs):
    return measured(*args, **kwargs)["metrics"][0]["summary"]["median"]


def iperf3(veth, streams, pinned):
    """Bits per second as iperf3's receiver counted them."""
    server = subprocess.Popen(
        [*veth.far, "iperf3", "-s", "-1", "-p", PORT], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        listening(veth, PORT)
        argv = ["iperf3", "-c", veth.address, "-p", PORT, "-l", "128K", "-P", streams, "-t", max(1, round(SECONDS)), "-J"]
        argv += ["-A", f"{pinned[0]},{pinned[1]}"] if pinned else []
        return json.loads(tool(*veth.near, *argv, package="iperf3"))["end"]["sum_received"]["bits_per_second"]
    finally:
        server.kill()
        server.wait()


def pairs(ours, theirs, count=PAIRS):
    """Both sides, one after the other, in an order drawn anew each time."""
    taken = []
    for _ in range(count):
        sides = [("ours", ours), ("theirs", theirs)]
        random.shuffle(sides)
        got = {name: run() for name, run in sides}
        taken.append((got["ours"], got["theirs"]))
    return taken


def streams(name, veth):
    """TCP beside iperf3: both tools' ends on the same CPUs, then iperf3 where the scheduler puts it and plimsoll where
    it puts itself."""
    rows = []
    places = [("same CPU", NEAR, NEAR), ("two CPUs", NEAR, FAR)] if CPUS > 1 else [("same CPU", NEAR, NEAR)]
    for place, near, far in places:
        one = pairs(
            lambda: goodput(veth, "--only", "network.tcp", "--message", "128K", pinned=str(near), far_cpus=str(far)),
            lambda: iperf3(veth, 1, (near, far)),
        )
        rows.append(row(f"{name}, 1 stream, {place} (-A {near},{far})", one, 1.00))
    free = pairs(
        lambda: goodput(veth, "--only", "network.tcp", "--message", "128K"), lambda: iperf3(veth, 1, None)
    )
    rows.append(row(f"{name}, 1 stream, iperf3 unpinned", free, 1.05))
    two = pairs(
        lambda: goodput(veth, "--only", "network.tcp", "--message", "128K", "--streams", "2"),
        lambda: iperf3(veth, 2, None),
    )
    rows.append(row(f"{name}, 2 streams, iperf3 -P 2", two, 1.00))
    return rows


def row(name, taken, wanted):
    ratios = [ours / theirs for ours, theirs in taken]
    print(f"{name}: {median(ratios):.3f}", file=sys.stderr, flush=True)
    ours, theirs = ([pair[side] / 1e9 for pair in taken] for side in (0, 1))
    return (name, f"{median(ours):.1f}", f"{median(theirs):.1f}", verdict(median(ratios), wanted), spread(ratios, 2))


def round_trip(veth, protocol, mode):
    words = ["--only", "network.latency", "--protocol", protocol, "--message", "1", "--mode", mode]
    rtt = measured(veth, *words, pinned=str(NEAR), far_cpus=str(FAR))["metrics"][0]
    return rtt["summary"]["median"] * 1e6, rtt["percentiles"]["p50"] * 1e6


def netperf(veth, protocol):
    """netperf's mean round trip in microseconds: pinned to the same CPUs (-T)."""
    server = subprocess.Popen(
        [*veth.far, "netserver", "-D", "-4", "-p", PORT], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        listening(veth, PORT)
        argv = ["netperf", "-4", "-H", veth.address, "-p", PORT, "-t", f"{protocol.upper()}_RR", "-T", f"{NEAR},{FAR}"]
        argv += ["-l", max(1, round(SECONDS)), "-P", "0", "--", "-r", "1,1", "-o", "MEAN_LATENCY"]
        return float(tool(*veth.near, *argv, package="netperf (non-free)").split()[-1])
    finally:
        server.kill()
        server.wait()


def sockperf(veth, protocol):
    """sockperf's, of 14 bytes, its smallest message."""
    tcp = ["--tcp"] if protocol == "tcp" else []
    at = ["-i", veth.address, "-p", PORT]
    server = subprocess.Popen(
        [*veth.far, "taskset", "-c", str(FAR), "sockperf", "server", *at, *tcp],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        listening(veth, PORT, protocol)
        words = [*at, *tcp, "-m", 14, "-t", max(1, round(SECONDS)), "--full-rtt"]
        said = tool(*veth.near, "taskset", "-c", NEAR, "sockperf", "ping-pong", *words, package="sockperf")
        return float(re.search(r"avg-rtt=([0-9.]+)", said).group(1))
    finally:
        server.kill()
        server.wait()


def round_trips(name, veth):
    beside = ("netperf", netperf) if shutil.which("netperf") else ("sockperf", sockperf)
    rows, modes = [], []
    for protocol in ("tcp", "udp"):
        polled = []

        def ours():
            block = round_trip(veth, protocol, "block")
            polled.append((block[1], round_trip(veth, protocol, "poll")[1]))
            return block[0]

        taken = pairs(ours, lambda: beside[1](veth, protocol))
        ratios = [mine / other for mine, other in taken]
        rows.append(
            (
                f"{protocol}, {name}, {beside[0]}",
                f"{median([mine for mine, _ in taken]):.2f}",
                f"{median([other for _, other in taken]):.2f}",
                at_most(median(ratios), 1.02),
                spread(ratios),
            )
        )
        shares = [poll / block for block, poll in polled]
        modes.append(
            (
                f"{protocol}, {name}",
                f"{median([block for block, _ in polled]):.2f}",
                f"{median([poll for _, poll in polled]):.2f}",
                at_most(median(shares), 0.5),
                spread(shares),
            )
        )
    return rows, modes


def at_most(value, wanted):
    """A ratio beside what it must not exceed."""
    return f"{value:.3f} ({'reached' if value <= wanted else 'ABOVE'} {wanted:g})"


def crowds():
    """64 streams; then 1000 sessions, one after another, while 100 connections stay silent. Memory and descriptors of
    the server before and after."""
    argv = [PLIMSOLL, "serve", "--open", "--bind", "127.0.0.1", "--port", PORT, "--allow-root"]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        listening(Veth.none(), PORT)
        words = ["--only", "network.tcp", "--message", "1K", "--server", f"127.0.0.1:{PORT}", "--store", "none"]

        def run(*more):
            argv = [PLIMSOLL, "network", *words, *more, "--quiet"]
            return subprocess.run(argv, capture_output=True, text=True, timeout=300).returncode

        silent = [socket.create_connection(("127.0.0.1", int(PORT))) for _ in range(100)]
        wide = run("--streams", "64", "--samples", "1", "--sample-time", "100ms")
        before = standing(server.pid)
        # A run of plimsoll is a session for each case; 1000 repeats would be one process each.
        many = [run("--samples", "1", "--sample-time", "1ms") for _ in range(int(os.environ.get("SESSIONS", "1000")))]
        after = settled(server.pid, before)
        for connection in silent:
            connection.close()
    finally:
        server.terminate()
        server.wait()
    rows = [
        ("64 streams", "served" if wide == 0 else f"exit {wide}", "", ""),
        (
            f"{len(many)} sessions beside 100 silent connections",
            f"{many.count(0)} served",
            f"{before[0]} → {after[0]} kB",
            f"{before[1]} → {after[1]}",
        ),
    ]
    table("Crowds", ["what", "served", "server's memory", "its descriptors"], rows)


def settled(pid, before):
    """What stands when as many descriptors are open as before, or after ten seconds."""
    deadline = time.monotonic() + 10
    while (now := standing(pid))[1] > before[1] and time.monotonic() < deadline:
        time.sleep(0.05)
    return now


def standing(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        resident = next(line.split()[1] for line in status if line.startswith("VmRSS:"))
    return int(resident), len(os.listdir(f"/proc/{pid}/fd"))


def bench():
    tool("iperf3", "--version", package="iperf3")
    version = tool("iperf3", "--version", package="iperf3").split()[1]
    parts = os.environ.get("PARTS", "streams,trips,crowds").split(",")
    carried, trips, modes = [], [], []
    for name, veth in (("loopback", Veth.none()), ("veth", Veth.pair())):
        if name not in os.environ.get("PATHS", "loopback,veth"):
            continue
        with veth:
            if "streams" in parts:
                carried += streams(name, veth)
            if "trips" in parts:
                blocking, polling = round_trips(name, veth)
                trips, modes = trips + blocking, modes + polling
    if carried:
        header = ["path", "plimsoll Gbit/s", f"iperf3 {version} Gbit/s", "median of the pairs' ratios", "their range"]
        table("TCP, 128 KiB messages, as received", header, carried)
    if trips:
        table("Round trips of 1 byte, mean, blocking", ["path", "plimsoll µs", "other µs", "ratio", "range"], trips)
        table("Polling against blocking, p50", ["path", "block µs", "poll µs", "ratio", "range"], modes)
    if "crowds" in parts:
        crowds()
