"""Random small modules: the captured step, interpreted, is eager autograd's, bit for bit.

    random_modules.py INTERPRET_STEPS [--count 60] [--seed N] [--forms export,trace,script]

INTERPRET_STEPS is the test program of that name. Each module is generated as source text, which is
printed where it fails; its number and the seed make it again (--only NUMBER). What torch itself
refuses to export, trace or script is left out and counted.
"""

import argparse
import collections
import importlib.util
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import torch
from module_generator import HEADER, Generator


def load(path):
    spec = importlib.util.spec_from_file_location(path.parent.name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.parent.name] = module
    spec.loader.exec_module(module)
    return module.Module


def make_inputs():
    torch.manual_seed(3)
    return {"x": torch.randn(2, 3, 4), "y": torch.randn(4), "i": torch.randint(0, 4, (2, 3))}


def make_module(folder):
    torch.manual_seed(5)
    return load(folder / "module.py")()


def prepare(folder, number, seed, form):
    """Writes the source, the saved model and what the interpreter is given. False: torch refuses."""
    folder.mkdir()
    statements = 3 + number % 8
    (folder / "module.py").write_text(Generator(f"{seed}/{number}", form).write(statements))
    inputs = make_inputs()
    make_module(folder)(**inputs)  # an error here is the generator's
    module = make_module(folder)
    try:
        if form == "export":
            program = torch.export.export(module, tuple(inputs.values()), strict=False)
            torch.export.save(program, folder / "model.pt2")
        elif form == "trace":
            torch.jit.trace(module, tuple(inputs.values()), check_trace=False).save(
                str(folder / "model.pt")
            )
        else:
            torch.jit.script(module).save(str(folder / "model.pt"))
    except Exception:  # torch's own limits are not the subject
        return False
    state = dict(make_module(folder).state_dict())
    state |= {name: value for name, value in make_module(folder).named_buffers()}
    state = {name: value.detach().clone() for name, value in state.items()}
    torch.save({"state": state, "inputs": inputs}, folder / "given.pt")
    return True


def bits(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def difference(what, expected, actual):
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{what} is {actual.dtype}{list(actual.shape)}, eager's {expected.dtype}"
    if not torch.equal(bits(expected), bits(actual)):
        return f"{what} differs by {(expected.double() - actual.double()).abs().max().item():.3g}"
    return None


def eager_error(loss, parameters):
    """What torch says of the backward, its first sentence; None if it runs."""
    try:
        torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
    except RuntimeError as error:
        return str(error).split(":")[0]
    return None


def judge(folder):
    """None, or what is wrong, as a sentence."""
    module, inputs = make_module(folder), make_inputs()
    before = {name: value.clone() for name, value in module.named_buffers()}
    torch.manual_seed(7)
    loss = module(**inputs)
    parameters = dict(module.named_parameters())
    refusal = eager_error(loss, parameters)
    if (folder / "error.txt").exists():
        error = (folder / "error.txt").read_text().strip().replace(str(folder), "")
        return None if refusal and refusal in error else error
    if refusal:
        return f"it is captured, but eager says: {refusal}"
    result = torch.load(folder / "result.pt", weights_only=False)
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    wrong = difference("the loss", loss, result["loss"]["loss"])
    for name, gradient in zip(parameters, gradients):
        wrong = wrong or difference(f"gradient of {name}", gradient, result["gradients"][name])
    for name, value in module.named_buffers():
        written = result["buffers"].get(name, before[name])
        wrong = wrong or difference(f"buffer {name}", value, written)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("interpreter")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", type=int, help="one module, whose source is printed")
    parser.add_argument("--forms", type=lambda t: t.split(","), default=["export", "trace", "script"])
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    print(f"seed {seed}", flush=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch._C._jit_set_profiling_executor(False)
    numbers = range(options.count) if options.only is None else [options.only]
    counts, failures = collections.Counter(), []
    with tempfile.TemporaryDirectory() as place:
        folders = {}
        for number in numbers:
            form = options.forms[number % len(options.forms)]
            folder = pathlib.Path(place) / f"case{number:06}"
            if prepare(folder, number, seed, form):
                folders[number] = folder, form
            else:
                counts[f"{form}, refused by torch"] += 1
                shutil.rmtree(folder)
        subprocess.run([options.interpreter, place], check=True)
        for number, (folder, form) in folders.items():
            wrong = judge(folder)
            counts[f"{form}, {'wrong' if wrong else 'equal'}"] += 1
            if wrong:
                failures.append(number)
                print(f"--- module {number} by {form}: {wrong}")
                if len(failures) <= 3 or options.only is not None:
                    print((folder / "module.py").read_text().removeprefix(HEADER))
    print("; ".join(f"{what}: {count}" for what, count in sorted(counts.items())))
    if failures:
        print(f"again: --seed {seed} --count {options.count}, or --only NUMBER: {failures}")
    if not any("equal" in what for what in counts):
        failures.append(-1)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
