"""Modules that are exported by fsdpc and captured."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "python"))

import fsdpc  # noqa: E402


class Model(nn.Module):
    """Its forward is a function of (model, x)."""

    def __init__(self, forward):
        super().__init__()
        self.linear, self.calls, self.state = nn.Linear(4, 4), 0, {"calls": 0, "mode": "train"}
        self.register_buffer("mean", torch.zeros(4))
        self.function = forward

    def forward(self, x):
        return self.function(self, x).sum()


class Exported(unittest.TestCase):
    """A folder for one file."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "model.pt2"

    def run_tool(self, name, status, *flags):
        tool = pathlib.Path(os.environ["FSDPC_BIN"]) / name
        process = subprocess.run([tool, self.path, *flags], capture_output=True, text=True)
        self.assertEqual(process.returncode, status, process.stderr)
        return process

    def run_capture(self, status, *flags):
        return self.run_tool("fsdp-capture", status, *flags)

    def compile(self, *flags):
        self.run_tool("fsdpc", 0, *flags)

    def capture(self, *flags):
        return self.run_capture(0, *flags).stdout

    def refused_capture(self, *flags):
        """What a refusal says."""
        return self.run_capture(1, *flags).stderr

    def export(self, model, **options):
        fsdpc.export(model, {"x": torch.randn(2, 4)}, self.path, quiet=True, **options)

    def expect_refusal(self, text, model, **options):
        with self.assertRaisesRegex(fsdpc.ExportError, text):
            self.export(model, **options)
        self.assertFalse(self.path.exists())
