"""torch's own samples of its operators and modules: the captured step, interpreted, is eager autograd's, bit for bit.

    operators.py INTERPRET_STEPS [--samples 1] [--only NAME]

Each differentiable operator of torch's test database (OpInfo), with samples of small fp32 operands, is the forward of
a module: as it is, and under autocast if that has a rule for it. Modules of torch's database (ModuleInfo) are called
likewise, in training, and in eval mode if they differ in it. Random operators are left out, whose samples seed
themselves. What torch itself refuses to export is left out and counted.
"""

import argparse
import collections
import contextlib
import itertools
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

import torch
from random_modules import difference
from torch.utils import _pytree as pytree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "python"))
from fsdpc import checks, tracing  # noqa: E402

# torch's test database belongs to test cases of this package, which it does not use itself.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_modules import module_db  # noqa: E402

X = torch.tensor([0.5, 0.5])  # its sum is 1
BITS = "differs by"  # see random_modules.difference

# Operators that are refused, or whose bits differ, with a part of the message.
KNOWN = {
    "_segment_reduce.lengths": "cannot be captured",  # its sizes are checked on the lengths' values
    "_unsafe_masked_index": "cannot be converted to Scalar",
    "_unsafe_masked_index_put_accumulate": "cannot be converted to Scalar",
    "chalf": "ComplexHalf",
    "index_put": "depends on data",
    "masked.prod": BITS,
    "nn.LSTM with proj_size": BITS,
    "nn.functional.bilinear": "bilinear in an autocast region",
    "prod": BITS,  # eager divides by factors if none is zero
    "repeat_interleave": "depends on data",
    "to_sparse": "cannot be captured",
}
RANDOM = ("bernoulli", "cauchy", "dropout", "exponential", "fractional", "geometric", "lowrank", "multi_head", "multinomial",
          "normal", "rand", "rrelu", "uniform")  # fmt: skip


class Operator(torch.nn.Module):
    """The operator, or a module. Floating-point operands are parameters, other tensors buffers."""

    def __init__(self, op, sample, under_autocast):
        super().__init__()
        self.op, self.under_autocast = op, under_autocast
        self.parameters_ = torch.nn.ParameterList()
        values, self.structure = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        self.values = []  # each a function that makes an operand
        for value in values:
            self.values.append(self.hold(value) if isinstance(value, torch.Tensor) else lambda value=value: value)

    def hold(self, tensor):
        tensor = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)
        if not tensor.is_floating_point():
            name = f"buffer{len(self._buffers)}"
            self.register_buffer(name, tensor)
            return lambda: getattr(self, name).clone()
        index = len(self.parameters_)
        self.parameters_.append(torch.nn.Parameter(tensor))
        return lambda: self.parameters_[index] * self.one

    def forward(self, x):
        self.one = x.sum()
        with torch.autocast("cpu", torch.bfloat16) if self.under_autocast else contextlib.nullcontext():
            operand, arguments, named = pytree.tree_unflatten([make() for make in self.values], self.structure)
            results = self.op(operand, *arguments, **named)
        loss = x.sum() * 0
        for result in pytree.tree_leaves(results):
            if isinstance(result, torch.Tensor) and result.is_floating_point():
                weights = torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape)
                loss = loss + (result.float() * weights).sum()
        for parameter in self.parameters_:
            loss = loss + parameter.square().sum() * 0.01
        return loss


def is_usable(sample):
    tensors = [t for t in pytree.tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(t, torch.Tensor)]
    return any(t.is_floating_point() for t in tensors) and all(
        t.numel() and not t.is_complex() and t.layout == torch.strided for t in tensors
    )


def pick(name, samples, count):
    """`count` of the first usable samples; fewer if there are no more."""
    usable = list(itertools.islice(filter(is_usable, samples), 20))
    random.Random(name).shuffle(usable)
    return usable[:count]


def calls_what_autocast_changes(module):
    """Whether its forward calls an operator that autocast has a rule for."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        try:
            module(X)
        except Exception:  # see prepare()
            return False
    names = {event.name() for event in profile.profiler.kineto_results.events()}
    rules = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")
    return not names.isdisjoint(name.partition(".")[0] for name in rules)


def list_operators(count):
    """(name, how, module) for samples of operators."""
    for info in op_db:
        if not info.supports_autograd or torch.float32 not in info.dtypes:
            continue
        name = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
        torch.manual_seed(1)
        for sample in pick(name, info.sample_inputs("cpu", torch.float32, requires_grad=False), count):
            yield name, "as it is", Operator(info.op, sample, False)
            under_autocast = Operator(info.op, sample, True)
            if calls_what_autocast_changes(under_autocast):
                yield name, "under autocast", under_autocast


def list_spectra():
    """istft, whose samples are complex, behind stft."""
    def there_and_back(x, window):
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
        return torch.istft(spectrum * 0.5, 16, 4, window=window, length=x.shape[-1])

    torch.manual_seed(1)
    sample = types.SimpleNamespace(input=torch.randn(2, 40), args=(torch.hann_window(16),), kwargs={})
    yield "istft", "as it is", Operator(there_and_back, sample, False)


def list_modules(count):
    """(name, how, module) for samples of modules."""
    for info in module_db:
        for training in (True, False) if info.train_and_eval_differ else (True,):
            torch.manual_seed(1)
            given = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
            )
            calls = [(inputs.constructor_input, inputs.forward_input) for inputs in given if inputs.forward_input]
            samples = [types.SimpleNamespace(input=call.args[0], args=call.args[1:], kwargs=call.kwargs, make=make)
                       for make, call in calls if call.args]  # fmt: skip
            for sample in pick(info.name, samples, 2 * count):
                module = info.module_cls(*sample.make.args, **sample.make.kwargs).train(training)
                name = info.name + (" with proj_size" if getattr(module, "proj_size", 0) else "")
                if not any(isinstance(p, torch.nn.UninitializedParameter) for p in module.parameters()):
                    yield name, "in training" if training else "in eval mode", Operator(module, sample, False)


def prepare(folder, module):
    """Writes the saved module, what the interpreter is given and what eager computes. None, or who refuses."""
    state = {name: value.detach().clone() for name, value in module.state_dict().items()}
    torch.manual_seed(7)  # the interpreter's
    try:
        loss = module(X)
        gradients = torch.autograd.grad(loss, list(module.parameters()), allow_unused=True, materialize_grads=True)
    except Exception:  # an operand that must not need gradients, for example
        return "eager"
    try:
        with checks.holding_in_torch(), tracing.rules_of_shapes():
            program = torch.export.export(module, (X,), strict=False)
    except Exception:  # torch's own limits are not the subject
        return "torch.export"
    folder.mkdir()
    torch.export.save(program, folder / "model.pt2")
    torch.save({"state": state, "inputs": {"x": X}}, folder / "given.pt")
    expected = dict(zip((name for name, _ in module.named_parameters()), gradients))
    buffers = {name: value for name, value in module.named_buffers() if not torch.equal(value, state[name])}
    torch.save({"loss": loss.detach(), "gradients": expected, "buffers": buffers}, folder / "expected.pt")
    return None


def judge(folder):
    """None, or what is wrong, as a sentence."""
    if (folder / "error.txt").exists():
        return (folder / "error.txt").read_text().strip()
    expected = torch.load(folder / "expected.pt")
    result = torch.load(folder / "result.pt", weights_only=False)
    wrong = difference("the loss", expected["loss"], result["loss"]["loss"])
    for name, gradient in expected["gradients"].items():
        actual = result["gradients"].get(name, torch.zeros_like(gradient))
        wrong = wrong or difference(f"NaNs in the gradient of {name}", gradient.isnan(), actual.isnan())
        wrong = wrong or difference(f"gradient of {name}", gradient.nan_to_num(), actual.nan_to_num())
    for name, value in expected["buffers"].items():
        wrong = wrong or difference(f"buffer {name}", value, result["buffers"].get(name, torch.empty(0)))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("interpreter")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--only", help="one operator or module, by its name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts, failures = collections.Counter(), []
    with tempfile.TemporaryDirectory() as place:
        cases = []
        for name, how, module in itertools.chain(list_operators(options.samples), list_spectra(),
                                                 list_modules(options.samples)):  # fmt: skip
            if options.only not in (None, name) or any(word in name for word in RANDOM):
                continue
            folder = pathlib.Path(place) / f"case{len(cases):06}"
            refused = prepare(folder, module)
            if refused:
                counts[f"refused by {refused}"] += 1
                shutil.rmtree(folder, ignore_errors=True)
            else:
                cases.append((name, how, folder))
        subprocess.run([options.interpreter, place], check=True)
        for name, how, folder in cases:
            wrong = judge(folder)
            is_known = wrong and KNOWN.get(name, "?") in wrong
            counts["known limits" if is_known else "wrong" if wrong else "equal"] += 1
            if wrong and not is_known:
                failures.append(name)
                print(f"--- {name} {how}: {wrong}")
    print("; ".join(f"{what}: {count}" for what, count in sorted(counts.items())))
    return 1 if failures or not counts["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
