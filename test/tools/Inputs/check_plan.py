"""Checks what holds of every sweep: `check_plan.py JSON CSV`."""

import csv
import itertools
import json
import sys

points = json.load(open(sys.argv[1]))["points"]
rows = list(csv.DictReader(open(sys.argv[2])))
assert len(points) == len(rows)
for point, row in zip(points, rows):
    assert point["fits"] == (row["fits"] == "1")
    if not point["fits"]:
        assert point["minimumPeakBytes"] > point["capBytes"]
        continue
    assert point["stepNs"] == int(row["step_ns"]) and point["ranks"] == int(row["ranks"])
    assert point["peakBytes"] <= (point["capBytes"] or point["peakBytes"])
    assert point["peakBytes"] == point["arenaBytes"] + point["temporaryBytes"]
    assert sum(point["liveBytes"].values()) <= point["arenaBytes"]
    assert point["stepNs"] >= point["boundNs"] - 1
    # All ranks together: 16 tokens on each.
    assert point["itemsPerStep"] == 16 * point["ranks"]
for ranks, group in itertools.groupby(points, lambda point: point["ranks"]):
    group = [point for point in group if point["fits"]]
    assert any(point["pareto"] for point in group)
    for smaller, larger in zip(group, group[1:]):
        assert larger["stepNs"] <= smaller["stepNs"], (smaller, larger)
    print(f"{ranks} ranks: {len(group)} points")
