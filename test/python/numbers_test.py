#!/usr/bin/env python3
"""tools/python/fsdpc: numbers that the code reads by .item() and computes with are tensors of the step."""

import json
import subprocess
import unittest

import torch
import torch.nn as nn
import torch.nn.functional as F

import exported
import fsdpc  # exported says where it is
import safetensors_io

#: Of a loss, a count of int64, and a tensor.
CASES = {
    "count": lambda loss, count, x: loss / count.item(),
    "at least one": lambda loss, count, x: loss / max(count.item(), 1),
    "at most": lambda loss, count, x: loss * min(count.item(), 3),
    "inverse": lambda loss, count, x: loss * (1.0 / count.item()),
    "power": lambda loss, count, x: loss / count.item() ** 0.5,
    "numbers": lambda loss, count, x: loss * (3 - count.item() * 2 - -count.item() / 7),
    "largest of both": lambda loss, count, x: loss * max(count.item(), 2 * x.mean().item()),
    "of one element": lambda loss, count, x: loss / torch.clamp(count.float().reshape(1) / 2, min=1).item(),
    "with tensors": lambda loss, count, x: (x * x.mean().item() - count.item() + loss / count.item()).mean(),
    "its own": lambda loss, count, x: loss * loss.item(),
    "in front": lambda loss, count, x: count.item() / loss,
    "before a write": lambda loss, count, x: loss * _read_and_write(x.clone()),
    "of doubles": lambda loss, count, x: (loss.double() / count.item() + x.double().mean().item()).float(),
}


def _read_and_write(x):
    number = x[0, 0].item()
    x.zero_()
    return number


class Model(nn.Module):
    def __init__(self, combine):
        super().__init__()
        self.linear, self.combine = nn.Linear(8, 8), combine

    def forward(self, x, y):
        return self.combine(F.cross_entropy(self.linear(x), y, ignore_index=0, reduction="sum"), (y != 0).sum(), x)


class Numbers(exported.Exported):
    def test_bits(self):
        """The exported program has eager's loss and gradient, of another batch too."""
        torch.manual_seed(0)
        batches = [{"x": torch.randn(4, 8), "y": torch.randint(1, 8, (4,)) * (torch.arange(4) < size)} for size in (4, 2)]
        for name, combine in CASES.items():
            with self.subTest(name):
                model = Model(combine)
                fsdpc.export(model, batches[0], self.path, quiet=True)
                program = torch.export.load(self.path)
                program.state_dict.update(model.named_parameters())
                run = program.module()
                for batch in batches:
                    expected, loss = model(**batch), run(**batch)
                    self.assertTrue(torch.equal(expected, loss), f"{expected} {loss}")
                    gradients = [torch.autograd.grad(value, model.parameters()) for value in (expected, loss)]
                    for one, other in zip(*gradients):
                        self.assertTrue(torch.equal(one, other))
                self.capture()

    def test_training(self):
        """The binary, with generated kernels and without, has eager's losses in each of its steps."""
        torch.manual_seed(0)
        size, steps = 4, 3
        data = {"x": torch.randn(size * steps, 8), "y": torch.randint(1, 8, (size * steps,))}
        data["y"][::5] = 0
        safetensors_io.save(self.folder / "data.safetensors", data)
        for name, combine in CASES.items():
            model = Model(combine)
            batches = [{key: value[at:at + size] for key, value in data.items()} for at in range(0, size * steps, size)]
            fsdpc.export(model, batches[0], self.path, quiet=True)
            optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.05), []
            for batch in batches:
                loss = model(**batch)
                losses.append(loss.item())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            for fusion in ("exact", "off"):
                with self.subTest(name, fusion=fusion):
                    binary, log = self.folder / fusion, self.folder / f"{fusion}.jsonl"
                    self.compile("--optimizer", "sgd", "--lr", "0.05", "--mesh", "dp=1", "--fusion", fusion, "-o", binary)
                    log.unlink(missing_ok=True)
                    subprocess.run([binary, "--init", self.path.with_suffix(".safetensors"), "--data", self.folder / "data.safetensors",
                                    "--steps", str(steps), "--log", log, "--quiet"], check=True)  # fmt: skip
                    lines = [json.loads(line) for line in log.read_text().splitlines()]
                    self.assertEqual([float.fromhex(line["loss_hex"][0]) for line in lines], losses)

    def test_other_uses(self):
        """What takes a number where an operator takes no tensor is refused as before."""
        fsdpc.export(Model(lambda loss, count, x: loss + torch.full((3,), count.item()).sum()),
                     {"x": torch.randn(4, 8), "y": torch.randint(1, 8, (4,))}, self.path, quiet=True)  # fmt: skip
        self.assertIn("reads a value that is known at run time only", self.refused_capture())


if __name__ == "__main__":
    unittest.main()
