"""Modules that are exported by fsdpc and captured."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "python"))


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
