"""Checks what holds of every sweep: `check_plan.py JSON CSV`."""

import csv
import itertools
import json
import sys

points = json.load(open(sys.argv[1]))["points"]
rows = list(csv.DictReader(open(sys.argv[2])))
assert len(points) == len(rows)
for point, row in zip(points, rows):
    assert point["fits"] and row["fits"] == "1"
    assert point["stepNs"] == int(row["step_ns"]) and point["ranks"] == int(row["ranks"])
    assert point["peakBytes"] <= (point["capBytes"] or point["peakBytes"])
    assert point["peakBytes"] >= point["minimumPeakBytes"]
    assert point["stepNs"] >= point["boundNs"] - 1
    # All ranks together: 16 tokens on each.
    assert point["itemsPerStep"] == 16 * point["ranks"]
for ranks, group in itertools.groupby(points, lambda point: point["ranks"]):
    group = list(group)
    assert any(point["pareto"] for point in group)
    for smaller, larger in zip(group, group[1:]):
        assert larger["stepNs"] <= smaller["stepNs"], (smaller, larger)
    print(f"{ranks} ranks: {len(group)} points")
