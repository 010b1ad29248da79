#!/usr/bin/env python3
"""Compares measured and predicted durations of a step's operators and kernels, to calibrate the cost
model.

    operators.py PREDICTED.json MEASURED.json

PREDICTED is fsdp-explain's --trace of a schedule, MEASURED a training binary's --trace of it, issued
entry by entry. Both have the same operators on the compute track in the same order, except those to
which the cost model gives no time (zeroing of memory): their prediction is 0. A row has the slices
of one operator that move the same number of bytes, as given in the measured timeline.
"""

import json
import pathlib
import sys

from overlap import Mismatch

COMPUTE = 2  # the track, see lib/Explain/Trace.cpp


def slices(path):
    """(operator or kernel, slice) of the compute track, in order of time."""
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    computed = sorted((e for e in events if e["ph"] == "X" and e["tid"] == COMPUTE),
                      key=lambda e: e["ts"])  # fmt: skip
    # The compiler marks kernels, the runtime gives only their names.
    return [(e["args"]["operator"].removeprefix("kernel "), e) for e in computed]


def predicted_ms(path):
    """The end of the last slice of a predicted timeline."""
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    return max(e["ts"] + e["dur"] for e in events if e["ph"] == "X") / 1e3


def compare(predicted, measured):
    """A row per operator and number of bytes, the longest first."""
    expected, seen = slices(predicted), slices(measured)
    priced = {name for name, _ in expected}
    names = [[name for name, _ in side if name in priced] for side in (expected, seen)]
    if names[0] != names[1]:
        place = next((i for i, pair in enumerate(zip(*names)) if pair[0] != pair[1]), min(map(len, names)))
        sides = [side[place] if place < len(side) else "nothing" for side in names]
        raise Mismatch(f"slice {place + 1} on the compute track is {sides[0]} in {predicted}, "
                       f"but {sides[1]} in {measured}")  # fmt: skip
    predictions = iter(expected)
    rows = {}
    for name, now in seen:
        size = now["args"].get("bytes")
        row = rows.setdefault((name, size), {"operator": name, "calls": 0, "measured_ms": 0.0,
                                             "predicted_ms": 0.0, "bytes_per_call": size})  # fmt: skip
        row["calls"] += 1
        row["measured_ms"] += now["dur"] / 1e3
        row["predicted_ms"] += next(predictions)[1]["dur"] / 1e3 if name in priced else 0.0
    for row in rows.values():
        if row["bytes_per_call"] and row["measured_ms"]:
            row["gb_per_s"] = row["bytes_per_call"] * row["calls"] / row["measured_ms"] / 1e6
    return sorted(rows.values(), key=lambda row: -row["measured_ms"])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        rows = compare(*sys.argv[1:])
    except (OSError, KeyError, json.JSONDecodeError, Mismatch) as error:
        sys.exit(f"operators.py: error: {error}")
    print(f"{'measured':>9} {'predicted':>9} {'calls':>6} {'MB/call':>8} {'GB/s':>6}  operator")
    for row in rows:
        size = f"{row['bytes_per_call'] / 1e6:8.2f}" if row["bytes_per_call"] else f"{'-':>8}"
        rate = f"{row['gb_per_s']:6.0f}" if "gb_per_s" in row else f"{'-':>6}"
        print(f"{row['measured_ms']:9.3f} {row['predicted_ms']:9.3f} {row['calls']:6} {size} {rate}  {row['operator']}")
    measured, predicted = (sum(row[key] for row in rows) for key in ("measured_ms", "predicted_ms"))
    print(f"{measured:9.3f} {predicted:9.3f}  ms in all")


if __name__ == "__main__":
    main()
