"""Makes the trace of a "run" from that of a simulated step.

Usage: measured_trace.py SIMULATED MEASURED [gathers=FACTOR] [compute=FACTOR] [exposed=FACTOR] [pause=US]
                         [steps=FACTOR,FACTOR...] [mesh=TEXT] [drop=NAME] [add=NAME]

exposed: of the waits for gathers. pause: after the first operation, without effect on collectives before its
end. steps: several steps, whose computation takes so many times as long.
"""

import json
import sys

source, target, *changes = sys.argv[1:]
changes = dict(change.split("=", 1) for change in changes)
with open(source) as file:
    trace = json.load(file)
trace["otherData"]["costs"] = "measured, step 3"
trace["otherData"]["mesh"] = changes.get("mesh", trace["otherData"]["mesh"])
factors = {2: float(changes.get("compute", 1)), 3: float(changes.get("gathers", 1))}
first = min((e for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] == 2), key=lambda e: e["ts"])
first_end = first["ts"] + first["dur"]
events = []
for event in trace["traceEvents"]:
    if event["ts"] >= first_end:
        event["ts"] += float(changes.get("pause", 0))
    if event["ph"] == "X":
        event["dur"] *= factors.get(event["tid"], 1)
        if event["tid"] == 3:
            event["args"]["exposed us"] *= float(changes.get("exposed", 1))
        if event["name"] == changes.get("drop"):
            continue
        if event["tid"] == 3 and "add" in changes:
            events.append({**event, "name": changes.pop("add")})
    events.append(event)
trace["traceEvents"] = []
for process, factor in enumerate(changes.get("steps", "1").split(",")):
    for event in events:
        longer = {"dur": event["dur"] * float(factor)} if event["ph"] == "X" and event["tid"] == 2 else {}
        trace["traceEvents"].append({**event, **longer, "pid": process})
with open(target, "w") as file:
    json.dump(trace, file)
