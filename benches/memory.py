"""memory.bandwidth and memory.latency, as they stand without words."""

from shared import ROUNDS, median, plimsoll, spread, table


def bench():
    cases = {}
    for _ in range(ROUNDS):
        for metric in plimsoll("memory"):
            cases.setdefault(metric.case, []).append(metric)
    rows = []
    for case, metrics in cases.items():
        values = [metric.value for metric in metrics]
        shares = [metric.of_limit for metric in metrics if metric.of_limit is not None]
        share = f"{median(shares):.3f}" if shares else "unknown"
        rows.append((case, f"{median(values):.4g}", spread(values), metrics[0].unit, share))
    table("Memory", ["case", "median", "range", "unit", "of limit"], rows)
