"""Default kernels beside torch's and beside eager training: equal losses and weights, bit for bit.

Usage: kernels_test.py TOOLS [--models N] [--first NUMBER] [unittest's arguments]

TOOLS is the folder of fsdpc. N random models (6 in ctest) are trained in both layouts; NUMBER is the
first one's. A failure names the model's number and keeps its folder.
"""

import argparse
import contextlib
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../tools/python"))
import random_models
import safetensors_io
from random_models import BATCH, LENGTH, WIDTH

RANKS, STEPS, LIMIT_S = 2, 4, 300
OPTIONS = None
torch.set_num_threads(1)  # as ranks have: LayerNorm's gradients are sums of what each thread summed
LAYOUTS = "flat", "per-param"
#: What else decides where buffers lie and for how long, by layout.
MORE = [dict.fromkeys(LAYOUTS, flags.split()) for flags in (
    "", "--recompute none", "--clip-grad-norm 0.1", "--prefetch none", "--recompute full",
)] + [{"flat": ["--schedule", "auto"], "per-param": []}]  # fmt: skip


class Entry(torch.autograd.Function):
    """Where FSDP2 enters a module: gradients of its input are added up here before any from elsewhere."""

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return gradient


def train_eagerly(model, samples, clip, groups):
    """Losses by step and rank, and the weights afterwards, of one process that plays all ranks.

    `groups` are the paths of the groups' modules.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2)
    for path in groups:
        enter = lambda _, inputs: tuple(map(Entry.apply, inputs))
        model.get_submodule(path).register_forward_pre_hook(enter)
    losses = []
    for step in range(STEPS):
        sums = [None] * len(parameters)
        losses.append([])
        for rank in range(RANKS):
            first = (step * RANKS + rank) * BATCH
            loss = model(*(tensor[first : first + BATCH] for tensor in samples.values()))
            losses[-1].append(loss.item())
            gradients = torch.autograd.grad(loss, parameters)
            sums = [g if s is None else s + g for s, g in zip(sums, gradients)]
        for parameter, gradient in zip(parameters, sums):
            parameter.grad = gradient / RANKS
        if clip:
            nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()
    return losses, {name: tensor.detach() for name, tensor in model.named_parameters(remove_duplicate=False)}


class NormTwice(nn.Module):
    """One LayerNorm at two places."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, t):
        return ((self.norm(self.second(self.norm(self.first(x)))) - t) ** 2).mean()


class BlockTwice(nn.Module):
    """A whole block at two places."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(random_models.Norm(), random_models.Gated())

    def forward(self, x, t):
        x = x + self.block(x)
        return ((x + self.block(x) - t) ** 2).mean()


class GateTwice(nn.Module):
    """A weight of the size of activations: its gradient is a sum of two products."""

    def __init__(self):
        super().__init__()
        self.gate, self.out = random_models.Gate(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, t):
        return ((self.out(self.gate(torch.relu(self.gate(x)))) - t) ** 2).mean()


@contextlib.contextmanager
def allow_shared():
    """A weight that groups share is refused by name; such a model is none to train."""
    try:
        yield
    except AssertionError as error:
        if "put all modules that share it into one group" not in str(error):
            raise
        print(f"refused: {str(error).splitlines()[2]}")


class Kernels(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fsdpc-kernels-"))

    def tearDown(self):
        if self._outcome.success:
            shutil.rmtree(self.folder)

    def run_tool(self, *command):
        keep = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "OMPI_", "PMI_", "SLURM_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(keep + ("OMP_",))}
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S, env=environment
        )
        self.assertEqual(done.returncode, 0, f"$ {' '.join(map(str, command))}\n{done.stderr}")

    def train(self, binary, data, kernels):
        """Losses of all steps and ranks, and the weights afterwards."""
        log = binary.with_suffix(f".{kernels}.jsonl")
        save = binary.with_suffix(f".{kernels}.safetensors")
        self.run_tool(binary, "--ranks", RANKS, "--kernels", kernels, "--data", data, "--steps",
                      STEPS, "--log", log, "--save", save, "--quiet")  # fmt: skip
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [line["loss_hex"] for line in lines], safetensors_io.load(save)

    def check(self, model, input_flags, samples, more=dict.fromkeys(LAYOUTS, ())):
        model_file, data = self.folder / "model.pt", self.folder / "data.safetensors"
        eager = copy.deepcopy(model)
        # Before the trace, which would run the model's code again on other numbers.
        safetensors_io.save(data, samples)
        example = tuple(tensor[:BATCH] for tensor in samples.values())
        torch.jit.trace(model, example, check_trace=False).save(str(model_file))
        for layout in LAYOUTS:
            with self.subTest(layout=layout, folder=str(self.folder)), allow_shared():
                binary = self.folder / layout
                self.run_tool(OPTIONS.tools / "fsdpc", model_file, *input_flags, "--optimizer",
                              "adamw", "--lr", "1e-2", "--mesh", f"dp={RANKS}", "--layout", layout,
                              *more[layout], "--save-temps", self.folder, "-o", binary)  # fmt: skip
                sharded = (self.folder / "sharded.mlir").read_text()
                lists = re.findall(r"fsdp\.group .* of \[(.*?)\]", sharded)
                groups = [path for found in lists for path in json.loads(f"[{found}]")]
                losses, weights = self.train(binary, data, "fastest")
                torchs_losses, torchs_weights = self.train(binary, data, "torch")
                self.assertEqual(losses, torchs_losses)
                self.check_equal(weights, torchs_weights)
                clip = float(dict(zip(more[layout], more[layout][1:])).get("--clip-grad-norm", 0))
                eager_losses, eager_weights = train_eagerly(copy.deepcopy(eager), samples, clip, groups)
                if not clip:
                    self.assertEqual([[float.fromhex(x) for x in line] for line in losses], eager_losses)
                    self.check_equal(weights, eager_weights)
                    continue
                # A norm is a sum over the shards of two ranks: in another order than over whole gradients. Where
                # a gradient is rounding alone (a bias of keys), Adam makes a weight of it.
                ours = [float.fromhex(x) for line in losses for x in line]
                torch.testing.assert_close(ours, [x for line in eager_losses for x in line], rtol=1e-5, atol=0)

    def check_equal(self, weights, expected):
        self.assertEqual(set(weights), set(expected))
        for name, tensor in expected.items():
            bits = lambda values: values.contiguous().view(-1).view(torch.uint8)
            self.assertTrue(torch.equal(bits(weights[name]), bits(tensor)), f"{name} differs")

    def test_modules_used_twice(self):
        shape = f"f32[{BATCH},{LENGTH},{WIDTH}]"
        for kind in (NormTwice, BlockTwice, GateTwice):
            with self.subTest(kind.__name__):
                torch.manual_seed(1)
                samples = {name: torch.randn(16, LENGTH, WIDTH) for name in ("x", "t")}
                self.check(kind(), ["--input", f"x:{shape}", "--input", f"t:{shape}"], samples)

    def test_random_models(self):
        for number in range(OPTIONS.first, OPTIONS.first + OPTIONS.models):
            model = random_models.RandomModel(number)
            more = MORE[number % len(MORE)]
            with self.subTest(number=number, model=model.describe(), more=more):
                self.check(model, model.input_flags(), model.samples(16), more)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--first", type=int, default=1)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
