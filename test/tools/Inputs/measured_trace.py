"""Makes the trace of a "run" from that of a simulated step.

Usage: measured_trace.py SIMULATED MEASURED [gathers=FACTOR] [compute=FACTOR] [mesh=TEXT] [drop=NAME] [add=NAME]
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
events = []
for event in trace["traceEvents"]:
    if event["ph"] == "X":
        event["dur"] *= factors.get(event["tid"], 1)
        if event["name"] == changes.get("drop"):
            continue
        if event["tid"] == 3 and "add" in changes:
            events.append({**event, "name": changes.pop("add")})
    events.append(event)
trace["traceEvents"] = events
with open(target, "w") as file:
    json.dump(trace, file)
