"""The timeline of a run beside the simulated step, row by row.

Usage: measured_steps_test.py TOOLS [unittest's arguments]

TOOLS is the folder of fsdpc. The demo's decoder is compiled in several ways and run on 2 ranks; fsdp-diff
compares its --trace with the prediction. Work that the simulation counts in one block of modules and the run
in another would make two rows, each with a time on one side only.
"""

import json
import math
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
        return done

    def trace(self, *flags):
        """The step of the model, compiled with `flags`, and the trace of a run."""
        binary, trace = self.folder / "train", self.folder / "trace.json"
        self.run_tool(TOOLS / "fsdpc", self.folder / "model.pt", "--input", "tokens:i64[4,12]", "--input",
                      "targets:i64[4,12]", "--optimizer", "adamw", "--mesh", "dp=2", *flags, "--save-temps",
                      self.folder, "-o", binary)  # fmt: skip
        self.run_tool(binary, "--ranks", 2, "--data", self.folder / "data.safetensors", "--steps", 4, "--quiet",
                      "--trace", trace, "--trace-count", 2)  # fmt: skip
        return self.folder / "planned.mlir", trace

    def compare(self, *flags):
        """What fsdp-diff says about a run of the model, compiled with `flags`."""
        step, trace = self.trace(*flags)
        return self.run_tool(TOOLS / "fsdp-diff", step, "--trace", trace, "--all").stdout

    def refit(self, step, trace, profile, network, name):
        """The refitted profile and network, and the table of errors."""
        files = [self.folder / f"{name}-{what}.json" for what in ("profile", "network")]
        done = self.run_tool(TOOLS / "fsdp-profile", step, "--refit", trace, "--profile", profile, "--network",
                             network, "-o", files[0], "--output-network", files[1])  # fmt: skip
        return *files, done.stderr

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

    def test_refit(self):
        """Costs that are wrong by a factor are refitted to those to which right ones are: what has run decides."""
        step, trace = self.trace()
        profile, network = self.folder / "profile.json", "shared-memory"
        self.run_tool(TOOLS / "fsdp-profile", step, "--samples", 2, "-o", profile)
        wrong = self.folder / "wrong.json"
        wrong.write_text(json.dumps(scale(json.loads(profile.read_text()), 1.5)))
        right_profile, right_network, errors = self.refit(step, trace, profile, network, "right")
        self.assertRegex(errors, r"(?s)measured +before +error +after +error.*step .*computation .*waits ")
        refitted = json.loads(right_profile.read_text())
        self.assertRegex(refitted["source"], "; refitted: measured, 2 steps from 3 to 4$")
        from_wrong, _, _ = self.refit(step, trace, wrong, network, "wrong")
        before, after = json.loads(wrong.read_text()), json.loads(from_wrong.read_text())
        for kind in ("calls", "kernels"):
            changed = 0
            for old, new, right in zip(before[kind], after[kind], refitted[kind]):
                if new["samples"] == right["samples"] and new["medianNs"] != old["medianNs"]:
                    self.assertTrue(math.isclose(new["medianNs"], right["medianNs"], rel_tol=1e-6), (new, right))
                    changed += 1
            self.assertGreater(changed, len(before[kind]) / 2)
        # A second refit changes nothing.
        again_profile, again_network, errors = self.refit(step, trace, right_profile, right_network, "again")
        for first, second in ((right_profile, again_profile), (right_network, again_network)):
            self.assert_close(json.loads(first.read_text()), json.loads(second.read_text()))
        for row in errors.splitlines()[1:4]:
            _, _, old, old_error, new, new_error = re.split(r"  +", row)
            self.assertEqual((old, old_error), (new, new_error), errors)

    def assert_close(self, left, right):
        if isinstance(left, dict):
            self.assertEqual(left.keys(), right.keys())
            left, right = list(left.values()), list(right.values())
        if isinstance(left, list):
            self.assertEqual(len(left), len(right))
            for pair in zip(left, right):
                self.assert_close(*pair)
        elif isinstance(left, float):
            self.assertTrue(math.isclose(left, right, rel_tol=1e-6), (left, right))
        else:
            self.assertEqual(left, right)


def scale(value, factor):
    """A profile with all durations multiplied."""
    if isinstance(value, list):
        return [scale(item, factor) for item in value]
    if isinstance(value, dict):
        return {k: v * factor if k == "medianNs" else scale(v, factor) for k, v in value.items()}
    return value


if __name__ == "__main__":
    TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
