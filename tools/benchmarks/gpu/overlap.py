#!/usr/bin/env python3
"""Computes how much of the communication that a schedule hides is hidden on a measured timeline.

    overlap.py PREDICTED.json MEASURED.json

PREDICTED is fsdp-explain's --trace of a schedule, MEASURED a training binary's --trace of it. For
each collective the schedule gives the share of its time for which computation does not wait. The
result is

    sum over collectives of min(share * time, hidden) / sum of share * time

with the measured time and its hidden part, or 1 if the schedule hides nothing. The exposed part is
the time for which the compute stream waits for the collective.
"""

import json
import pathlib
import sys

#: Tracks of both traces, see lib/Explain/Trace.cpp.
TRACKS = {3: "gather", 4: "reduce"}


class Mismatch(Exception):
    """The traces are not of the same schedule; the message is one line."""


def collectives(path):
    """{track: [slice, ...]} in order of time."""
    events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X" and e["tid"] in TRACKS]
    slices.sort(key=lambda e: e["ts"])
    return {tid: [e for e in slices if e["tid"] == tid] for tid in TRACKS}


def compare(predicted, measured):
    """{"hidden_of_hideable": ..., "communication_us": ..., "exposed_us": ..., "worst": [...]}"""
    hideable = hidden = total = exposed = 0.0
    rows = []
    expected, seen = collectives(predicted), collectives(measured)
    for tid, track in TRACKS.items():
        names = [[e["name"] for e in side[tid]] for side in (expected, seen)]
        if names[0] != names[1]:
            place = next((i for i, pair in enumerate(zip(*names)) if pair[0] != pair[1]),
                         min(map(len, names)))  # fmt: skip
            sides = [side[place] if place < len(side) else "nothing" for side in names]
            raise Mismatch(f"slice {place + 1} on the {track} track is {sides[0]} in {predicted}, "
                           f"but {sides[1]} in {measured}")  # fmt: skip
        for before, now in zip(expected[tid], seen[tid]):
            share = before["args"]["hidden us"] / before["dur"] if before["dur"] else 0.0
            wanted, found = share * now["dur"], now["args"]["hidden us"]
            hideable += wanted
            hidden += min(wanted, found)
            total += now["dur"]
            exposed += now["args"]["exposed us"]
            rows.append((wanted - min(wanted, found), now["name"], now["args"]["part"]))
    rows.sort(reverse=True)
    return {
        "hidden_of_hideable": hidden / hideable if hideable else 1.0,
        "communication_us": total, "hideable_us": hideable, "exposed_us": exposed,
        "worst": [{"collective": name, "part": part, "missed_us": missed}
                  for missed, name, part in rows[:5] if missed > 0],
    }  # fmt: skip


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        print(json.dumps(compare(*sys.argv[1:]), indent=1))
    except (OSError, KeyError, json.JSONDecodeError, Mismatch) as error:
        sys.exit(f"overlap.py: error: {error}")


if __name__ == "__main__":
    main()
