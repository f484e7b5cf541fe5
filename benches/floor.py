"""The harness's own floor: what a measurement of nothing costs."""

from shared import ROUNDS, plimsoll, table


def bench():
    rows = {}
    for _ in range(ROUNDS):
        for metric in plimsoll("run", "--only", "null"):
            rows.setdefault((metric.case, metric.unit), []).append(metric.value)
    table(
        "The harness's own floor",
        ["case", "least", "most", "unit"],
        [(case, f"{min(values):.4g}", f"{max(values):.4g}", unit) for (case, unit), values in rows.items()],
    )
