#!/usr/bin/env python3
"""Every rule of a phase has one label, in the verifiers' messages, in their descriptions and in tests.

  labels_test.py ROOT

Labels are a letter and a number: M of modules of any phase, C captured, S sharded, D scheduled, P planned.
"""

import pathlib
import re
import sys

LABEL = r"[MCSDP][1-9]"
#: What diagnoses violations of rules.
CHECKERS = [
    *(f"lib/Analysis/{n}.cpp" for n in "Clipping HostPlaces Overwrites Provenance ReductionChecks ScheduleChecks "
      "ShardingChecks ShardingDiagnostics SharedState StateCopies Step".split()),
    *(f"passes/Verify{n}.cpp" for n in ("Captured", "Sharded", "Scheduled", "Planned")),
]  # fmt: skip
#: The library that the planner shares with the verifier: of its messages one is a rule.
SHARED = ["lib/Analysis/StepStorage.cpp"]


def main():
    root = pathlib.Path(sys.argv[1])
    said, problems = set(), []
    for name in CHECKERS + SHARED:
        text = (root / name).read_text()
        # Labels that a function is handed: checkGroups(step, "S1").
        said.update(re.findall(rf'"({LABEL})[":]', text))
        # A helper that puts the label before its message is checked once, one that is handed both at
        # each call.
        calls = "emitError|emitOpError" + ("|fail" if "emitError(message)" in text else "")
        for call in re.finditer(rf"(?:{calls})\(([^;{{]*)", text):
            first = re.search(r'"([^"]*)"', call[1])
            labelled = not first or re.match(rf"{LABEL}: ", first[1]) or re.match(r"\s*label\b", call[1])
            # The message may be handed over by a caller, and where a phase is wrong no rule is broken.
            handed = re.match(r"\s*(message|pass)\b|\s*(Operation|const Twine)", call[1])
            if not labelled and not handed and name in CHECKERS:
                line = text.count("\n", 0, call.start()) + 1
                problems.append(f'{name}:{line}: the message "{first[1]}" has no label')
    documented = set(re.findall(rf"^    - ({LABEL}): ", (root / "passes/VerifierPasses.td").read_text(), re.M))
    tests = [p for p in (root / "test").rglob("*") if p.suffix in (".mlir", ".test")]
    tested = {label for p in tests for label in re.findall(rf"\b({LABEL}): ", p.read_text())}
    for one, where, other, there in ((said, "a message", documented, "passes/VerifierPasses.td"),
                                     (documented, "passes/VerifierPasses.td", said, "any message"),
                                     (said, "a message", tested, "any lit test")):  # fmt: skip
        problems += [f"{label} stands in {where}, but not in {there}" for label in sorted(one - other)]
    print(f"{len(said)} labels: {' '.join(sorted(said))}")
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
