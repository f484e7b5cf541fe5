"""network.latency beside sockperf (netperf is not in Debian's free archive), interleaved, both ends pinned to the same
CPUs: round trips of one byte by TCP and UDP over loopback and a veth pair. sockperf's smallest message is its header of
14 bytes. Then polling against blocking."""

import json
import os
import re
import subprocess
import time

from netns import Veth
from shared import CPUS, PLIMSOLL, ROUNDS, median, spread, table, tool

SECONDS = int(os.environ.get("SECONDS_EACH", "2"))
NEAR, FAR = 0, 1 if CPUS > 1 else 0
MESSAGE = 14


def plimsoll(veth, protocol, mode="block", message=MESSAGE):
    words = ["network", "--only", "network.latency", "--protocol", protocol, "--message", str(message), "--mode", mode]
    argv = [PLIMSOLL, *words, "--samples", "1", "--sample-time", f"{SECONDS}s", "--json", "-", "--store", "none", "--quiet"]
    # Over loopback plimsoll pins both ends itself, to the same CPUs.
    pinned = ["taskset", "-c", str(NEAR)] if veth.apart else []
    with veth.serving() as server:
        ran = subprocess.run([*veth.near, *pinned, *argv, *server], capture_output=True, text=True, timeout=120)
    if ran.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: exit {ran.returncode}: {ran.stderr.strip()}")
    rtt = json.loads(ran.stdout)["measurements"][0]["metrics"][0]
    return rtt["summary"]["median"] * 1e6, rtt["percentiles"]["p50"] * 1e6


def sockperf(veth, protocol):
    tcp = ["--tcp"] if protocol == "tcp" else []
    at = ["-i", veth.address, "-p", "5998"]
    server = subprocess.Popen(
        [*veth.far, "taskset", "-c", str(FAR), "sockperf", "server", *at, *tcp],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(0.3)
        client = ["taskset", "-c", NEAR, "sockperf", "ping-pong", *at, *tcp, "-m", MESSAGE, "-t", SECONDS, "--full-rtt"]
        said = tool(*veth.near, *client, package="sockperf")
    finally:
        server.kill()
        server.wait()
    return float(re.search(r"avg-rtt=([0-9.]+)", said).group(1))


def bench():
    tool("sockperf", "--version", package="sockperf")
    rows, modes = [], []
    for name, veth in (("loopback", Veth.none()), ("veth", Veth.pair())):
        with veth:
            for protocol in ("tcp", "udp"):
                taken = []
                for number in range(ROUNDS):
                    sides = [lambda: plimsoll(veth, protocol), lambda: (sockperf(veth, protocol), 0.0)]
                    first, second = (0, 1) if number % 2 else (1, 0)
                    got = {first: sides[first]()}
                    got[second] = sides[second]()
                    taken.append((got[0], got[1][0], plimsoll(veth, protocol, "poll")))
                ratios = [ours[0] / theirs for ours, theirs, _ in taken]
                ours, theirs = [ours[0] for ours, _, _ in taken], [theirs for _, theirs, _ in taken]
                rows.append(
                    (
                        f"{protocol}, {name}",
                        f"{median(ours):.2f}",
                        f"{median(theirs):.2f}",
                        at_most(median(ratios), 1.02),
                        spread(ratios),
                    )
                )
                polled = [poll[1] / block[1] for block, _, poll in taken]
                modes.append(
                    (
                        f"{protocol}, {name}",
                        f"{median([block[1] for block, _, _ in taken]):.2f}",
                        f"{median([poll[1] for _, _, poll in taken]):.2f}",
                        at_most(median(polled), 0.5),
                        spread(polled),
                    )
                )
    table(
        f"Round trips of {MESSAGE} bytes, mean, blocking",
        ["path", "plimsoll µs", "sockperf µs", "ratio", "range"],
        rows,
    )
    table("Polling against blocking, p50", ["path", "block µs", "poll µs", "ratio", "range"], modes)


def at_most(value, wanted):
    """A ratio beside what it must not exceed."""
    return f"{value:.3f} ({'reached' if value <= wanted else 'ABOVE'} {wanted:g})"
