"""The timeline of a run beside the simulated step, row by row.

Usage: measured_steps_test.py TOOLS [unittest's arguments]

TOOLS is the folder of fsdpc. The demo's decoder is compiled in several ways and run on 2 ranks; fsdp-diff
compares its --trace with the prediction. Work that the simulation counts in one block of modules and the run
in another would make two rows, each with a time on one side only.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../../tools/python"), str(HERE / "../../tools/demo")]
import safetensors_io
from decoder import Decoder

TOOLS = None
LIMIT_S = 300


class MeasuredSteps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="fsdpc-measured-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        torch.manual_seed(0)
        torch.jit.script(Decoder(80, 32, 2, 4, 2, 12)).save(cls.folder / "model.pt")
        tokens = torch.randint(80, (2, 64, 12))
        safetensors_io.save(cls.folder / "data.safetensors", {"tokens": tokens[0].clone(), "targets": tokens[1].clone()})

    def run_tool(self, *command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, f"$ {' '.join(map(str, command))}\n{done.stderr}")
        return done.stdout

    def compare(self, *flags):
        """What fsdp-diff says about a run of the model, compiled with `flags`."""
        binary, trace = self.folder / "train", self.folder / "trace.json"
        self.run_tool(TOOLS / "fsdpc", self.folder / "model.pt", "--input", "tokens:i64[4,12]", "--input",
                      "targets:i64[4,12]", "--optimizer", "adamw", "--mesh", "dp=2", *flags, "--save-temps",
                      self.folder, "-o", binary)  # fmt: skip
        self.run_tool(binary, "--ranks", 2, "--data", self.folder / "data.safetensors", "--steps", 4, "--quiet",
                      "--trace", trace, "--trace-count", 2)  # fmt: skip
        return self.run_tool(TOOLS / "fsdp-diff", self.folder / "planned.mlir", "--trace", trace, "--all")

    def test_blocks(self):
        """Each block of modules has a predicted and a measured time."""
        for flags in (
            [],
            ["--fusion", "off", "--layout", "per-param", "--clip-grad-norm", "1"],
            ["--microbatches", "2", "--param-dtype", "bfloat16", "--reduce-dtype", "float32"],
            ["--schedule", "auto"],
        ):
            with self.subTest(flags=flags):
                text = self.compare(*flags)
                self.assertRegex(text, "measured: measured, 2 steps from 3 to 4, of .* to .*; medians")
                lines = text.split("computation of")[1].split("\n\n")[0].splitlines()[1:]
                rows = [re.split(r"  +", line) for line in lines]
                blocks = [(block, part) for block, part, *_ in rows]
                self.assertIn(("layers.1", "update"), blocks)
                self.assertEqual(len(set(blocks)), len(blocks), text)
                for block, part, predicted, _, measured, *_ in rows:
                    self.assertNotIn("0 s", (predicted, measured), f"{block} {part}\n{text}")


if __name__ == "__main__":
    TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
