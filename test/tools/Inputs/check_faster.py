"""Checks a table of fsdp-plan with two rows: `check_faster.py RATIO` expects the second step to take at most RATIO of the
first one's time, with the same cap."""

import csv
import sys

first, second = csv.DictReader(sys.stdin)
assert first["cap_bytes"] == second["cap_bytes"]
ratio = int(second["step_ns"]) / int(first["step_ns"])
assert ratio <= float(sys.argv[1]), ratio
