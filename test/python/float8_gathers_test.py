#!/usr/bin/env python3
"""Gathers in float8 of weights that a model casts to float8: the bits are those of gathers in the parameters' dtype or in bf16,
on several ranks, layouts, meshes and communicators. The models compute as torchao's Float8Linear does, with torch alone."""

import json
import os
import socket
import subprocess
import sys
import unittest

import exported  # adds the folder of fsdpc
import safetensors_io
import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy

import fsdpc

sys.path.insert(0, str(exported.ROOT / "tools"))
from modelzoo.of_low_precision import Float8Product  # noqa: E402

BF16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
FLOAT8 = {"gather_dtype": "float8_e4m3fn"}
STEPS, SAMPLES, WIDTH = 3, 4, 16


def cast(x):
    """As torchao's hp_tensor_to_float8_dynamic casts: a scale for the whole tensor."""
    limit = torch.finfo(torch.float8_e4m3fn).max
    scale = (limit / torch.clamp(torch.max(torch.abs(x)).to(torch.float64), min=1e-12)).to(torch.float32)
    return (x.to(torch.float32) * scale).clamp(-limit, limit).to(torch.float8_e4m3fn), scale


def multiply(left, right, dtype):
    """As torchao's emulation multiplies."""
    (a, a_scale), (b, b_scale) = left, right
    return ((a.to(torch.float32) / a_scale) @ (b.to(torch.float32) / b_scale)).to(dtype)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight_t):
        ctx.save_for_backward(x, weight_t)
        return multiply(cast(x), cast(weight_t), x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        x, weight_t = ctx.saved_tensors
        weight, scale = cast(weight_t)
        return multiply(cast(gradient), (weight.t(), scale), x.dtype), multiply(cast(x.t()), cast(gradient), x.dtype)


class Linear(nn.Linear):
    def forward(self, x):
        product = Product.apply(x, self.weight.t())
        return product if self.bias is None else product + self.bias


class Block(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), linear(WIDTH, 40), linear(40, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, linear=Linear, layers=2):
        super().__init__()
        self.layers = nn.ModuleList([Block(linear) for _ in range(layers)])
        self.head = nn.Linear(WIDTH, 8)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x).square().mean()


class Padded(nn.Linear):
    """The product of modelzoo, whose rows and columns are multiples of 16."""

    def forward(self, x):
        return Float8Product.forward(self, x.unsqueeze(0)).squeeze(0)


class UsedTwice(Linear):
    """The weight is also used as it is."""

    def forward(self, x):
        return super().forward(x) + self.weight.sum()


class ByRows(nn.Linear):
    """One scale for each row."""

    def forward(self, x):
        scale = 448 / self.weight.detach().abs().amax(1, keepdim=True).clamp(min=1e-12)
        weight = (self.weight * scale).to(torch.float8_e4m3fn).to(torch.float32) / scale
        return x @ weight.t()


class Float8Gathers(exported.Exported):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.number = 0

    def export(self, model=None, **options):
        torch.manual_seed(1)
        fsdpc.export(model or Model(), (torch.randn(SAMPLES, WIDTH),), self.path, quiet=True, **options)

    def config(self, content):
        self.number += 1
        path = self.folder / f"config-{self.number}.yaml"
        path.write_text(json.dumps(content))
        return path

    def build(self, content, ranks, *flags):
        """The binary."""
        binary = self.folder / f"train-{self.number}"
        flags = ("--mesh", ranks if isinstance(ranks, str) else f"dp={ranks}", "--lr", "0.01", "--optimizer", "adamw",
                 *flags)  # fmt: skip
        self.compile("--config", self.config(content), *flags, "-o", binary)
        return binary

    def train(self, binary, ranks, communicator="local"):
        """(losses by step and rank, saved parameters)"""
        log, saved, data = (self.folder / name for name in ("log.jsonl", "saved.safetensors", "data.safetensors"))
        for file in (log, saved):
            file.unlink(missing_ok=True)
        torch.manual_seed(2)
        safetensors_io.save(data, {"x": torch.randn(STEPS * SAMPLES * ranks * 2, WIDTH)})
        flags = ["--data", data, "--steps", str(STEPS), "--log", log, "--save", saved, "--init",
                 self.path.with_suffix(".safetensors")]  # fmt: skip
        if communicator == "local":
            subprocess.run([binary, "--ranks", str(ranks), *flags], check=True, capture_output=True)
        else:
            self.run_processes(binary, ranks, [*flags, "--communicator", communicator])
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [line["loss_hex"] for line in lines if "loss_hex" in line], safetensors_io.load(saved)

    def run_processes(self, binary, ranks, flags):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        processes = [
            subprocess.Popen([binary, *flags], stdout=subprocess.DEVNULL, env=os.environ | {
                "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
            for rank in range(ranks)
        ]  # fmt: skip
        self.assertEqual([process.wait() for process in processes], [0] * ranks)

    def check_bits(self, expected, actual):
        self.assertEqual(expected[0], actual[0])
        self.assertEqual(expected[1].keys(), actual[1].keys())
        for name, tensor in expected[1].items():
            self.assertTrue(torch.equal(tensor, actual[1][name]), name)

    def compare(self, content=None, ranks=2, *flags, count=None, communicators=("local",)):
        """Trains with and without gathers in float8; returns the scheduled step of the former."""
        content, count = content or {}, count or ranks
        expected = self.train(self.build(content, ranks, *flags), count)
        asked = content | {"mixed_precision": content.get("mixed_precision", {}) | FLOAT8}
        binary = self.build(asked, ranks, *flags)
        for communicator in communicators:
            with self.subTest(communicator=communicator):
                self.check_bits(expected, self.train(binary, count, communicator))
        described = subprocess.run([binary, "--describe"], check=True, capture_output=True, text=True).stdout
        self.assertIn("all_reduce of the parameters' amax: 1,", described)
        self.assertIn(", gathered as encoded bytes", described)
        return described

    def test_layouts(self):
        """Uneven parts: 40 x 16 and 16 x 40 elements on 3 ranks."""
        self.export()
        for layout in ("flat", "per-param"):
            for schedule in ("fsdp2", "auto"):
                with self.subTest(layout=layout, schedule=schedule):
                    self.compare({"layout": layout}, 3, "--schedule", schedule)

    def test_communicators(self):
        self.export()
        self.compare({}, 2, communicators=("local", "shm", "gloo"))

    def test_bf16(self):
        """The weights are rounded to bf16 before they are cast to float8."""
        self.export(mixed_precision=BF16)
        for layout in ("flat", "per-param"):
            with self.subTest(layout=layout):
                self.compare({"layout": layout})

    def test_bytes(self):
        """A byte for each element of the weights of a block, on each rank."""
        self.export()
        described = self.compare({"layout": "per-param"})
        gathered = 2 * (2 * 40 * WIDTH) + 4 * 2 * (40 + 3 * WIDTH) + 4 * (WIDTH + 1) * 8
        self.assertRegex(described, rf"all_gather in forward: 5, {gathered} bytes whole")

    def test_replicas(self):
        self.export()
        self.compare({}, "replicate=2,shard=2", count=4)

    def test_microbatches_and_reshard(self):
        self.export()
        for reshard in ("true", "false"):
            with self.subTest(reshard=reshard):
                self.compare({"reshard_after_forward": reshard == "true", "accumulation": {"microbatches": 2}})

    def test_recomputation(self):
        self.export()
        self.compare({}, 2, "--recompute", "full")

    def test_other_formula(self):
        """A scale in fp32, a product that is not limited, and a clone of the weight."""
        self.export(Model(lambda a, b: Padded(a, 48 if b == 40 else b) if a == WIDTH else Padded(48, b)))
        self.compare()

    def test_one_rank(self):
        self.export()
        plain = self.train(self.build({}, 1), 1)
        binary = self.build({"mixed_precision": FLOAT8}, 1)
        self.check_bits(plain, self.train(binary, 1))

    def refused(self, content, ranks=2):
        return self.run_tool("fsdpc", 1, "--config", self.config(content), "--mesh", f"dp={ranks}", "-o",
                             self.folder / "train").stderr  # fmt: skip

    def test_refused(self):
        self.export(Model(UsedTwice))
        self.assertRegex(self.refused({"mixed_precision": FLOAT8}),
                         r"parameter @layers.0.up.weight cannot be gathered as float8_e4m3fn, to which the model casts it: it is "
                         r"used by 'sum.default' in module 'layers.0.up'")  # fmt: skip
        self.export(Model(ByRows))
        self.assertRegex(self.refused({"mixed_precision": FLOAT8}),
                         r"parameter @layers.0.up.weight cannot be gathered .*: its scale is not of the largest absolute value")  # fmt: skip
        self.export(Model(nn.Linear))
        self.assertIn("gather_dtype is float8_e4m3fn, but the model casts no parameter to it",
                      self.refused({"mixed_precision": FLOAT8}))  # fmt: skip
        self.assertIn("but the model casts no parameter of 'layers.0' to it",
                      self.refused({"groups": [{"modules": ["layers.*"], "mixed_precision": FLOAT8}]}))  # fmt: skip
        self.export()
        self.assertIn("has a float8_cast and offload_policy cpu; expected none",
                      self.refused({"mixed_precision": FLOAT8, "offload_policy": "cpu"}))  # fmt: skip
        self.assertIn("has a float8_cast and keeps chunks over 2 ranks",
                      self.refused({"mixed_precision": FLOAT8, "reshard_after_forward": 2}, 4))  # fmt: skip
        self.assertIn("gather_dtype is 'float8', expected param_dtype, float8_e4m3fn or float8_e5m2",
                      self.refused({"mixed_precision": {"gather_dtype": "float8"}}))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
