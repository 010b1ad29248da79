"""The steps that are compiled for a check on a GPU, and the purpose of each.

Models that compute in bf16 keep fp32 parameters, gather bf16 and reduce in fp32, as FSDP2 does under
MixedPrecisionPolicy(param_dtype=bf16, reduce_dtype=fp32).

Sizes "full" are for a GPU; "tiny" ones run the same checks on a CPU, to test the checks themselves.
"""

import dataclasses
import json
import pathlib
import sys
from typing import Optional

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "test" / "models"), str(ROOT / "tools" / "python")]

import models  # noqa: E402

#: Ranks of the steps whose peers are fake.
RANKS = 8

#: α-β model of their collectives, the same for the compiler's prediction, the runtime's fake
#: communicator and FSDP2: a ring of 8 GPUs over NVLink as the preset dgx-h100 has it (10 us and
#: 7 hops of 1.9 us; 360 GB/s). A collective takes latency + arriving bytes / bandwidth.
LATENCY_US = 23.3
GB_PER_S = 360.0

#: Optimizers of cases: the class of torch.optim, and options other than torch's defaults.
ADAMW = {"lr": 1e-3, "weight_decay": 0.1}
OPTIMIZERS = {
    "adamw": ("AdamW", ADAMW),
    "rmsprop": ("RMSprop", {"lr": 1e-3, "weight_decay": 0.1, "momentum": 0.9, "centered": True}),
    "nadam": ("NAdam", {"lr": 1e-2, "weight_decay": 0.1, "momentum_decay": 0.1, "decoupled_weight_decay": True}),
    "radam": ("RAdam", {"lr": 1e-2, "weight_decay": 0.1}),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Case:
    """One compiled step. Its initial weights are drawn on the machine that runs it; `values` names
    them, and cases of one model share them."""

    purpose: str
    model: models.Config
    values: str
    ranks: int = 1
    schedule: str = "fsdp2"  # or "auto"
    memory_cap: str = ""  # for the search
    fusion: str = "off"  # or "fast": elementwise operators are generated kernels
    optimizer: str = "adamw"  # of OPTIMIZERS


def network():
    """The costs of collectives, as the contents of a file for --network."""
    bytes_per_ns = GB_PER_S * RANKS / (RANKS - 1)
    line = {"ranks": RANKS, "latencyNs": LATENCY_US * 1e3, "nsPerByte": 1 / bytes_per_ns,
            "spread": 0}  # fmt: skip
    return {
        "format": "fsdp-network", "version": 1, "name": "fake", "source": "the fake communicator",
        "measured": [{"kind": kind, **line} for kind in ("all_gather", "reduce_scatter")],
        "laneContention": 1, "computeContention": 1,
    }  # fmt: skip


def cases(size: str):
    """{name: Case} of a size: "full" or "tiny"."""
    if size not in SIZES:
        raise ValueError(f"unknown size '{size}', expected one of {', '.join(SIZES)}")
    curve, dropout, large = SIZES[size]
    # A little less than FSDP2's order needs; without a cap the search uses 2 GiB more.
    cap = "28GiB" if size == "full" else ""
    small = dataclasses.replace(large, batch=1, seq=min(large.seq, 64))
    mlp = models.Config("mlp", dim=64, batch=8)
    return {
        "mlp": Case("first contact", mlp, "mlp"),
        **{name: Case(f"{name}'s updates beside torch's", mlp, "mlp", optimizer=name)
           for name in OPTIMIZERS if name != "adamw"},
        "curve": Case("the loss curve beside torch eager", curve, "curve"),
        "curve-fused": Case("the same with generated kernels", curve, "curve", fusion="fast"),
        "dropout": Case("graph replay beside eager issue", dropout, "dropout"),
        "dropout-8": Case("the same, with collectives", dropout, "dropout", RANKS),
        "large-fsdp2": Case("step time in FSDP2's order", large, "large", RANKS),
        "large-auto": Case("step time in the searched order", large, "large", RANKS, "auto"),
        "large-fused": Case("the same with generated kernels", large, "large", RANKS, "auto",
                            fusion="fast"),
        "large-fused-fsdp2": Case("generated kernels in FSDP2's order", large, "large", RANKS,
                                  fusion="fast"),
        "large-tight": Case("the searched order under a memory cap", large, "large", RANKS, "auto", cap),
        "large-alone": Case("the same kernels without FSDP", large, "large"),
        "large-short": Case("host time: few tokens, all kernels", small, "short", RANKS),
    }


SIZES = {
    "full": (
        models.Config("llama", dim=512, layers=4, heads=8, vocab=512, seq=256, batch=8,
                      compute="bf16"),
        models.Config("gpt2", dim=256, layers=4, heads=4, vocab=512, seq=256, batch=8,
                      dropout=0.1),
        models.Config("llama", dim=2048, layers=16, heads=32, kv_heads=8, ffn=8192, vocab=32000,
                      seq=2048, batch=8, compute="bf16"),
    ),
    "tiny": (
        models.Config("llama", dim=32, layers=2, heads=4, vocab=64, seq=16, batch=2,
                      compute="bf16"),
        models.Config("gpt2", dim=32, layers=2, heads=4, vocab=64, seq=16, batch=2, dropout=0.1),
        models.Config("llama", dim=32, layers=3, heads=4, vocab=64, seq=32, batch=2,
                      compute="bf16"),
    ),
}  # fmt: skip


def find(manifest: dict, name: str) -> Optional[dict]:
    """The manifest's entry of a case."""
    return next((entry for entry in manifest["cases"] if entry["name"] == name), None)


def read(parser, options):
    """(manifest, case) that --cases and --case name."""
    try:
        manifest = json.loads((options.cases / "manifest.json").read_text())
    except OSError as error:
        parser.error(f"--cases {options.cases}: {error}")
    case = find(manifest, options.case)
    if case is None:
        names = ", ".join(entry["name"] for entry in manifest["cases"])
        parser.error(f"--case {options.case}: {options.cases} has only {names}")
    return manifest, case
