#!/usr/bin/env python3
"""The table of public models: which are captured, and whether training them is FSDP2's bits.

    tools/models.py                          # all entries, each by export and by trace
    tools/models.py llama 'timm/*' --forms export --optimizers sgd,adamw
    tools/models.py 'nn/*' --check docs/models.md    # CI: no entry may be worse than the table says
    tools/models.py --write docs/models.md

Each entry is exported, captured, compiled and trained for 3 steps on 2 ranks; the real FSDP2 trains
the same beside it. Entries of transformers, torchvision and timm need these packages (docs/models.md
says which versions); those of torch.nn need torch alone. An entry runs in a process of its own.
"""

import argparse
import fnmatch
import functools
import json
import logging
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "tools")]

STEPS, RANKS = 3, 2
LEARNING_RATE = {"sgd": 0.1, "adamw": 1e-3}
FORMS = ("export", "trace")
#: A stage that takes longer hangs.
TIMEOUT_SECONDS = 600


# ---------------------------------------------------------------- one entry, in its own process


def permuted(batch, seed):
    """Another batch: each tensor's values in another order, so that they stay in range."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return {
        name: value.flatten()[torch.randperm(value.numel(), generator=generator)].view_as(value)
        for name, value in batch.items()
    }


def make_step(name):
    """The entry as a module whose forward returns the loss."""
    import fsdpc

    from modelzoo import zoo

    model, batch, loss = zoo.build(name)
    if getattr(getattr(model, "config", None), "use_cache", None):
        model.config.use_cache = False
    return fsdpc.as_step(model, batch, loss)


def save_model(form, model, batch, loss, folder):
    import torch

    import fsdpc

    if form == "export":
        path = folder / "model.pt2"
        fsdpc.export(model, batch, path, loss=loss, quiet=True)
        return path, []
    path = folder / "model.pt"
    if getattr(getattr(model, "config", None), "use_cache", None):
        model.config.use_cache = False
    step = fsdpc.as_step(model, batch, loss)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    traced = torch.jit.trace(step, example_kwarg_inputs=batch, check_trace=False, strict=False)
    model.load_state_dict(before)  # tracing has run the model: statistics have moved
    traced.save(path)
    names = {torch.float32: "f32", torch.int64: "i64"}
    inputs = [f"{name}:{names[t.dtype]}[{','.join(map(str, t.shape))}]"
              for name, t in batch.items()]  # fmt: skip
    return path, inputs


def difference(expected, actual):
    """None, or how far the first differing parameter is."""
    import torch

    for name, tensor in expected.items():
        if name not in actual:
            return f"'{name}' is not saved"
        if not torch.equal(tensor, actual[name]):
            gap = (tensor.double() - actual[name].double()).abs().max().item()
            return f"{name} by {gap:.1g}"
    return None


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "error" in line.lower()]
    text = (told or lines or [type(error).__name__])[0 if told else -1]
    return re.sub(r"(/[\w.+-]+)+/", "", text).strip()


def run_entry(name, forms, optimizers, report):
    """Makes the rows of one entry, each a dict, and hands them to `report`."""
    import torch

    from modelzoo import reference

    torch.set_num_threads(1)
    # Forked first: before torch has threads.
    fsdp2 = reference.Reference(functools.partial(make_step, name))
    for form in forms:
        begin = time.perf_counter()
        row = {"name": name, "form": form, "stage": "build"}
        with tempfile.TemporaryDirectory(prefix="fsdpc-models-") as place:
            try:
                run_form(row, pathlib.Path(place), optimizers, fsdp2)
                row["stage"] = "done"
            except Exception as error:
                row["error"] = first_line(error)
        row["seconds"] = time.perf_counter() - begin
        report(row)
    fsdp2.end()


def run_form(row, folder, optimizers, fsdp2):
    import torch

    import safetensors_io
    from modelzoo import zoo

    model, batch, loss = zoo.build(row["name"])
    batches = [permuted(batch, seed) for seed in range(STEPS * RANKS)]
    row["stage"] = row["form"]
    begin = time.perf_counter()
    path, inputs = save_model(row["form"], model, batch, loss, folder)
    row["export_s"] = time.perf_counter() - begin
    data = {key: torch.cat([b[key] for b in batches]) for key in batch}
    safetensors_io.save(folder / "data.safetensors", data)
    for kind in optimizers:
        losses, parameters, groups = train_compiled(row, kind, path, inputs, folder)
        row["stage"] = "fsdp2"
        row[kind] = compare(fsdp2.run(groups, batches, kind, LEARNING_RATE[kind]), losses, parameters)


def train_compiled(row, kind, path, inputs, folder):
    """(losses by step and rank as hex floats, parameters, names of groups)"""
    import fsdpc
    import safetensors_io

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
    process = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                             timeout=TIMEOUT_SECONDS)  # fmt: skip
    if process.returncode != 0:
        raise RuntimeError(process.stderr or process.stdout)
    row["relaid"] = re.findall(r"copied to the strides of the plan in (.*)", process.stdout)
    losses = [json.loads(line)["loss_hex"] for line in log.read_text().splitlines()]
    return losses, safetensors_io.load(save), groups


def compare(expected, losses, parameters):
    """`equal`, or where and how far the compiled step leaves FSDP2."""
    by_rank, final = expected
    pairs = [list(zip(step, mine)) for step, mine in zip(zip(*by_rank), losses)]
    gaps = [max(abs(float.fromhex(a) - float.fromhex(b)) for a, b in step) for step in pairs]
    same = [all(float.fromhex(a) == float.fromhex(b) for a, b in step) for step in pairs]
    if not all(same):
        return f"losses from step {same.index(False) + 1}, by {max(gaps):.1g}"
    return difference(final, parameters) or "equal"


# ---------------------------------------------------------------- the table


def start(name, forms, optimizers):
    """The rows of an entry, from a forked process: packages are imported once."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run_entry, args=(name, forms, optimizers, theirs.send))
    process.start()
    theirs.close()
    rows, late = [], time.monotonic() + TIMEOUT_SECONDS
    try:
        while len(rows) < len(forms) and mine.poll(max(0, late - time.monotonic())):
            rows.append(mine.recv())
    except EOFError:
        pass
    hangs = len(rows) < len(forms) and process.is_alive()
    process.join(15)
    if process.is_alive():
        process.kill()
    for form in forms[len(rows) :]:
        reason = "it takes too long" if hangs else f"the process ended with {process.exitcode}"
        rows.append({"name": name, "form": form, "stage": "?", "error": reason, "seconds": 0})
    return rows


def describe(row, optimizers):
    if "error" in row:
        return f"{row['stage']}: {row['error']}"
    text = ", ".join(f"{kind} {row[kind]}" for kind in optimizers)
    if row.get("relaid"):
        text += f"; copies strides: {len(row['relaid'])}"
    return text


def is_captured(row):
    return "error" not in row or row["stage"] in ("train", "fsdp2")


def is_equal(row, optimizers):
    return all(row.get(kind) == "equal" for kind in optimizers)


def table(rows, optimizers):
    lines = ["| model | form | captured | ops | groups | capture s | bits against FSDP2 |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        captured = "yes" if is_captured(row) else "no"
        seconds = f"{row['capture_s']:.2f}" if "capture_s" in row else ""
        cells = [row["name"], row["form"], captured, row.get("ops", ""), row.get("groups", ""),
                 seconds, describe(row, optimizers).replace("|", "\\|")]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def summary(rows, optimizers):
    lines = []
    for form in FORMS:
        of_form = [row for row in rows if row["form"] == form]
        if of_form:
            captured = sum(map(is_captured, of_form))
            equal = sum(is_equal(row, optimizers) for row in of_form)
            lines.append(f"{form}: {len(of_form)} models, {captured} captured, {equal} bitwise equal")
    return "\n".join(lines)


def expected_rows(page):
    """{(model, form): cells} of a page that --write made."""
    rows = {}
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 7 and cells[1] in FORMS:
            rows[cells[0], cells[1]] = cells
    return rows


def check(rows, page, optimizers):
    """Entries that are worse than the page says, as sentences."""
    expected, worse = expected_rows(page), []
    for row in rows:
        cells = expected.get((row["name"], row["form"]))
        if not cells:
            worse.append(f"{row['name']} by {row['form']} is not in {page}")
            continue
        if cells[2] == "yes" and not is_captured(row):
            worse.append(f"{row['name']} by {row['form']}: {describe(row, optimizers)}")
        elif cells[6] == ", ".join(f"{kind} equal" for kind in ("sgd", "adamw")) and not is_equal(
            row, optimizers
        ):
            worse.append(f"{row['name']} by {row['form']}: {describe(row, optimizers)}")
    return worse


def write(page, text):
    """Replaces what stands between the page's marks."""
    begin, end = "<!-- table: begin -->", "<!-- table: end -->"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("patterns", nargs="*", default=["*"], help="names of entries; * matches")
    add("--forms", type=lambda text: text.split(","), default=list(FORMS))
    add("--optimizers", type=lambda text: text.split(","), default=["sgd", "adamw"])
    add("--write", type=pathlib.Path, help="page whose table is replaced")
    add("--check", type=pathlib.Path, help="page that says what must hold")
    add("--json", type=pathlib.Path, help="rows, one JSON object per line; is added to")
    add("--from-json", type=pathlib.Path, help="take rows from there; the last of each counts")
    return parser.parse_args(arguments)


def main(arguments=None):
    # Entries are forked: OpenMP's threads would not be there in the child, which waits for them.
    os.environ["OMP_NUM_THREADS"] = "1"
    options = parse(arguments)
    from modelzoo import zoo

    rows = []
    if options.from_json:
        latest = {}
        for line in options.from_json.read_text().splitlines():
            row = json.loads(line)
            latest[row["name"], row["form"]] = row
        order = list(zoo.ENTRIES)
        rows = sorted((r for r in latest.values() if r["name"] in zoo.ENTRIES),
                      key=lambda row: (order.index(row["name"]), row["form"]))  # fmt: skip
    else:
        os.environ["HF_HUB_OFFLINE"] = "1"
        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")
        import torch.distributed.fsdp  # noqa: F401, before the forks

        names = [n for n in zoo.ENTRIES if any(fnmatch.fnmatch(n, p) for p in options.patterns)]
        for name in names:
            for row in start(name, options.forms, options.optimizers):
                rows.append(row)
                print(f"{name:36} {row['form']:7} {row['seconds']:5.0f} s  "
                      f"{describe(row, options.optimizers)}", flush=True)  # fmt: skip
                if options.json:
                    with open(options.json, "a") as file:
                        file.write(json.dumps(row) + "\n")
    print(summary(rows, options.optimizers))
    if options.write:
        text = summary(rows, options.optimizers).replace("\n", "  \n")
        write(options.write, f"\n{text}\n\n{table(rows, options.optimizers)}\n")
    if options.check:
        worse = check(rows, options.check, options.optimizers)
        for sentence in worse:
            print(f"worse than {options.check}: {sentence}", file=sys.stderr)
        return 1 if worse or not rows else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
