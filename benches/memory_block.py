"""memory.block against memory.bandwidth and the ports, and memory.loaded-latency against memory.latency."""

from shared import ROUNDS, interleave, median, plimsoll, spread, table

BLOCKS = "memory --only memory.block --samples 5 --threads 1".split()
SMALL = [*BLOCKS, "--size", "16K", "--block", "1,8", "--pattern", "sequential", "--op", "read,write,read-write"]
LARGE = [*BLOCKS, "--size", "1G", "--block", "8M", "--pattern", "sequential,random", "--op", "read"]
STREAM = "memory --only memory.bandwidth --samples 5 --threads 1 --size 1G --op read".split()
LOADED = "memory --only memory.loaded-latency --samples 5".split()
CHASE = "memory --only memory.latency --samples 5 --size 512M".split()


def bench():
    ports = {}
    for _ in range(ROUNDS):
        for metric in plimsoll(*SMALL):
            ports.setdefault(metric.case, []).append(metric.of_limit)
    rows = [(case, f"{median(shares):.3f}", spread(shares)) for case, shares in ports.items()]
    table("Single accesses in the first cache", ["case", "of the ports", "range"], rows)
    taken = interleave({"blocks": lambda: plimsoll(*LARGE), "passes": lambda: plimsoll(*STREAM)[0].value})
    rows = []
    for index, pattern in enumerate(["sequential", "random"]):
        ratios = [blocks[index].value / passes for blocks, passes in zip(taken["blocks"], taken["passes"])]
        rows.append((f"read, blocks of 8 MiB, {pattern}", f"{median(ratios):.3f}", spread(ratios)))
    table("Large blocks of 1 GiB against memory.bandwidth", ["case", "ratio", "range"], rows)
    taken = interleave({"loaded": lambda: plimsoll(*LOADED)[0], "chase": lambda: plimsoll(*CHASE)[0].value})
    idle = [metric.curve[0]["latency"] / chase for metric, chase in zip(taken["loaded"], taken["chase"])]
    table("The point without load against memory.latency", ["ratio", "range"], [(f"{median(idle):.3f}", spread(idle))])
