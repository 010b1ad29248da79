"""Checks that the critical path of a JSON report covers the step without a gap; prints its kinds, whether computation is
slowed down, and its first segment."""

import json
import sys

with open(sys.argv[1]) as file:
    report = json.load(file)
path, now = report["criticalPath"], 0
for segment in path:
    if segment["startNs"] != now or segment["durationNs"] < 0:
        sys.exit(f"a gap at {now}: {segment}")
    now += segment["durationNs"]
if now != report["stepNs"]:
    sys.exit(f"the path ends at {now}, the step at {report['stepNs']}")
print(*sorted({segment["kind"] for segment in path}))
slowed = any(segment["slowdownNs"] > 0 for segment in path if segment["kind"] == "computation")
first = path[0]
print(f"{'' if slowed else 'no '}slowdown of computation, {first['kind']} of {first['groups']} at {first['startNs']}: {first['why']}")
