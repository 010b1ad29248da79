"""Checks a trace strictly against the Chrome trace event format, as Perfetto reads it: times become
whole nanoseconds, slices of a track must nest, flows must begin and end inside slices."""

import collections
import json
import sys

FIELDS = {
    "M": {"args"},
    "X": {"dur", "args"},
    "C": {"args"},
    "s": {"cat", "id"},
    "f": {"cat", "id", "bp"},
}
COMMON = {"ph", "name", "pid", "tid", "ts"}
METADATA = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


def check(condition, event, why):
    if not condition:
        sys.exit(f"{why}: {json.dumps(event)}")


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def nanoseconds(microseconds):
    return int(microseconds * 1000)


def check_fields(event):
    phase = event.get("ph")
    check(phase in FIELDS, event, "unknown phase")
    check(set(event) == COMMON | FIELDS[phase], event, "wrong fields")
    check(isinstance(event["name"], str) and event["name"], event, "no name")
    check(all(type(event[key]) is int for key in ("pid", "tid")), event, "pid or tid is no integer")
    check(is_number(event["ts"]) and event["ts"] >= 0, event, "ts is no time")
    if phase == "M":
        key = METADATA.get(event["name"])
        check(key and list(event["args"]) == [key], event, "unknown metadata")
    if phase == "X":
        check(is_number(event["dur"]) and event["dur"] >= 0, event, "dur is no duration")
    if phase == "C":
        values = event["args"].values()
        check(values and all(map(is_number, values)), event, "a counter needs numbers")
    if phase == "f":
        check(event["bp"] == "e", event, "an end that binds to no enclosing slice")


def check_slices(events):
    """Slices of one track lie behind or inside each other. Returns them by track."""
    tracks = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin = nanoseconds(event["ts"])
            tracks[event["tid"]].append((begin, begin + nanoseconds(event["dur"]), event))
    for slices in tracks.values():
        slices.sort(key=lambda item: (item[0], -item[1]))
        enclosing = []
        for begin, end, event in slices:
            while enclosing and enclosing[-1] <= begin:
                enclosing.pop()
            check(not enclosing or end <= enclosing[-1], event, "overlaps the slice before it")
            enclosing.append(end)
    return tracks


def check_flows(events, tracks):
    flows = collections.defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            ends = flows[event["cat"], event["id"]]
            check(event["ph"] not in ends, event, "a second end of this flow")
            ends[event["ph"]] = event
            at = nanoseconds(event["ts"])
            inside = any(begin <= at <= end for begin, end, _ in tracks[event["tid"]])
            check(inside, event, "no slice encloses it")
    for ends in flows.values():
        event = next(iter(ends.values()))
        check(len(ends) == 2, event, "a flow with one end")
        check(ends["s"]["ts"] <= ends["f"]["ts"], event, "a flow that ends before it begins")
    return flows


def main():
    with open(sys.argv[1]) as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    for event in events:
        check_fields(event)
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    tracks = check_slices(events)
    flows = check_flows(events, tracks)
    counters = {event["name"] for event in events if event["ph"] == "C"}
    check(set(tracks) <= named, sorted(tracks), "a track without a name")
    print(f"{len(tracks)} tracks {len(flows)} flows {len(counters)} counters")


main()
