#!/usr/bin/env python3
"""Summarizes a run: `summary.py TEXT LOG REPORT BLOCK`."""

import collections
import json
import math
import pathlib
import sys

PHASES = {"forward": "forward ", "backward": "backward"}


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    text, log, report, block = sys.argv[1:]
    try:
        data = pathlib.Path(text).read_bytes()
        steps = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
        events = json.loads(pathlib.Path(report).read_text())["events"]
    except OSError as error:
        sys.exit(f"summary.py: error: {error}")
    counts = collections.Counter(data).values()
    entropy = -sum(count / len(data) * math.log(count / len(data)) for count in counts)
    print("loss, nats per byte (a model that knows only how frequent each byte is: "
          f"{entropy:.3f})")  # fmt: skip
    for line in steps[:: max(1, len(steps) // 8)] + [steps[-1]]:
        print(f"  step {line['step']:4d}  {line['loss']:.3f}  {'#' * round(12 * line['loss'])}")
    last = sum(line["loss"] for line in steps[-10:]) / len(steps[-10:])
    print(f"  last 10 steps: {last:.3f}, {entropy - last:.3f} below the unigram entropy")

    mine = [i for i, event in enumerate(events) if event["group"] == block]
    if not mine:
        groups = sorted({event["group"] for event in events})
        sys.exit(f"summary.py: error: there is no group '{block}' in {report}, only {', '.join(groups)}")
    print(f"\nevents of {block} and what is issued around them:")
    for i in sorted({j for i in mine for j in (i - 1, i, i + 1) if 0 <= j < len(events)}):
        event = events[i]
        mark = "->" if i in mine else "  "
        print(f"  {mark} {PHASES[event['phase']]}  {event['event']:13s}  {event['group']}")
    if last > entropy - 0.3:
        sys.exit(f"the loss {last:.3f} is not well below the unigram entropy {entropy:.3f}")


if __name__ == "__main__":
    main()
