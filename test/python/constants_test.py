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

    def forward(self, x):
        return self.function(self, self.linear(x)).sum()


def without_loops(model, y):
    edges = model.edges[:, model.edges[0] != model.edges[1]]
    return y[edges[0]] * y[edges[1]]


def put_by_mask(model, y):
    y = y * 1
    y[~torch.eye(4, dtype=torch.bool)] = torch.arange(12.0)
    return y


def put_by_index(model, y):
    return y.index_put((torch.tensor(ROWS), torch.tensor(COLUMNS)), torch.arange(12.0))


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
            without_loops,
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
        """What depends on inputs or parameters, or is written by them, is refused as before."""
        for function in (lambda model, y: y[y > 0], written_literal):
            with self.subTest(function), self.assertRaises((fsdpc.ExportError, AssertionError)):
                fsdpc.export(Model(function), {"x": torch.randn(4, 4)}, self.path, quiet=True)
                self.capture()


if __name__ == "__main__":
    unittest.main()
