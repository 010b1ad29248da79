#!/usr/bin/env python3
"""tools/python/fsdpc: what a model does in Python beside operators is an operator of the step, or refused."""

import contextlib
import io
import random
import types
import unittest

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

import exported
import fsdpc  # exported says where it is
from exported import Model


def hooked(model, x):
    y = model.linear(x)
    y.register_hook(lambda gradient: gradient * 2)
    return y


def frozen(model, x):
    model.linear.requires_grad_(False)
    y = model.linear(x)
    model.linear.requires_grad_(True)
    return y


def frozen_by_attribute(model, x):
    model.linear.weight.requires_grad = False
    return model.linear(x)


def frozen_under_no_grad(model, x):
    with torch.no_grad():
        model.linear.requires_grad_(False)
        model.linear(x)
    return model.linear(x)


def replaced(model, x):
    model.linear.weight.data = model.linear.weight.data * 2
    return model.linear(x)


def counted(model, x):
    model.calls += 1
    return model.linear(x) * model.calls


def counted_in_dict(model, x):
    model.state["calls"] += 1
    return model.linear(x) * model.state["calls"]


def seeded(model, x):
    torch.manual_seed(0)
    return model.linear(x + torch.randn_like(x))


class Effects(exported.Exported):
    def test_refused(self):
        for text, forward in (
            (r"a hook of a tensor's gradient [^\n]*\n  at .*effects_test.py:\d+\n  remedy", hooked),
            (r"freezes or unfreezes a parameter\n  at .*effects_test.py", frozen),
            ("freezes or unfreezes", frozen_by_attribute),
            ("freezes or unfreezes", frozen_under_no_grad),
            ("assigns .data", replaced),
            ("random numbers by random, [^(]*$", lambda model, x: model.linear(x) * random.random()),
            (r"changes attribute 'calls' of the model \(0, then 1\)", counted),
            (r"changes attribute 'state' of the model \(\[0, 'train'\], then \[1, 'train'\]\)", counted_in_dict),
            (r"sets the state of torch's random numbers[^\n]*\n  at .*effects_test.py", seeded),
        ):  # fmt: skip
            with self.subTest(text):
                model = Model(forward)
                self.expect_refusal(text, model)
                self.assertTrue(model.linear.weight.requires_grad)
                self.assertEqual((model.calls, model.state), (0, {"calls": 0, "mode": "train"}))
        # The patches are gone.
        x = torch.ones(1, requires_grad=True)
        x.register_hook(lambda gradient: gradient * 2)
        x.data.mul_(3)
        (x * 2).backward()
        self.assertEqual((x.item(), x.grad.item()), (3, 4))
        self.assertNotIn("data", vars(torch.Tensor))

    def test_spec_augment(self):
        """transformers draws its masks by numpy."""
        model = Model(lambda model, x: model.linear(x) * random.random())
        model.linear.config = types.SimpleNamespace(apply_spec_augment=True)
        self.expect_refusal(r"draws random numbers .*\(set apply_spec_augment of the model's configuration to False\)", model)

    def test_modules_refused(self):
        model = Model(lambda model, x: model.linear(x))
        handle = model.linear.register_full_backward_hook(lambda *arguments: None)
        self.expect_refusal("module 'linear' has hooks of its backward", model)
        handle.remove()
        for register in (model.linear.weight.register_hook, model.linear.weight.register_post_accumulate_grad_hook):
            handle = register(lambda *arguments: None)
            self.expect_refusal("parameter 'linear.weight' has hooks of its gradient", model)
            handle.remove()
        self.export(model)
        model.norm = nn.SyncBatchNorm(4)
        self.path.unlink()
        self.expect_refusal("module 'norm' is a SyncBatchNorm", model)
        model.norm.eval()
        self.export(model)
        self.path.unlink()
        for wrapper, name in ((nn.DataParallel, ".module"), (torch.compile, "._orig_mod")):
            self.expect_refusal(f"wrapped in .*: hand over its {name}", wrapper(model))

    def test_constants_refused(self):
        """A parameter of the loss would be a constant."""
        model, scale = Model(lambda model, x: model.linear(x)), nn.Parameter(torch.ones(4))
        scaled = lambda model, x: (model.linear(x) * scale).sum()
        self.expect_refusal(r"a tensor \[4\] .* that requires a gradient and is no parameter", model, method=scaled)
        scale.requires_grad_(False)
        self.export(model, method=scaled)

    def test_sparse_tensors(self):
        """They are refused by name if the forward uses them, or if they are buffers; others do not matter."""
        others = nn.Parameter(torch.eye(3).to_sparse())  # of another model
        model = Model(lambda model, x: model.linear(x) * torch.tensor([1.0, 2.0, 3.0, 4.0]))
        model.adjacency = torch.eye(4).to_sparse()
        self.export(model)
        self.path.unlink()
        used = Model(lambda model, x: model.linear(torch.sparse.mm(model.adjacency, x.t()).t()))
        used.adjacency = model.adjacency
        self.expect_refusal("'adjacency' is a sparse tensor", used)
        model.register_buffer("distances", others.detach())
        self.expect_refusal("'distances' is a sparse tensor", model)

    def test_optimizers_refused(self):
        model = Model(lambda model, x: model.linear(x))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.register_step_post_hook(lambda *arguments: None)
        self.expect_refusal("hooks of the optimizer's step", model, optimizer=optimizer)

    def test_notes(self):
        """Inputs that a training binary will refuse, and facts that are not exported, are printed."""
        model, x = Model(lambda model, x: model.linear(x)), torch.randn(2, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scaled = lambda model, x, scale: model(x) * scale.sum()

        def notes(**batch):
            told = io.StringIO()
            with contextlib.redirect_stderr(told):
                fsdpc.export(model, batch, self.path, method=scaled, optimizer=optimizer)
            return told.getvalue()

        self.assertEqual(notes(x=x, scale=torch.ones(2)), "")
        self.assertIn("'scale' of the batch has 3 samples, 'x' 2:", notes(x=x, scale=torch.ones(3)))
        self.assertIn("'scale' of the batch has no dimension:", notes(scale=torch.tensor(1.0), x=x))
        model(x).backward()
        optimizer.step()
        self.assertIn("the optimizer's state is not exported", notes(x=x, scale=torch.ones(2)))

    def test_regions_without_gradients(self):
        """torch.inference_mode is torch.no_grad."""
        steps = []
        for region in (torch.inference_mode, torch.no_grad):

            def forward(model, x):
                with region():
                    scale = model.linear(x).mean()
                return model.linear(x) * scale.clone()

            self.export(Model(forward))
            steps.append(self.capture())
            self.assertTrue(torch.is_grad_enabled())
        self.assertEqual(*steps)

    def test_parameters_frozen_without_gradients(self):
        """As PEFT's disable_adapter does for a reference model."""
        steps = []
        for changes in (True, False):

            def forward(model, x):
                with torch.no_grad():
                    if changes:
                        model.linear.requires_grad_(False)
                    scale = model.linear(x).mean()
                    if changes:
                        model.linear.requires_grad_(True)
                return model.linear(x) * scale

            model = Model(forward)
            self.export(model)
            self.assertTrue(model.linear.weight.requires_grad)
            steps.append(self.capture())
        self.assertEqual(*steps)

    def test_data(self):
        """x.data is x.detach(), also where it is written."""
        steps = []
        for data in (lambda x: x.data, lambda x: x.detach()):

            def forward(model, x):
                data(model.mean).add_(1.0)
                return model.linear(x) * data(model.mean) + data(model.linear(x))

            self.export(Model(forward))
            steps.append(self.capture())
        self.assertEqual(*steps)
        self.assertIn("@mean", steps[0])

    def test_reentrant_checkpoint(self):
        """Its region has gradients, as any code has."""
        steps = []
        for run in (lambda function, x: checkpoint(function, x, use_reentrant=True), lambda function, x: function(x)):
            self.export(Model(lambda model, x: run(model.linear, model.linear(x))))
            steps.append(self.capture())
        self.assertEqual(*steps)

    def test_reentrant_checkpoint_without_gradients(self):
        """If no argument of the checkpoint needs a gradient, the region has none, of which torch warns."""

        def frozen(model, x):
            with torch.no_grad():
                return model.linear(x)

        with self.assertWarnsRegex(UserWarning, "None of the inputs have requires_grad=True"):
            self.export(Model(lambda model, x: model.linear(x) + checkpoint(model.linear, x, use_reentrant=True)))
        step = self.capture()
        self.export(Model(lambda model, x: model.linear(x) + frozen(model, x)))
        self.assertEqual(step, self.capture())

    def test_hooks_that_keep_features(self):
        """The forward reads what a hook keeps in an attribute, also if an earlier forward has left something there."""

        def forward(model, x):
            model.linear(x)
            return model.linear(model.feature)

        model = Model(forward)
        model.linear.register_forward_hook(lambda module, arguments, result: setattr(model, "feature", result))
        steps = []
        for run_before in (False, True):
            if run_before:
                model(torch.randn(4, 4))
            steps.append(self.export(model) or self.capture())
        self.assertEqual(*steps)
        self.assertEqual(steps[0].count("addmm.default"), 2)

    def test_arguments(self):
        model, batch = Model(lambda model, x: model.linear(x)), {"x": torch.randn(2, 4)}
        with self.assertRaisesRegex(fsdpc.ExportError, "optimizer is str 'adamw', expected a torch Optimizer"):
            fsdpc.export(model, batch, self.path, optimizer="adamw")
        with self.assertRaisesRegex(fsdpc.ExportError, "model is function .*, expected a torch Module"):
            fsdpc.export(model.function, batch, self.path)

    def test_complex_inputs(self):
        with self.assertRaisesRegex(fsdpc.ExportError, "input 'x' is torch.complex64"):
            fsdpc.export(Model(lambda model, x: x.abs()), {"x": torch.randn(4, dtype=torch.complex64)}, self.path)

    def test_vmap(self):
        """It becomes its operators on whole batches, also where the function reads other tensors, and where it is nested."""

        def causal(model, x):
            allowed = lambda query, key: (query >= key) & (x[query, 0] > -9)  # noqa: E731
            positions = torch.arange(4)
            mask = torch.vmap(torch.vmap(allowed, in_dims=(None, 0)), in_dims=(0, None))(positions, positions)
            return model.linear(x).masked_fill(~mask, 0)

        for forward in (lambda model, x: torch.func.vmap(model.linear)(x),
                        lambda model, x: torch.vmap(lambda row: model.linear(row) * x[0], out_dims=1)(x).exp(),
                        lambda model, x: torch.vmap(lambda row, by: row @ by["weight"], (0, None))(x, {"weight": model.linear.weight}),
                        causal):  # fmt: skip
            with self.subTest(forward):
                model, x = Model(forward), torch.randn(4, 4)
                fsdpc.export(model, {"x": x}, self.path, quiet=True)
                self.capture()
                step = torch.export.load(self.path).module(check_guards=False)
                step.load_state_dict(model.state_dict(), assign=True)
                loss, eager = step(x=x), model(x)
                self.assertTrue(torch.equal(loss, eager))
                gradients = [torch.autograd.grad(value, module.linear.weight)[0] for value, module in ((loss, step), (eager, model))]
                self.assertTrue(torch.equal(*gradients))

    def test_states_of_lstm(self):
        """They have the shapes that they have in training."""

        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm, self.head = nn.LSTM(4, 3, 2, batch_first=True), nn.Linear(6, 2)

            def forward(self, x):
                _, (h, c) = self.lstm(x)
                assert h.shape == (2, x.shape[0], 3)
                return self.head(torch.cat([h[-1], c[-1]], 1)).sum()

        for batch in (1, 2):
            fsdpc.export(Reader(), {"x": torch.randn(batch, 5, 4)}, self.path, quiet=True)
            self.capture()


if __name__ == "__main__":
    unittest.main()
