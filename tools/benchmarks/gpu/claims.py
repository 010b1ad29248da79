"""The claims that tools/gpu-check.sh checks: each with its goal, measured figure and verdict."""

import dataclasses
import math
from typing import Optional

import curve
import optimizers


@dataclasses.dataclass
class Claim:
    part: str  # of check.py
    kind: str  # right, fast, ...
    claim: str
    sense: str  # "<=" or ">="
    goal: float
    only_cuda: bool = False
    value: Optional[float] = None  # None: not measured, and `reason` says why
    reason: str = ""
    holds: bool = False


#: Ways of FSDP2 with torch.compile, besides eager: each block is compiled, or the whole model.
COMPILED = {"blocks": "blocks", "whole": "the model"}
#: Steps with torch's kernels are compared with eager FSDP2; steps with generated kernels, the default of
#: --target cuda, with eager and compiled FSDP2.
OFF, FUSED = ("large-auto", "large-fsdp2"), ("large-fused", "large-fused-fsdp2")
#: The case for claims on memory. The other one uses the available memory: without a cap the fastest step keeps results
#: instead of recomputing them.
SMALL = "large-fused-fsdp2"


def beside_compiled(compiled):
    """The claims that need FSDP2 with this way of torch.compile."""
    return [*(f"step {name} {compiled}" for name in FUSED), f"memory {SMALL} {compiled}"]


def all_claims():
    """{key: Claim}, in the order of the report."""
    found = {
        "ladder": Claim("ladder", "right", "first steps that fail, are no graph or have other losses", "<=", 0),
        "operators": Claim("operators", "right", "operators that do otherwise than the plan says",
                           "<=", 0),
        **{f"first {name}": Claim("curve", "right", f"{name}: first losses beside torch eager's", "<=",
                                  curve.FIRST_BOUND) for name in curve.CASES},
        **{f"curve {name}": Claim("curve", "right", f"{name}: distance from eager / torch's own spread", "<=",
                                  curve.SPREAD) for name in curve.CASES},
        **{f"optimizer {name}": Claim("optimizers", "right", f"{name}: losses beside torch eager's", "<=",
                                      optimizers.BOUND) for name in optimizers.NAMES},
        **{f"replay {name}": Claim("replay", "right",
                                   f"{name}: steps and weights unlike eager issue", "<=", 0)
           for name in ("dropout", "dropout-8")},
        **{f"graph {name}": Claim(part, "right", f"{name}: a step is one graph", ">=", 1, True)
           for part, name in (("replay", "dropout"), ("replay", "dropout-8"),
                              *(("fast", name) for name in (*OFF, "large-short", "large-tight", *FUSED)))},
        **{f"step {name}": Claim("reference", "fast", f"{name}: step time / FSDP2's", "<=", goal)
           for names, goal in ((FUSED, 0.8), (OFF, 1.0)) for name in names},
        **{f"step {name} {compiled}": Claim(
               "compiled", "fast", f"{name}: the same, torch.compile of {whose}", "<=", 0.95, True)
           for name in FUSED for compiled, whose in COMPILED.items()},
        **{f"predicted {name}": Claim("fast", "predicted", f"{name}: step time beside the predicted one", "<=",
                                      0.1, True) for name in (*OFF, *FUSED)},
        "host": Claim("reference", "fast", "host time per step / FSDP2's", "<=", 0.05),
        "bare": Claim("bare", "fast", "step time / the same kernels in one graph", "<=", 1.03),
        **{f"overlap {name}": Claim("overlapped", "overlapped",
                                    f"{name}: hidden of what the schedule hides", ">=", 0.95)
           for name in (*OFF, "large-fused")},
        **{f"memory {name}": Claim("reference", "small", f"{name}: device memory / FSDP2's", "<=",
                                   0.9, True) for name in ("large-fsdp2", "large-tight")},
        **{f"memory {SMALL} {compiled}": Claim(
               "compiled", "small", f"{SMALL}: the same, torch.compile of {whose}", "<=", 0.9, True)
           for compiled, whose in COMPILED.items()},
        "copies": Claim("fast", "zero copies", "bytes copied between FSDP's buffers per step",
                        "<=", 0),
        "bandwidth": Claim("bandwidth", "bandwidth", "slowest kernel / copy", ">=", 0.9, True),
    }  # fmt: skip
    return found


class Table:
    """The claims of `parts` on a device."""

    def __init__(self, parts, device):
        self.rows = {key: claim for key, claim in all_claims().items()
                     if claim.part in parts and (device == "cuda" or not claim.only_cuda)}  # fmt: skip

    def measured(self, key, value):
        row = self.rows.get(key)
        if row is None:
            return
        if not math.isfinite(value):
            row.reason = f"{value} was measured"
            return
        row.value, row.reason = value, ""
        row.holds = value >= row.goal if row.sense == ">=" else value <= row.goal

    def failed(self, key, reason):
        if key in self.rows:
            self.rows[key].reason = reason

    def end_part(self, part, reason):
        """Marks the claims of an ended part as not measured, unless a later part measures them."""
        for row in self.rows.values():
            if row.part == part and row.value is None and not row.reason:
                row.reason = reason

    def holds(self):
        return all(row.holds for row in self.rows.values())

    def print(self):
        print(f"\n{'':<12}{'claim':<54} {'measured':>10} {'goal':>10}  verdict")
        kind = None
        for row in self.rows.values():
            head, kind = ("" if row.kind == kind else row.kind), row.kind
            goal = f"{row.sense} {row.goal:.4g}"
            if row.value is None:
                line = f"{'-':>10} {goal:>10}  NOT MEASURED: {row.reason}"
            else:
                line = f"{row.value:>10.4g} {goal:>10}  {'ok' if row.holds else 'MISSED'}"
            print(f"{head:<12}{row.claim:<54} {line}")
