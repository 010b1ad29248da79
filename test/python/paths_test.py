#!/usr/bin/env python3
"""Which path of a module is exported where it asks for values, or whether it is exported."""

import contextlib
import io
import re
import sys
import types
import unittest
import unittest.mock

import torch
import torch.nn as nn
import torch.nn.functional as F
import exported
import fsdpc  # exported says where it is


class Asking(nn.Module):
    """Takes other operators where it is exported or compiled."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.linear(x)
        if torch.compiler.is_exporting() or torch.compiler.is_compiling():
            return hidden.sigmoid().sum()
        return hidden.tanh().sum()


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        return (y.tanh() if y.sum() > 0 else y).sum()


class Asserting(Branching):
    """Checks of values, each of which torch.export cannot decide."""

    def forward(self, x):
        assert (x > 0).sum().item() <= x.numel()
        assert not (x > 1e6).any() and (x > -1e6).all(), f"between -1e6 and 1e6, not {x}"
        if (x == 0.5).any():
            raise ValueError("0.5")
        if (x > -1e6).all():
            y = self.linear(x)
        else:
            raise ValueError("too small")
        return -torch.distributions.Normal(y, y.exp()).log_prob(x).sum()


class Checking(nn.Module):
    """Looks at values in training only."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if not torch.compiler.is_compiling() and x.sum() > 1e6:
            x = x / 2
        return self.linear(x).sum()


class Reading(nn.Module):
    """Branches on the sum of a tensor that `make` computes, of x or of constants."""

    def __init__(self, make):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.make = make

    def forward(self, x):
        y = self.linear(x)
        return (y.tanh() if self.make(x).sum() > 0 else y.sigmoid()).sum()


def written(x):
    """A constant of which a view is written to."""
    zeros = torch.zeros(4)
    zeros[:2].copy_(x[0, :2])
    return zeros


#: As transformers has it (transformers.utils.import_utils).
import_utils = types.ModuleType("transformers.utils.import_utils")
import_utils.is_fake_tensor = lambda x: isinstance(x, torch._subclasses.FakeTensor)
import_utils.is_tracing = lambda x: import_utils.is_fake_tensor(x)


class Attending(nn.Module):
    """Reads positions and padding as transformers' masking_utils do, to leave the mask out."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def mask(self, x, positions, padding):
        packed = (positions.diff(dim=-1) != 1).cumsum(-1)
        if import_utils.is_tracing(packed) or not (packed[:, -1] == 0).all():
            return positions[:, None, :, None] >= positions[:, None, None, :]
        if import_utils.is_tracing(padding) or not padding.all():
            return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril() & padding[:, None, None, :]
        return None

    def forward(self, x, positions=None, padding=None):
        if positions is None:
            positions = torch.arange(x.shape[1]).unsqueeze(0)
        if padding is None:
            padding = torch.ones(x.shape[:2], dtype=torch.bool)
        mask = self.mask(x, positions, padding)
        y = self.linear(x)[:, None]
        return F.scaled_dot_product_attention(y, y, y, attn_mask=mask, is_causal=mask is None).sum()


#: The source of a model whose branch depends on a condition in the line before.
DECIDING = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.layerdrop = self.mask_prob = self.module_dropout = self.label_sum = self.expert_sum = 0.1

    def forward(self, x):
        x = self.linear(x)
        is_taken = {}
        if is_taken:
            x = x * 2
        return x.sum()
"""


class Paths(exported.Exported):
    def test_path_of_training(self):
        """A model that asks whether it is exported is exported as it trains; the patch ends."""
        is_exporting = torch.compiler.is_exporting
        fsdpc.export(Asking(), (torch.randn(2, 4),), self.path)
        step = self.capture()
        self.assertIn('aten.call "tanh.default"', step)
        self.assertNotIn("sigmoid", step)
        self.assertIs(torch.compiler.is_exporting, is_exporting)
        # Where that cannot be exported, the path of exports is taken, and said.
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            fsdpc.export(Checking(), (torch.randn(2, 4),), self.path)
        self.assertIn("the path of training cannot be exported", told.getvalue())
        self.assertIn("addmm", self.capture())

    def test_branch_on_values(self):
        """Neither path can be exported: the error of the path of training, and the model's line."""
        for model in (Branching(), Reading(lambda x: sum(x.nonzero()))):
            with self.assertRaises(fsdpc.ExportError) as raised:
                fsdpc.export(model, (torch.randn(2, 4),), self.path)
            self.assertRegex(str(raised.exception), r"data-dependent[^\n]*\n  at \S*paths_test.py:\d+\n  remedy: ")

    def test_remedies(self):
        """The advice fits the model's lines, or the operator."""
        for number, (condition, advice) in enumerate((
            ("torch.rand([]) < self.layerdrop", "set layerdrop of the model's configuration to 0"),
            ("torch.rand([]) < self.mask_prob", "set apply_spec_augment of the model's configuration"),
            ("torch.rand([]) < self.module_dropout", "set module_dropout of the adapter's configuration"),
            ("x.sum() < self.label_sum", ".*give fsdpc.export a loss="),
            ("x.sum() < self.expert_sum", ".*set_experts_implementation"),
            ("x.sum() < 1", "the shape or the path depends on values: [^;]*; or export with specialize=True[^;]*$"),
        )):  # fmt: skip
            path = self.folder / f"model{number}.py"
            path.write_text(DECIDING.format(condition))
            namespace = {}
            exec(compile(path.read_text(), path, "exec"), namespace)
            with self.assertRaisesRegex(fsdpc.ExportError, f"remedy: {advice}"):
                fsdpc.export(namespace["Model"](), (torch.randn(2, 4),), self.path)

    def test_checks_of_values(self):
        """They hold, and are no part of the step."""
        fsdpc.export(Asserting(), (torch.randn(2, 4),), self.path)
        step = self.capture()
        for operator in ("_local_scalar_dense", "any", "all"):
            self.assertNotIn(f'"{operator}.', step)

    def test_branch_on_constants(self):
        """Decided as in training; what depends on inputs, parameters or random numbers is not."""
        x = torch.randn(2, 4)
        for make, taken, left in ((lambda x: torch.arange(4), "tanh", "sigmoid"),
                                  (lambda x: -torch.arange(x.shape[1]).split(2)[1], "sigmoid", "tanh")):  # fmt: skip
            fsdpc.export(Reading(make), (x,), self.path)
            step = self.capture()
            self.assertIn(f'"{taken}.default"', step)
            self.assertNotIn(f'"{left}.default"', step)
        for make in (lambda x: x + torch.arange(4), lambda x: torch.randn(4), written):
            with self.assertRaisesRegex(fsdpc.ExportError, "data-dependent"):
                fsdpc.export(Reading(make), (x,), self.path)

    def exported_attention(self, model, batch):
        """Whether it is causal and has a mask, on the path of training."""
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            fsdpc.export(model, batch, self.path)
        self.assertNotIn("the path of training cannot be exported", told.getvalue())
        called = re.search(r'"_scaled_dot_product_flash_attention_for_cpu\.default"\(([^)]*)\)', self.capture())
        _, _, _, _, causal, mask, *_ = called.group(1).split(", ")
        return causal == "true", mask != "none"

    def check_attention(self, model, batch, positions, padding):
        """Positions and padding that the model makes itself mask nothing; of the batch's nobody knows."""
        self.assertEqual(self.exported_attention(model, batch), (True, False))
        for inputs in (positions, padding):
            self.assertEqual(self.exported_attention(model, batch | inputs), (False, True))

    def test_masks(self):
        is_fake = import_utils.is_fake_tensor
        with unittest.mock.patch.dict(sys.modules, {import_utils.__name__: import_utils}):
            self.check_attention(Attending(), {"x": torch.randn(2, 8, 4)},
                                 {"positions": torch.arange(8).expand(2, 8).contiguous()},
                                 {"padding": torch.ones(2, 8, dtype=torch.bool)})  # fmt: skip
            with fsdpc.meta_parameters():
                model = Attending()
            self.assertEqual(self.exported_attention(model, {"x": torch.randn(2, 8, 4)}), (True, False))
        self.assertIs(import_utils.is_fake_tensor, is_fake)

    def test_masks_of_transformers(self):
        try:
            from transformers import LlamaConfig, LlamaForCausalLM
        except ImportError:
            self.skipTest("transformers is not installed")
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=16, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4,
            num_key_value_heads=2))  # fmt: skip
        ids = torch.randint(0, 16, (2, 8))
        self.check_attention(model, {"input_ids": ids, "labels": ids},
                             {"position_ids": torch.arange(8).expand(2, 8).contiguous()},
                             {"attention_mask": torch.ones(2, 8, dtype=torch.long)})  # fmt: skip

    def test_refusal_without_the_program(self):
        """torch prints all that it has traced where it refuses a value."""
        told = io.StringIO()
        with contextlib.redirect_stderr(told), self.assertRaises(fsdpc.ExportError):
            fsdpc.export(Branching(), (torch.randn(2, 4),), self.path)
        self.assertNotIn("def forward", told.getvalue())

    def test_mixed_precision_in_the_second_attempt(self):
        """The first one fails inside a module that has a policy."""
        model = nn.Sequential(nn.Linear(4, 4), Checking())
        policy = torch.distributed.fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16)
        fsdpc.export(model, torch.randn(2, 4), self.path, mixed_precision={"1": policy})
        self.assertRegex(self.capture(), r"addmm.*tensor<4xbf16>, tensor<2x4xbf16>, tensor<4x4xbf16,")


if __name__ == "__main__":
    unittest.main()
