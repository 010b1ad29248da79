#!/usr/bin/env python3
"""tools/python/fsdpc: shapes and branches that depend on constants only are decided at export."""

import unittest

import torch
import torch.nn as nn

import exported
import fsdpc  # exported says where it is

MASK = [[j != i for j in range(4)] for i in range(4)]
ROWS = [i for i in range(4) for j in range(4) if j != i]
COLUMNS = [j for i in range(4) for j in range(4) if j != i]


class Model(nn.Module):
    """Its forward is a function of (model, y), where y is computed from the input."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function
        self.edges = torch.tensor([[0, 1, 2, 1], [1, 2, 3, 1]])
        self.register_buffer("pairs", self.edges.clone(), persistent=False)
        self.register_buffer("saved", self.edges.clone())
        memory = torch.zeros(2, 2)
        self.register_buffer("whole", memory)
        self.register_buffer("part", memory[0], persistent=False)

    def forward(self, x):
        return self.function(self, self.linear(x)).sum()


def along(edges, y):
    edges = edges[:, edges[0] != edges[1]]
    return y[edges[0]] * y[edges[1]]


def replaced(model, y):
    y = along(model.edges, y)
    model.edges = model.edges.flip(0)
    return y


def replaced_after_branch(model, y):
    y = y * 2 if model.edges.max().item() > 2 else y
    model.edges = y.detach().long()
    return y


def written_later(model, y):
    y = y * 2 if model.pairs[0, 0].item() > 0 else y
    model.pairs[0].add_(1)
    return y


def written_before(model, y):
    model.pairs.add_(1)
    return y * 2 if model.pairs[0, 0].item() > 0 else y


def written_elsewhere(model, y):
    y = y * 2 if model.part[0].item() > 0 else y
    model.whole.add_(1)
    return y


def written_attribute(model, y):
    y = along(model.edges, y)
    model.edges.add_(1)
    return y


def put_by_mask(model, y):
    """The values have a gradient, which is an index by the mask."""
    z = y * 1
    z[~torch.eye(4, dtype=torch.bool)] = y.flatten()[:12] * 2
    return z.index_put((torch.tensor(MASK),), y.flatten()[4:] * 3) * y


def written_literal(model, y):
    sizes = torch.tensor([1, 2])
    sizes[0] = y.argmax()
    return y.view(*sizes.tolist(), -1)


class Constants(exported.Exported):
    def run_step(self, function):
        """The loss and the gradients of the exported step, by the exported module itself."""
        torch.manual_seed(0)
        model = Model(function)
        x = torch.randn(4, 4)
        fsdpc.export(model, {"x": x}, self.path, quiet=True)
        self.capture()  # no shape depends on data
        program = torch.export.load(self.path)
        step = program.module(check_guards=False)
        step.load_state_dict(model.state_dict(), assign=True)
        loss = step(x=x)
        loss = loss[0] if isinstance(loss, tuple) else loss
        return loss, model(x), torch.autograd.grad(loss, step.linear.weight), torch.autograd.grad(model(x), model.linear.weight)

    def test_known(self):
        """The step has eager's loss and gradients."""
        for function in (
            lambda model, y: y.view(*torch.tensor([2, 2]).tolist(), -1) * torch.arange(2.0).view(-1, 1, 1),
            lambda model, y: y[~torch.eye(4, dtype=torch.bool)].view(4, 3).logsumexp(1),
            lambda model, y: y[torch.tensor([True, False, True, True]), :2] * 2,
            lambda model, y: y[torch.tensor([0, 3, 0]).unique()],
            lambda model, y: y[torch.repeat_interleave(torch.arange(3), torch.tensor([1, 2, 3]))].square(),
            lambda model, y: y.repeat_interleave(torch.tensor([0, 2, 1, 3]), dim=1).square(),
            lambda model, y: y[torch.tensor([1, 0, 0, 1]).nonzero(as_tuple=True)[0]] ** 2,
            lambda model, y: y.split(torch.tensor([1, 1, 2]).diff(prepend=torch.tensor([0])).abs().add(1).tolist()[:2] + [1])[0],
            lambda model, y: along(model.edges, y),
            lambda model, y: along(model.pairs, y),
            put_by_mask,
        ):  # fmt: skip
            with self.subTest(function):
                loss, eager, gradient, eager_gradient = self.run_step(function)
                self.assertTrue(torch.equal(loss, eager))
                self.assertTrue(torch.equal(gradient[0], eager_gradient[0]))

    def test_one_program(self):
        """An index by a constant mask is an index by numbers."""
        steps = []
        for function in (lambda model, y: y[torch.tensor(MASK)],
                         lambda model, y: y[torch.tensor(ROWS), torch.tensor(COLUMNS)]):  # fmt: skip
            fsdpc.export(Model(function), {"x": torch.randn(4, 4)}, self.path, quiet=True)
            text = self.capture()
            steps.append([text.count(word) for word in ("index.Tensor", "index_put", "nonzero")])
        self.assertEqual(steps[0], steps[1])

    def test_unknown(self):
        """What depends on inputs, parameters or persistent buffers, or is written by them, is refused."""
        for text, function in (
            ("data-dependent", written_before),
            ("data-dependent", written_elsewhere),
            ("attribute 'edges' of the model, which the forward replaces", replaced),
            ("attribute 'edges' of the model, which the forward replaces", replaced_after_branch),
            ("buffer 'pairs', which the forward writes", written_later),
        ):
            with self.subTest(function), self.assertRaisesRegex(fsdpc.ExportError, text):
                fsdpc.export(Model(function), {"x": torch.randn(4, 4)}, self.path, quiet=True)
        for text, function in (
            ("reads a value that is known at run time only", written_literal),
            ("the shape of its result depends on data", lambda model, y: y[y > 0]),
            ("the shape of its result depends on data", lambda model, y: along(model.saved, y)),
            ("'edges' is written by the forward, but it is a constant", written_attribute),
        ):
            with self.subTest(function):
                fsdpc.export(Model(function), {"x": torch.randn(4, 4)}, self.path, quiet=True)
                self.assertIn(text, self.refused_capture())


if __name__ == "__main__":
    unittest.main()
