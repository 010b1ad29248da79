#!/usr/bin/env python3
"""tools/python/fsdpc: buffers that a model holds under several names."""

import unittest

import torch
import torch.nn as nn
from safetensors.torch import load_file

import exported
import fsdpc  # exported says where it is


class Holder(nn.Module):
    def __init__(self, table, persistent):
        super().__init__()
        self.register_buffer("table", table, persistent=persistent)


class Model(nn.Module):
    """`a` and `b` hold one buffer, to which the forward writes."""

    def __init__(self, *persistent):
        super().__init__()
        table = torch.arange(4.0)
        self.a, self.b = (Holder(table, each) for each in persistent)
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        self.a.table.add_(1)
        return (self.linear(x) * self.b.table).sum()


class Buffers(exported.Exported):
    def test_names(self):
        """A buffer has the names of the state_dict, and the file of weights has the first of them."""
        for persistent, declaration, written in (
            ((True, True), 'fsdp.buffer @a.table : tensor<4xf32> aliases ["b.table"] loc', "a.table"),
            ((True, False), "fsdp.buffer @a.table : tensor<4xf32> loc", "a.table"),
            ((False, True), "fsdp.buffer @b.table : tensor<4xf32> loc", "b.table"),
            ((False, False), "fsdp.buffer @a.table : tensor<4xf32> init ", "a.table"),
        ):
            with self.subTest(persistent=persistent):
                model = Model(*persistent)
                fsdpc.export(model, {"x": torch.randn(2, 4)}, self.path, quiet=True)
                captured = self.run_capture(0)
                self.assertEqual(captured.stderr, "")
                self.assertEqual(captured.stdout.count("fsdp.buffer"), 1)
                self.assertIn(declaration, captured.stdout)
                self.assertIn(f"fsdp.write @{written},", captured.stdout)
                expected = {name for name in model.state_dict() if name.startswith("linear") or name == written}
                self.assertEqual(set(load_file(self.path.with_suffix(".safetensors"))), expected)


if __name__ == "__main__":
    unittest.main()
