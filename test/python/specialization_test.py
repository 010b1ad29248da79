#!/usr/bin/env python3
"""tools/python/fsdpc: steps that are specialized to numbers of the batch with which they were exported."""

import contextlib
import io
import json
import subprocess
import unittest

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

import exported
import fsdpc  # exported says where it is


class Model(nn.Module):
    """Its forward is a function of (model, y, mask), where y is computed from the input."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function
        self.register_buffer("count", torch.tensor(2))

    def forward(self, x, mask):
        return self.function(self, self.linear(x), mask).sum()


class Masked(nn.Module):
    """As models of language and speech: padding, a length, a loss of the positions that count."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)

    def forward(self, ids, mask, labels):
        x = self.embedding(ids)
        if not mask.all():
            x = x * mask[..., None]
        length = int(mask.sum(1).max())
        x, labels = x[:, :length], labels[:, :length]
        return F.cross_entropy(self.head(x[labels >= 0]), labels[labels >= 0])


def put(model, y, mask):
    y = y * 1
    y[mask] = y.flatten()[: int(mask.sum())] * 2
    return y


def without_padding(model, y, mask):
    mask = mask.clone()
    mask[:, 0] = True
    return y * 3 if mask.all() else y


def counted(model, y, mask):
    model.count.add_(1)
    return y * 2 if model.count > 2 else y


def drawn(model, y, mask):
    return y * 2 if torch.rand(()) < 0.5 else y


def finite(model, y, mask):
    y = F.dropout(y)
    return y if torch.isfinite(y).all() else y.clamp(-1, 1)


def masks(count):
    mask = torch.zeros(4, 4, dtype=torch.bool)
    mask.flatten()[torch.randperm(16)[:count]] = True
    return mask


class Specialization(exported.Exported):
    def export(self, function, mask):
        torch.manual_seed(0)
        model, x = Model(function), torch.randn(4, 4)
        fsdpc.export(model, {"x": x, "mask": mask}, self.path, specialize=True, quiet=True)
        self.capture()
        step = torch.export.load(self.path).module(check_guards=False)
        step.load_state_dict(model.state_dict(), assign=True)
        return model, step, x

    def test_numbers(self):
        """The step has eager's loss and gradients for batches with the numbers of the export's, and refuses others."""
        for function in (
            lambda model, y, mask: y[mask].logsumexp(0),
            lambda model, y, mask: y.masked_select(mask).square(),
            lambda model, y, mask: y[mask.nonzero()[:, 0]].square(),
            lambda model, y, mask: y[torch.where(mask)].square(),
            lambda model, y, mask: y.flatten()[mask.flatten().nonzero(as_tuple=True)].square(),
            lambda model, y, mask: y.flatten().repeat_interleave(mask.flatten().long()).square(),
            lambda model, y, mask: y.flatten()[: int(mask.sum())].square(),
            put,
        ):  # fmt: skip
            with self.subTest(function):
                model, step, x = self.export(function, masks(7))
                for _ in range(2):
                    mask = masks(7)
                    loss, eager = step(x=x, mask=mask), model(x, mask)
                    gradient, = torch.autograd.grad(loss, step.linear.weight)
                    self.assertTrue(torch.equal(loss, eager))
                    self.assertTrue(torch.equal(gradient, torch.autograd.grad(eager, model.linear.weight)[0]))
                with self.assertRaisesRegex(RuntimeError, "specialized the step to 7 here"):
                    step(x=x, mask=masks(8))

    def test_branches(self):
        for function in (
            without_padding,
            lambda model, y, mask: y if torch.equal(mask, mask.new_ones(4, 4)) else y * 2,
        ):  # fmt: skip
            with self.subTest(function):
                model, step, x = self.export(function, masks(3))
                mask = masks(5)
                self.assertTrue(torch.equal(step(x=x, mask=mask), model(x, mask)))
                with self.assertRaisesRegex(RuntimeError, "specialized the step to False here"):
                    step(x=x, mask=masks(16))

    def test_random(self):
        """A number that is the same for all random numbers counts as known."""
        _, step, x = self.export(finite, masks(3))
        step(x=x, mask=masks(3))
        with self.assertRaisesRegex(RuntimeError, "specialized the step to True here"):
            step(x=x * float("inf"), mask=masks(3))

    def test_any_number(self):
        """What is the same for any number of positions is not specialized."""
        model, step, x = self.export(lambda model, y, mask: y.index_put((mask,), torch.tensor(0.0)), masks(3))
        mask = masks(9)
        self.assertTrue(torch.equal(step(x=x, mask=mask), model(x, mask)))

    def test_unknown(self):
        for text, function in (("buffer 'count', which the forward writes", counted),
                               ("data-dependent", drawn),
                               ("data-dependent", lambda model, y, mask: y * 2 if y.sum().item() > 0 else y)):  # fmt: skip
            with self.subTest(function), self.assertRaisesRegex(fsdpc.ExportError, text):
                self.export(function, masks(3))
        with torch.device("meta"):
            model = Model(lambda model, y, mask: y[mask])
        batch = {"x": torch.randn(4, 4), "mask": torch.empty(4, 4, dtype=torch.bool, device="meta")}
        with self.assertRaisesRegex(fsdpc.ExportError, "'mask' from the values"):
            fsdpc.export(model, batch, self.path, specialize=True, quiet=True)

    def test_notes(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            fsdpc.export(Model(put), {"x": torch.randn(4, 4), "mask": masks(3)}, self.path, specialize=True)
        self.assertRegex(said.getvalue(), r"specialization_test.py:\d+: specialized to 3, the number of this batch")

    def batch(self, length, count):
        mask = torch.arange(8).expand(4, 8) < length
        labels = torch.full((4, 8), -100)
        for row in labels:
            row[torch.randperm(length)[:count]] = torch.randint(16, (count,))
        return {"ids": torch.randint(16, (4, 8)), "mask": mask, "labels": labels}

    def train(self, batches):
        """Runs a training binary, one step for each batch."""
        data = {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}
        save_file(data, self.folder / "data.safetensors")
        return subprocess.run(
            [self.folder / "train", "--init", self.folder / "model.safetensors", "--data", self.folder / "data.safetensors", "--steps", str(len(batches)),
             "--log-file", self.folder / "log.jsonl"], capture_output=True, text=True)  # fmt: skip

    def test_run(self):
        """The binary has eager's losses. It ends at a batch with another number, with line and number."""
        torch.manual_seed(0)
        model, batches = Masked(), [self.batch(6, 3) for _ in range(3)]
        fsdpc.export(model, batches[0], self.path, specialize=True, quiet=True)
        self.capture("--target", "cuda")
        self.compile("--optimizer", "sgd", "--lr", "0.1", "-o", self.folder / "train")
        run = self.train(batches)
        self.assertEqual(run.returncode, 0, run.stderr)
        losses = [json.loads(line)["loss"] for line in (self.folder / "log.jsonl").read_text().splitlines()]
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for batch, loss in zip(batches, losses):
            eager = model(**batch)
            self.assertEqual(eager.item(), loss)
            optimizer.zero_grad()
            eager.backward()
            optimizer.step()
        for other, number in ((self.batch(7, 3), 6), (self.batch(6, 2), 12), (self.batch(8, 3), "False")):
            run = self.train([batches[0], other])
            self.assertEqual(run.returncode, 1)
            self.assertRegex(run.stderr, rf"specialization_test.py:\d+\): .* specialized the step to {number} here")


if __name__ == "__main__":
    unittest.main()
