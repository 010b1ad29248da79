"""First contact: small steps, each in several ways, which use more and more features of the device.

A rung is a model in one way: issued entry by entry, as a graph, or as a graph with NCCL on one rank. Each rung is a
process of its own, so a failure does not affect the others. A rung that fails runs once more with blocking
launches, which show the kernel that failed, and the last events of its streams (--failure-dump) are in the logs.
"""

import json

import runs

#: From few operators to many: an MLP, GPT-2 in fp32 with dropout, Llama in bf16, the same with generated kernels.
MODELS = ("mlp", "dropout", "curve", "curve-fused")
#: {way: (flags, whether with NCCL)}
WAYS = {"eager": (["--cuda-graph", "off"], False), "graph": (["--cuda-graph", "on"], False),
        "nccl": (["--cuda-graph", "on"], True)}  # fmt: skip
STEPS = 5
BLOCKING = {"CUDA_LAUNCH_BLOCKING": "1"}


def attempt(runner, name, way, **environment):
    """Figures of one rung."""
    flags, nccl = WAYS[way]
    if runner.device == "cpu":
        flags = []
    what = f"ladder {name} {way}" + (" blocking" if environment else "")
    dump = runner.logs / what.replace(" ", "-")
    log = runner.work / f"{name}.jsonl"
    log.unlink(missing_ok=True)
    command = runner.command(name, STEPS, [*flags, "--failure-dump", dump], "copy", None, nccl)
    try:
        output = runner.call(command, what, **environment)
    except runs.Failed as error:
        return {"error": str(error)}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    own = {"losses": [line["loss_hex"] for line in lines],
           "graph": runs.Result(lines, output).figure(r"CUDA graph (.*)")}  # fmt: skip
    if runner.device == "cuda" and way != "eager" and not (own["graph"] or "").startswith("on"):
        own["error"] = f"the step is no graph: {own['graph']}"
    return own


def climb(runner, figures):
    """Fills {"<model> <way>": figures}. Returns the names of rungs that failed, or whose losses differ from the
    model's first rung."""
    wrong = []
    for name in MODELS:
        first = None  # first rung of the model with losses
        for way in WAYS:
            rung = f"{name} {way}"
            own = figures[rung] = attempt(runner, name, way)
            if "losses" not in own:
                own["blocking"] = attempt(runner, name, way, **BLOCKING)
            else:
                first = first or rung
                if own["losses"] != figures[first]["losses"]:
                    own["error"] = f"other losses than {first}"
            if "error" in own:
                wrong.append(rung)
    return wrong
