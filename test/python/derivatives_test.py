#!/usr/bin/env python3
"""tools/python/fsdpc: derivatives in a forward, which the step computes as eager torch does."""

import json
import subprocess
import unittest

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import exported
import fsdpc  # exported says where it is

grad = torch.autograd.grad
STEPS = 3


class Model(nn.Module):
    """Its loss is a function of (model, x)."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.body = nn.Sequential(nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 12), nn.LayerNorm(12), nn.Tanh())
        self.head = nn.Linear(12, 1)

    def values(self, x):
        return self.head(self.body(x))

    def forward(self, x):
        return self.function(self, x)


def force(model, x):
    x = x.detach().requires_grad_()
    energy = model.values(x).sum()
    return (grad(energy, x, create_graph=True)[0] ** 2).mean() + energy


def penalty(model, x):
    """Of a critic (WGAN-GP), at an input that the model has made."""
    middle = (0.3 * x + 0.7 * x.flip(0)).requires_grad_(True)
    values = model.values(middle)
    (slope,) = grad(values, middle, torch.ones_like(values), create_graph=True, retain_graph=True)
    return model.values(x).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()


def laplacian(model, x):
    """The residual of a differential equation: second derivatives, whose gradients are third ones."""
    x.requires_grad = True
    (slope,) = grad(model.values(x).sum(), x, create_graph=True)
    second = sum(grad(slope[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(3))
    return ((second - torch.sin(x).sum(1)) ** 2).mean()


def by_a_hidden_tensor(model, x):
    hidden = model.body(x)
    (slope,) = grad(model.head(hidden).exp().sum(), hidden, create_graph=True)
    return (hidden * slope).sum()


def by_parameters(model, x):
    """The squared norm of the gradient of a loss."""
    loss = (model.values(x) ** 2).mean()
    gradients = grad(loss, [model.head.weight, model.body[0].bias], create_graph=True)
    return loss + 0.1 * sum((gradient**2).sum() for gradient in gradients)


def by_a_strain(model, x):
    """By a tensor that requires a gradient from its beginning, and by one that the loss does not depend on."""
    strain, other = torch.zeros(6, requires_grad=True), torch.ones(2, requires_grad=True)
    energy = (model.values(x * (1 + strain)) ** 2).sum()
    stress, nothing = grad(energy, (strain, other), create_graph=True, allow_unused=True)
    assert nothing is None
    return energy + (stress**2).sum()


def without_a_graph(model, x):
    """A constant for the loss: its gradient ends there."""
    x.requires_grad_()
    (slope,) = grad(model.values(x).sum(), x)
    return (model.values(x) * slope.abs()).mean()


def after_an_operator(model, x):
    """What was computed of the input before is no part of the derivative."""
    before = torch.sin(x)
    x.requires_grad_()
    energy = (model.values(x) * before).sum()
    return (grad(energy, x, create_graph=True)[0] ** 2).mean()


def without_gradients_around(model, x):
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            y.requires_grad_()
            (slope,) = grad(model.values(y).sum(), y)
    return (model.values(x) * slope).sum()


def jacobian(model, x):
    found = torch.autograd.functional.jacobian(lambda y: model.values(y).squeeze(1)[:2], x, create_graph=True)
    return (found**2).sum()


def transformed(model, x):
    """By torch.func: of a sum, of each sample, and of parameters, with which the model then computes (MAML)."""
    slope = torch.func.grad(lambda y: model.values(y).sum())(x)
    jacobians = torch.vmap(torch.func.jacrev(model.body))(x)
    given = dict(model.body.named_parameters())
    steps, loss = torch.func.grad_and_value(lambda p: (torch.func.functional_call(model.body, p, (x,)) ** 2).mean())(given)
    stepped = {name: value - 0.1 * steps[name] for name, value in given.items()}
    return (slope**2).mean() + (jacobians**2).mean() + loss + torch.func.functional_call(model.body, stepped, (x,)).sum()


FUNCTIONS = (force, penalty, laplacian, by_a_hidden_tensor, by_parameters, by_a_strain, without_a_graph, after_an_operator,
             without_gradients_around, jacobian, transformed)  # fmt: skip


class Derivatives(exported.Exported):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)  # as a rank has

    def make(self, function):
        torch.manual_seed(7)
        return Model(function)

    def train(self, model, data):
        """Losses, and the weights afterwards, of eager torch."""
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.01), []
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = model(data[4 * step :][:4].clone())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, model.state_dict()

    def run_step(self, data, *flags, running=()):
        binary, log, saved = (self.folder / name for name in ("train", "log.jsonl", "saved.safetensors"))
        log.unlink(missing_ok=True)
        save_file({"x": data}, self.folder / "data.safetensors")
        self.compile("--mesh", "dp=1", "--optimizer", "sgd", "--lr", "0.01", "--layout", "per-param", *flags, "-o", binary)
        subprocess.run([binary, "--data", self.folder / "data.safetensors", "--steps", str(STEPS), "--log", log, "--save",
                        saved, "--init", self.path.with_suffix(".safetensors"), *running],
                       check=True, capture_output=True)  # fmt: skip
        self.lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [float.fromhex(*line["loss_hex"]) for line in self.lines if "loss" in line], load_file(saved)

    def test_numbers(self):
        data = torch.randn(4 * STEPS, 6, generator=torch.Generator().manual_seed(1))
        for function in FUNCTIONS:
            with self.subTest(function.__name__):
                fsdpc.export(self.make(function), {"x": data[:4].clone()}, self.path, quiet=True)
                losses, weights = self.train(self.make(function), data)
                own, saved = self.run_step(data)
                self.assertEqual(own, losses)
                for name, tensor in weights.items():
                    self.assertTrue(torch.equal(saved[name], tensor), name)

    def test_input_that_requires_a_gradient(self):
        data = torch.randn(4, 6)
        values = lambda model, x: (grad(model.values(x).sum(), x, create_graph=True)[0] ** 2).mean()
        fsdpc.export(self.make(values), {"x": data.clone().requires_grad_()}, self.path, quiet=True)
        expected = values(self.make(values), data.clone().requires_grad_()).item()
        self.assertEqual(self.run_step(data.repeat(STEPS, 1))[0][0], expected)

    def test_evaluation(self):
        """It takes derivatives, too."""
        data, other = torch.randn(4 * STEPS, 6), self.folder / "eval.pt2"
        for path in (other, self.path):
            fsdpc.export(self.make(force), {"x": data[:4].clone()}, path, quiet=True)
        evaluation = ["--eval-data", self.folder / "data.safetensors", "--eval-steps", "1"]
        _, saved = self.run_step(data, "--eval-model", other, running=evaluation)
        model = self.make(force)
        model.load_state_dict(saved)
        self.assertEqual(self.lines[-1]["eval_loss"], model(data[:4]).item())

    def test_programs_without_derivatives(self):
        """A tensor may require a gradient for nothing."""

        def function(model, x):
            return F.relu(model.values(x.requires_grad_())).sum()

        fsdpc.export(self.make(function), {"x": torch.randn(4, 6)}, self.path, quiet=True)
        self.assertNotIn("requires_grad", str(torch.export.load(self.path).graph_module.code))

    def test_refusals(self):
        def accumulated(model, x):
            model.values(x.requires_grad_()).sum().backward()
            return x.grad.sum()

        def transformed(model, x):
            return torch.func.jacrev(model.values)(x).sum()

        def batched(model, x):
            y = model.values(x.requires_grad_())
            return grad(y, x, torch.eye(4)[:, :, None], create_graph=True, is_grads_batched=True)[0].sum()

        def forward_mode(model, x):
            return torch.func.jvp(model.values, (x,), (torch.ones_like(x),))[1].sum()

        for function, problem in (
            (accumulated, r"backward\(\) inside of the forward, which adds to .grad, is not supported\n  at .*derivatives_test.py:\d+"),
            (transformed, "torch.func.vjp or jacrev inside of the forward"),
            (batched, "a batch of gradients"),
            (forward_mode, "forward-mode differentiation"),
        ):
            with self.subTest(function.__name__), self.assertRaisesRegex(fsdpc.ExportError, problem):
                fsdpc.export(self.make(function), {"x": torch.randn(4, 6)}, self.path, quiet=True)


if __name__ == "__main__":
    unittest.main()
