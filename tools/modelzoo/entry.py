"""One row of the table: an entry of the zoo exported, captured, compiled and trained beside FSDP2."""

import json
import math
import re
import subprocess
import time

import torch

import fsdpc
import safetensors_io

from . import zoo

STEPS, RANKS = 3, 2
LEARNING_RATE = {"sgd": 0.01, "adamw": 1e-3}


def permuted(batch, seed):
    """Another batch: each tensor's values in another order, so that they stay in range."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: value.flatten()[torch.randperm(value.numel(), generator=generator)].view_as(value)
        for name, value in batch.items()
    }


def save_model(form, name, folder):
    """(file of the entry, its inputs for the command line)"""
    if form == "export":
        path = folder / "model.pt2"
        model, batch, loss = zoo.build(name)
        fsdpc.export(model, batch, path, loss=loss, specialize=zoo.ENTRIES[name].specialize,
                     mixed_precision=zoo.ENTRIES[name].policy(), quiet=True)  # fmt: skip
        return path, []
    path = folder / "model.pt"
    step, batch = zoo.build_step(name), zoo.build(name)[1]
    before = {key: value.clone() for key, value in step.state_dict().items()}
    traced = torch.jit.trace(step, example_kwarg_inputs=batch, check_trace=False, strict=False)
    for key, value in step.state_dict().items():
        value.copy_(before[key])  # tracing has run the model, which changes statistics
    traced.save(path)
    names = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool"}
    inputs = [f"{key}:{names[t.dtype]}[{','.join(map(str, t.shape))}]"
              for key, t in batch.items()]  # fmt: skip
    return path, inputs


def difference(expected, actual):
    """None, or the difference of the first parameter that differs."""
    for name, tensor in expected.items():
        if name not in actual:
            return f"'{name}' is not saved"
        if not torch.equal(tensor, actual[name]):
            gap = (tensor.double() - actual[name].double()).abs().max().item()
            return f"{name} by {gap:.1g}"
    return None


def compare(expected, losses, parameters):
    """`equal`, or where and by how much the compiled step differs from FSDP2."""
    by_rank, final = expected
    finite = [all(math.isfinite(float.fromhex(loss)) for loss in step) for step in zip(*by_rank)]
    if not all(finite):
        return f"FSDP2's losses are not finite from step {finite.index(False) + 1}"
    pairs = [list(zip(step, mine)) for step, mine in zip(zip(*by_rank), losses)]
    gaps = [max(abs(float.fromhex(a) - float.fromhex(b)) for a, b in step) for step in pairs]
    same = [all(float.fromhex(a) == float.fromhex(b) for a, b in step) for step in pairs]
    if not all(same):
        return f"losses from step {same.index(False) + 1}, by {max(gaps):.1g}"
    return difference(final, parameters) or "equal"


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip() and line[:2] != "$ "]
    told = [line for line in lines if "error" in line.lower()]
    text = (told or lines or [type(error).__name__])[0]
    return re.sub(r"(/[\w.+-]+)+/", "", text).strip()


def train_compiled(row, kind, path, inputs, folder):
    """(losses by step and rank as hex floats, parameters, names of groups)"""
    row["stage"] = "capture"
    binary = folder / f"train-{kind}"
    begin = time.perf_counter()
    printed = fsdpc.compile(path, binary, input=inputs, optimizer=kind, lr=LEARNING_RATE[kind],
                            mesh={"dp": RANKS})  # fmt: skip
    row["compile_s"] = time.perf_counter() - begin
    row["capture_s"] = float(re.search(r"capture +([\d.]+) s", printed)[1])
    row["ops"] = int(re.search(r"(\d+) aten calls", printed)[1])
    row["notes"] = re.findall(r"note: (.*)", printed)
    described = subprocess.run([binary, "--describe"], capture_output=True, text=True, check=True)
    groups = re.findall(r"^  (\S+): \d+ parameters?,", described.stdout, re.M)
    row["groups"] = len(groups)
    row["stage"] = "train"
    log, save = folder / "log.jsonl", folder / "final.safetensors"
    for file in (log, save):
        file.unlink(missing_ok=True)
    command = [binary, "--ranks", RANKS, "--data", folder / "data.safetensors", "--steps", STEPS,
               "--log", log, "--save", save]  # fmt: skip
    process = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if process.returncode != 0:
        raise RuntimeError(process.stderr or process.stdout or f"exit {process.returncode}")
    row["relaid"] = re.findall(r"copied to the strides of the plan in (.*)", process.stdout)
    losses = [json.loads(line)["loss_hex"] for line in log.read_text().splitlines()]
    return losses, safetensors_io.load(save), groups


def train(row, folder, optimizers, fsdp2):
    name, form = row["name"], row["form"]
    batch = zoo.build(name)[1]
    batches = [permuted(batch, seed) for seed in range(STEPS * RANKS)]
    row["stage"] = form
    path, inputs = save_model(form, name, folder)
    data = {key: torch.cat([b[key] for b in batches]) for key in batch}
    safetensors_io.save(folder / "data.safetensors", data)
    for kind in optimizers:
        losses, parameters, groups = train_compiled(row, kind, path, inputs, folder)
        row["stage"] = "fsdp2"
        expected = fsdp2.run(name, groups, batches, kind, LEARNING_RATE[kind])
        row[kind] = compare(expected, losses, parameters)


def run(row, folder, optimizers, fsdp2):
    """Fills the row, a dict with name and form; its `stage` is the current stage. Files go to
    `folder`."""
    begin = time.perf_counter()
    row["stage"] = "build"
    try:
        train(row, folder, optimizers, fsdp2)
        row["stage"] = "done"
    except Exception as error:
        row["error"] = first_line(error)
    row["seconds"] = time.perf_counter() - begin
