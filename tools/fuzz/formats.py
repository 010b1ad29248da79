"""The input formats: for each, the seed files, the mutation, and the commands that read it."""

import json
import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass

import mutate

SOURCE = pathlib.Path(__file__).resolve().parents[2]
#: Files on which a tool has crashed, hung or read out of bounds: FORMAT/FILE.
FINDINGS = SOURCE / "tools/fuzz/findings"
#: A planned module of two steps, with a constant.
PROGRAM = SOURCE / "test/passes/Inputs/program.mlir"
#: The inputs of the mlp of test/models.
MLP_INPUTS = ["--input", "x:f32[4,32]", "--input", "targets:i64[4]"]

CONFIGS = [
    """mesh: {replicate: 2, shard: 2}
layout: per-param
shard_placement: {"**.weight": -1, "layers.0.*.bias": largest}
prefetch: fsdp2
reshard_after_forward: true
groups:
  - modules: ["layers.0"]
    reshard_after_forward: false
    recompute: full
  - modules: ["layers.1"]
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
 "coalesces": false, "laneContention": 1.5, "computeContention": 1.1,
 "computeContentionOfReductions": 1.2, "computeContentionOfSeveral": 1.4, "collectiveContention": 1.3,
 "copyEngines": {"baseNs": 4000, "hopNs": 700, "bytesPerSec": 2.0e11, "computeContention": 1},
 "pat": {"baseNs": 4000, "hopNs": 700, "perRankNs": 200, "rateShare": 0.75}}
""",
    """{"format": "fsdp-network", "version": 1, "name": "n", "source": "s",
 "measured": [{"kind": "all_gather", "ranks": 2, "latencyNs": 5000, "nsPerByte": 0.1, "spread": 0.2,
               "durations": [{"bytes": 8192, "medianNs": 6000, "spread": 0.1, "samples": 20},
                             {"bytes": 65536, "medianNs": 12000, "spread": 0.1, "samples": 20}]},
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
    commands: list[list[str]]  # FILE is the mutated file, FOLDER the copied one
    folder: pathlib.Path | None = None  # a copy of it holds the mutated file
    places: tuple[str, ...] = ()  # path in the folder of each seed's file


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
    inputs, train, data = MLP_INPUTS, folder / "train", folder / "data.safetensors"
    run(fsdpc, model, *inputs, "--quiet", "-o", train)
    for phase in "sharded", "scheduled", "planned":
        run(opt, step, f"--fsdp-pipeline=mesh=dp=2 up-to={phase}", "-o", folder / f"{phase}.mlir")
        run(opt, folder / f"{phase}.mlir", "--emit-bytecode", "-o", folder / f"{phase}.mlirbc")
    run(python, SOURCE / "tools/fuzz/make_data.py", data, folder / "gpt2.bin", folder / "llama3.bin")

    def read(*paths):
        return [pathlib.Path(path).read_bytes() for path in paths]

    text = [folder / "sharded.mlir", folder / "scheduled.mlir", folder / "planned.mlir"]
    lowered = [[str(compiler), "FILE", "--object", "-o", "out.o"]]
    profile = folder / "profile.json"
    run(tools / "fsdp-profile", step, "--ranks", "2", "--samples", "1", "-o", profile)
    scheduled = str(folder / "scheduled.mlir")
    return [
        Format("pt", ".pt", read(model), mutate.mutate_zip, [[str(capture), "FILE", *inputs, "--weights", "out.safetensors", "-o", "out.mlir"]]),
        Format("pt2", ".pt2", read(exported), mutate.mutate_zip, [[str(capture), "FILE", "--weights", "out.safetensors", "-o", "out.mlir"]]),
        Format("yaml", ".yaml", [config.encode() for config in CONFIGS], mutate.mutate_text, [[str(opt), str(step), "--fsdp-pipeline=config=FILE", "-o", "out.mlir"]]),
        Format("captured", ".mlir", read(step), mutate.mutate_text, [[str(opt), "FILE", "--fsdp-pipeline=mesh=dp=2", "-o", "out.mlir"], [str(opt), "FILE", "--fsdp-pipeline=mesh=dp=2 schedule=auto budget=50", "-o", "out.mlir"]]),
        Format("sharded", ".mlir", read(text[0]), mutate.mutate_text, [[str(opt), "FILE", *verify, "--fsdp-schedule", "--fsdp-assign-streams", "--fsdp-verify-scheduled", "-o", "out.mlir"] for verify in (["--fsdp-verify-sharded"], [])]),
        Format("scheduled", ".mlir", read(text[1]), mutate.mutate_text, lowered + [[str(explain), "FILE"]]),
        Format("planned", ".mlir", read(text[2], PROGRAM), mutate.mutate_text, lowered + [[str(explain), "FILE"]]),
        Format("bytecode", ".mlirbc", read(*[folder / f"{p}.mlirbc" for p in ("sharded", "scheduled", "planned")]), mutate.mutate_bytes, [[str(opt), "FILE", "-o", "out.mlir"], *lowered]),
        Format("data", ".safetensors", read(data), mutate.mutate_safetensors, [[str(train), "--ranks", "1", "--steps", "1", "--data", "FILE", "--timeout", "10"]]),
        Format("weights", ".safetensors", read(folder / "train.safetensors"), mutate.mutate_safetensors, [[str(train), "--ranks", "1", "--steps", "1", "--data", str(data), "--init", "FILE", "--timeout", "10"]]),
        Format("network", ".json", [network.encode() for network in NETWORKS], mutate.mutate_text, [[str(explain), scheduled, "--network", "FILE"], [str(planner), str(step), "--mesh", "dp=2", "--budget", "5", "--network", "FILE"]]),
        Format("profile", ".json", read(profile), mutate.mutate_text, [[str(explain), scheduled, "--profile", "FILE"], [str(planner), str(step), "--mesh", "dp=8", "--budget", "5", "--profile", "FILE"]]),
        *make_run_formats(tools, folder, python),
    ]  # fmt: skip


def make_run_formats(tools, folder, python):
    """Formats that training binaries and fsdp-checkpoint read beside weights and samples; `folder` has the mlp's
    binary."""
    train, data, checkpoints = folder / "train", folder / "data.safetensors", tools / "fsdp-checkpoint"
    model, tokens = folder / "gpt2.pt", folder / "train-tokens"
    run(python, SOURCE / "test/models/export.py", "--model", "gpt2", "-o", model)
    run(tools / "fsdpc", model, "--input", "tokens:i64[4,16]", "--input", "targets:i64[4,16]", "--quiet", "-o", tokens)
    one_step = ["--ranks", "1", "--steps", "1", "--timeout", "10"]
    saved = folder / "run"
    run(train, *one_step, "--data", data, "--checkpoint-dir", saved, "--save-every", "1", "--quiet")
    [checkpoint] = saved.iterdir()
    places = sorted(str(path.relative_to(saved)) for path in checkpoint.iterdir())
    weights = folder / "weights"
    make_sharded_weights(folder / "train.safetensors", weights)
    index = weights / "model.safetensors.index.json"
    names = json.dumps({"layers.0.weight": "blocks.0.weight", "head.bias": "out.bias"}, indent=1).encode()
    resume = [str(train), "--ranks", "1", "--steps", "2", "--timeout", "10", "--data", str(data), "--checkpoint-dir", "FOLDER", "--resume"]
    look = [[str(checkpoints), "verify", "FOLDER"], [str(checkpoints), "ls", f"FOLDER/{checkpoint.name}"], [str(checkpoints), "diff", f"FOLDER/{checkpoint.name}", str(checkpoint)], [str(checkpoints), "consolidate", f"FOLDER/{checkpoint.name}", "-o", "out.safetensors"]]
    return [
        Format("tokens", ".bin", [(folder / f"{name}.bin").read_bytes() for name in ("gpt2", "llama3")], mutate.mutate_tokens, [[str(tokens), *one_step, "--data", "FILE"], [str(tokens), *one_step, "--data", "FILE", "--data-dtype", "u16"]]),
        Format("checkpoint", "", [(saved / place).read_bytes() for place in places], mutate.mutate_checkpoint, [resume, *look], saved, tuple(places)),
        Format("index", ".json", [index.read_bytes()], mutate.mutate_text, [[str(train), *one_step, "--data", str(data), "--init", "FILE"]], weights, (index.name,)),
        Format("names", ".json", [names], mutate.mutate_text, [[str(checkpoints), "consolidate", str(checkpoint), "--names", "FILE", "-o", "out.safetensors"]]),
    ]  # fmt: skip


def make_sharded_weights(whole, folder):
    """The tensors of a safetensors file in two files, with an index."""
    folder.mkdir()
    data = whole.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = {name: entry for name, entry in json.loads(data[8:begin]).items() if name != "__metadata__"}
    weight_map = {}
    for part in range(2):
        file, header, values = f"model-0000{part + 1}-of-00002.safetensors", {}, b""
        for name in sorted(tensors)[part::2]:
            first, last = tensors[name]["data_offsets"]
            header[name] = dict(tensors[name], data_offsets=[len(values), len(values) + last - first])
            values += data[begin + first : begin + last]
            weight_map[name] = file
        text = json.dumps(header).encode()
        (folder / file).write_bytes(len(text).to_bytes(8, "little") + text + values)
    text = json.dumps({"metadata": {"total_size": len(data) - begin}, "weight_map": weight_map}, indent=1)
    (folder / "model.safetensors.index.json").write_text(text)


def kept_files(form):
    """The files in findings/ of a format."""
    folder = FINDINGS / form.name
    return sorted(folder.iterdir()) if folder.is_dir() else []


def place(form, number, data, folder):
    """Writes a mutated seed for the commands: (FILE, FOLDER)."""
    if form.folder is None:
        path = folder / f"input{form.suffix}"
        path.write_bytes(data)
        return path, folder
    copy = folder / "input"
    shutil.copytree(form.folder, copy)
    path = copy / form.places[number]
    path.write_bytes(data)
    return path, copy
