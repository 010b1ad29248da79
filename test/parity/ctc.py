#!/usr/bin/env python3
"""The CTC loss: an acoustic model beside FSDP2, and the loss's options beside eager torch, bit for bit."""

import unittest

import torch
import torch.nn.functional as F
from torch import nn

import harness
from oracle import models, safetensors_io

ACOUSTIC = models.Config("acoustic", dim=16, layers=2, seq=24, batch=3, classes=7)
RANKS, STEPS, BATCH, FRAMES, LABELS, CLASSES = 2, 4, 3, 9, 4, 6


class Acoustic(harness.Comparison):
    samples = 40

    def compare(self, mesh=2, more="", layouts=("flat", "per-param"), capture=None, **run):
        workspace = harness.Workspace(ACOUSTIC, harness.ADAMW, self.samples)
        self.addCleanup(workspace.remove)
        (capture or workspace.capture_package)(*([workspace] if capture else []))
        run, outcome = self.expect(workspace, **run)
        self.check(workspace, run, outcome, mesh, layouts, more, communicators=("local",))

    def test_script(self):
        self.compare(capture=lambda workspace: workspace.capture())

    def test_trace(self):
        self.compare(capture=lambda workspace: workspace.capture("trace"), layouts=["flat"])

    def test_package(self):
        self.compare()
        self.compare(microbatches=2, more="microbatches=2", layouts=["per-param"])
        self.compare(mesh="replicate=2,shard=2", ranks=4, replicas=2, layouts=["per-param"])

    def test_schedules(self):
        """Also with a loss that is computed again in the backward, by a group's full recomputation."""
        self.compare(more="schedule=auto", layouts=["flat"])
        self.compare(more="recompute=full fusion=exact", layouts=["flat"])


def of_selected(log_probs, labels, frames, lengths, count=lambda mask, lengths: mask.sum(-1)):
    """As the models of transformers take padded labels, here with gaps in the rows."""
    mask = (labels % 3 != 0) & (torch.arange(LABELS) < lengths[:, None])
    counts = count(mask, lengths)  # before the selection, as transformers does
    return F.ctc_loss(log_probs, labels.masked_select(mask), frames.clamp_min(8), counts)


class Model(nn.Module):
    """`loss(log_probs, labels, frames, lengths)`: of log probabilities [frames, samples, classes]."""

    def __init__(self, loss, dtype=torch.float32):
        super().__init__()
        self.head = nn.Linear(8, CLASSES)
        self.loss, self.dtype = loss, dtype

    def forward(self, x, labels, frames, lengths):
        log_probs = F.log_softmax(self.head(x), dim=-1, dtype=self.dtype).transpose(0, 1)
        return self.loss(log_probs, labels, frames, lengths)


class Options(harness.Case):
    def setUp(self):
        torch.set_num_threads(1)
        self.workspace = harness.Workspace(ACOUSTIC)
        self.addCleanup(self.workspace.remove)
        torch.manual_seed(0)
        samples = RANKS * STEPS * BATCH
        # Lengths between those that fit into no frames and none.
        self.data = {
            "x": torch.randn(samples, FRAMES, 8),
            "labels": torch.randint(1, CLASSES, (samples, LABELS)),
            "frames": torch.randint(LABELS // 2, FRAMES + 1, (samples,)),
            "lengths": torch.randint(0, LABELS + 1, (samples,)),
        }
        safetensors_io.save(self.workspace.data, self.data)

    def trace(self, model):
        path = self.workspace.folder / "model.pt"
        torch.jit.trace(model, tuple(tensor[:BATCH] for tensor in self.data.values())).save(path)
        kinds = {torch.float32: "f32", torch.int64: "i64"}
        sizes = {name: [BATCH, *tensor.shape[1:]] for name, tensor in self.data.items()}
        return [path, "--weights", self.workspace.weights] + [
            f"--input={name}:{kinds[tensor.dtype]}[{','.join(map(str, sizes[name]))}]" for name, tensor in self.data.items()
        ]  # fmt: skip

    def export(self, model):
        path = self.workspace.folder / "model.pt2"
        batch = {name: tensor[:BATCH] for name, tensor in self.data.items()}
        harness.fsdpc.export(model, batch, path, weights=self.workspace.weights, quiet=True)
        return [path]

    def batches(self, step):
        firsts = [(step * RANKS + rank) * BATCH for rank in range(RANKS)]
        return [[tensor[first : first + BATCH] for tensor in self.data.values()] for first in firsts]

    def compare(self, loss, dtype=torch.float32, save=None):
        torch.manual_seed(1)
        model = Model(loss, dtype)
        files = (save or self.export)(model)
        options = {"lr": 1e-2, "weight_decay": 0.1}
        binary = self.workspace.folder / "train"
        harness.run([harness.TOOLS / "fsdpc", *files, *harness.Optimizer("adamw", options).flags(), "--mesh", f"dp={RANKS}", "-o", binary])
        lines, weights = harness.train(self.workspace, binary, RANKS, STEPS)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False, **options)
        losses = [harness.train_eagerly(model, optimizer, self.batches(step)) for step in range(STEPS)]
        self.assertTrue(all(loss == loss and loss != float("inf") for step in losses for loss in step), losses)
        self.assertEqual(harness.losses_of(line["loss_hex"] for line in lines), losses)
        self.assertIsNone(harness.bitwise_difference(dict(model.state_dict()), weights))

    def test_options(self):
        for name, loss in {
            "mean": lambda p, y, n, m: F.ctc_loss(p, y, n, m, zero_infinity=True),
            "sum": lambda p, y, n, m: F.ctc_loss(p, y, n, m, reduction="sum", zero_infinity=True),
            "none": lambda p, y, n, m: F.ctc_loss(p, y, n, m, reduction="none", zero_infinity=True).square().mean(),
            "blank": lambda p, y, n, m: F.ctc_loss(p, y - 1, n, m, blank=CLASSES - 1, zero_infinity=True),
            "finite": lambda p, y, n, m: F.ctc_loss(p, y, n.clamp_min(8), m),
            "module": nn.CTCLoss(zero_infinity=True),
            "narrow": lambda p, y, n, m: F.ctc_loss(p, y.int(), n.int(), m.int(), zero_infinity=True),
            "joined": lambda p, y, n, m: F.ctc_loss(p, y.flatten(), n.clamp_min(8), torch.full_like(m, LABELS)),
            "selected": of_selected,
            "numbers": lambda p, y, n, m: F.ctc_loss(p, y, (9, 8, 8), (LABELS, 1, 0)),
            "sum of numbers": lambda p, y, n, m: F.ctc_loss(p, y, (1, 8, 9), (4, 2, 0), reduction="sum", zero_infinity=True),
            "one sample": lambda p, y, n, m: F.ctc_loss(p[:, 0], y[0], (9,), (LABELS,)),
        }.items():  # fmt: skip
            with self.subTest(name):
                self.compare(loss)
            if name.endswith("numbers") or name == "one sample":
                with self.subTest(name, form="trace"):
                    self.compare(loss, save=self.trace)

    def test_double(self):
        self.compare(lambda p, y, n, m: F.ctc_loss(p, y, n, m, zero_infinity=True), torch.float64)

    def test_refusals(self):
        """At capture what dtypes and sizes show, in the run what the values show."""
        refuse = lambda model, message: self.assert_fails(
            message, harness.run, [harness.TOOLS / "fsdpc", *self.export(model), "-o", self.workspace.folder / "train"])  # fmt: skip
        plain = lambda p, y, n, m: F.ctc_loss(p, y, n, m)
        refuse(Model(plain, torch.bfloat16), "ctc_loss takes fp32 or fp64, not BFloat16")
        refuse(Model(lambda p, y, n, m: F.ctc_loss(p, y, n[:2], m)),
               "ctc_loss takes 3 whole numbers of each kind of lengths, not 2 of Long")  # fmt: skip
        refuse(Model(lambda p, y, n, m: F.ctc_loss(p, y[:2], n, m)), "ctc_loss takes targets of 3 rows")
        refuse(Model(lambda *given: of_selected(*given, count=lambda mask, lengths: lengths)), "masked_select")
        model = Model(lambda p, y, n, m: F.ctc_loss(p, y, n + FRAMES, m))
        binary = self.workspace.folder / "train"
        harness.run([harness.TOOLS / "fsdpc", *self.export(model), "-o", binary])
        self.assert_fails("fsdpc::ctc_loss", harness.train, self.workspace, binary, 1, 1)


if __name__ == "__main__":
    unittest.main()
