"""The input formats: for each the seed files, the mutation, and the commands that read it."""

import pathlib
import subprocess
import sys
from dataclasses import dataclass

import mutate

SOURCE = pathlib.Path(__file__).resolve().parents[2]

CONFIGS = [
    """mesh: {replicate: 2, shard: 2}
layout: per-param
prefetch: fsdp2
reshard_after_forward: true
groups:
  - modules: ["layers.0"]
    reshard_after_forward: false
    recompute: full
  - modules: ["layers.*"]
root: {reshard_after_forward: true}
optimizer: {name: adamw, lr: 3.0e-4, betas: [0.9, 0.95], eps: 1.0e-8, weight_decay: 0.1, clip_grad_norm: 1.0}
mixed_precision: {param_dtype: bfloat16, reduce_dtype: float32}
""",
    "mesh: {dp: 4}\ngroups:\n  - together: [\"layers.0\", \"layers.1\"]\n    offload_optimizer: true\n",
]

NETWORKS = [
    """{"format": "fsdp-network", "version": 1, "name": "n", "source": "s", "baseNs": 2000,
 "levels": [{"name": "host", "units": 8, "hopNs": 700, "bytesPerSec": 2.0e11},
            {"name": "rack", "units": 0, "hopNs": 5000, "bytesPerSec": 2.5e10}],
 "laneContention": 1.5, "computeContention": 1.1}
""",
    """{"format": "fsdp-network", "version": 1, "name": "n", "source": "s",
 "measured": [{"kind": "all_gather", "ranks": 2, "latencyNs": 5000, "nsPerByte": 0.1, "spread": 0.2},
              {"kind": "reduce_scatter", "ranks": 2, "latencyNs": 6000, "nsPerByte": 0.2}],
 "laneContention": 1, "computeContention": 1}
""",
]


@dataclass
class Format:
    name: str
    suffix: str
    seeds: list[bytes]
    mutate: object
    commands: list[list[str]]  # FILE is the mutated file


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"fuzz: a seed cannot be made: {' '.join(map(str, command))}\n{result.stderr}")


def make_formats(tools: pathlib.Path, folder: pathlib.Path, python: str) -> list[Format]:
    """Makes the seeds in `folder` with the tools of a build."""
    opt, capture, compiler = tools / "fsdp-opt", tools / "fsdp-capture", tools / "fsdp-compile"
    explain, planner, fsdpc = tools / "fsdp-explain", tools / "fsdp-plan", tools / "fsdpc"
    export = SOURCE / "test/models/export.py"
    step = SOURCE / "test/Inputs/mlp.mlir"
    model, exported = folder / "mlp.pt", folder / "mlp.pt2"
    run(python, export, "--model", "mlp", "-o", model)
    run(python, export, "--model", "mlp", "--format", "pt2", "-o", exported)
    inputs = ["--input", "x:f32[4,32]", "--input", "targets:i64[4]"]
    train = folder / "train"
    run(fsdpc, model, *inputs, "--quiet", "-o", train)
    for phase in "sharded", "scheduled", "planned":
        run(opt, step, f"--fsdp-pipeline=mesh=dp=2 up-to={phase}", "-o", folder / f"{phase}.mlir")
        run(opt, folder / f"{phase}.mlir", "--emit-bytecode", "-o", folder / f"{phase}.mlirbc")
    run(python, SOURCE / "tools/fuzz/make_data.py", folder / "data.safetensors")

    def read(*paths):
        return [pathlib.Path(path).read_bytes() for path in paths]

    text = [folder / "sharded.mlir", folder / "scheduled.mlir", folder / "planned.mlir"]
    lowered = [[str(compiler), "FILE", "--object", "-o", "out.o"]]
    profile = folder / "profile.json"
    run(tools / "fsdp-profile", folder / "planned.mlir", "--ranks", "2", "--samples", "1", "-o", profile)
    scheduled = str(folder / "scheduled.mlir")
    return [
        Format("pt", ".pt", read(model), mutate.mutate_zip, [[str(capture), "FILE", *inputs, "--weights", "out.safetensors", "-o", "out.mlir"]]),
        Format("pt2", ".pt2", read(exported), mutate.mutate_zip, [[str(capture), "FILE", "--weights", "out.safetensors", "-o", "out.mlir"]]),
        Format("yaml", ".yaml", [config.encode() for config in CONFIGS], mutate.mutate_text, [[str(opt), str(step), "--fsdp-pipeline=config=FILE", "-o", "out.mlir"]]),
        Format("captured", ".mlir", read(step), mutate.mutate_text, [[str(opt), "FILE", "--fsdp-pipeline=mesh=dp=2", "-o", "out.mlir"], [str(opt), "FILE", "--fsdp-pipeline=mesh=dp=2 schedule=auto budget=50", "-o", "out.mlir"]]),
        Format("sharded", ".mlir", read(text[0]), mutate.mutate_text, [[str(opt), "FILE", "--fsdp-verify-sharded", "--fsdp-schedule", "--fsdp-assign-streams", "--fsdp-verify-scheduled", "-o", "out.mlir"]]),
        Format("scheduled", ".mlir", read(text[1]), mutate.mutate_text, lowered + [[str(explain), "FILE"]]),
        Format("planned", ".mlir", read(text[2]), mutate.mutate_text, lowered + [[str(explain), "FILE"]]),
        Format("bytecode", ".mlirbc", read(*[folder / f"{p}.mlirbc" for p in ("sharded", "scheduled", "planned")]), mutate.mutate_bytes, [[str(opt), "FILE", "-o", "out.mlir"], *lowered]),
        Format("data", ".safetensors", read(folder / "data.safetensors"), mutate.mutate_safetensors, [[str(train), "--ranks", "1", "--steps", "1", "--data", "FILE", "--timeout", "10"]]),
        Format("weights", ".safetensors", read(folder / "train.safetensors"), mutate.mutate_safetensors, [[str(train), "--ranks", "1", "--steps", "1", "--data", str(folder / "data.safetensors"), "--init", "FILE", "--timeout", "10"]]),
        Format("network", ".json", [network.encode() for network in NETWORKS], mutate.mutate_text, [[str(explain), scheduled, "--network", "FILE"]]),
        Format("profile", ".json", read(profile), mutate.mutate_text, [[str(explain), scheduled, "--profile", "FILE"], [str(planner), str(step), "--mesh", "dp=8", "--budget", "5", "--profile", "FILE"]]),
    ]  # fmt: skip
