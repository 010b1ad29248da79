"""What training binaries print and write beside weights, and how several data files are read.

Usage: train_outputs_test.py FOLDER, which holds tiny_train-RANKS-LAYOUT.
"""

import json
import os
import re
import subprocess
import sys
import unittest

from tiny_run import LIMIT_S, TinyRunTest, launcher_free_environment, safetensors_io

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../.."))
from terminal import run_on_terminal


class TrainOutputsTest(TinyRunTest):
    def test_a_terminal_has_a_bar(self):
        """Drawn over, and gone before any other line; where there is no terminal there is none."""
        command = [self.binary(2), "--ranks", "2"] + self.flags(steps=2000)
        status, text = run_on_terminal(command, LIMIT_S, environment=launcher_free_environment())
        self.assertEqual(status, 0, text)
        lines = text.split("\r\n")
        shown = [line.split("\r\x1b[K")[-1] for line in lines]
        bars = re.findall(r"\r\x1b\[K\[(#*)(\.*)\] step +\d+/2000  loss", text)
        self.assertFalse(any("[#" in line or "[." in line for line in shown), shown)
        self.assertTrue(all(len(full) + len(rest) == 20 for full, rest in bars), bars)
        self.assertTrue(bars)
        self.assertTrue(any(line.startswith("step 2000/2000") for line in shown), shown)
        # mpirun's ranks have terminals without a size.
        status, text = run_on_terminal(command, LIMIT_S, columns=0, environment=launcher_free_environment())
        self.assertEqual((status, text.count("\x1b")), (0, 0), text)
        _, out, _ = self.run_alone(2, steps=2000)
        self.assertNotIn("\x1b", out)
        self.assertNotIn("[#", out)

    def test_memory_is_told_by_category(self):
        _, out, _ = self.run_alone(2, steps=1)
        line = next(line for line in out.splitlines() if line.startswith("memory per rank: "))
        for what in ("parameters", "optimizer state", "inputs", "activations"):
            self.assertRegex(line, what + r".* [0-9.]+ (bytes|KiB)")

    def test_samples_that_were_seen(self):
        log = self.path("log.jsonl")
        _, out, _ = self.run_alone(2, steps=5, log_file=log)
        with open(log) as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["samples"] for line in lines], [8, 16, 24, 32, 40])
        self.assertNotIn("tokens", lines[0])
        self.assertIn("seen: 40 samples\n", out)

    def test_several_files_are_one(self):
        """Samples in files of 8, 20 and 12 are those of one file of 40."""
        parts = []
        for name, begin, end in (("b", 0, 8), ("c", 8, 28), ("a", 28, 40)):
            parts.append(self.path(f"part-{len(parts)}-{name}.safetensors"))
            safetensors_io.save(parts[-1], {n: t[begin:end].contiguous() for n, t in self.data.items()})
        losses = []
        for data in ([self.path("data.safetensors")], parts, [self.path("part-*.safetensors")]):
            log = self.path("log.jsonl")
            flags = self.flags(data=None, steps=30, log_file=log, seed=3) + ["--shuffle"]
            command = [self.binary(2), "--ranks", "2"] + flags + ["--data", *data]
            out = self.succeed(self.start(command))
            self.assertIn("40 samples in " + ("3 files" if data != [self.path("data.safetensors")] else data[0]), out)
            with open(log) as file:
                losses.append([json.loads(line)["loss_hex"] for line in file])
        self.assertEqual(losses[1], losses[0])
        self.assertEqual(losses[2], losses[0])
        none = self.path("none-*.safetensors")
        self.assert_one_error(self.run_alone(2, data=none), "--data", none, "matches no file")

    def test_overfitting_reads_the_first_samples_again(self):
        log = self.path("log.jsonl")
        flags = self.flags(steps=3, lr=0, log_file=log)
        self.succeed(self.start([self.binary(2), "--ranks", "2", "--overfit"] + flags))
        with open(log) as file:
            losses = [json.loads(line)["loss_hex"] for line in file]
        self.assertEqual(losses, [losses[0]] * 3)
        self.succeed(self.start([self.binary(2), "--ranks", "2"] + flags))
        with open(log) as file:
            others = [json.loads(line)["loss_hex"] for line in file]
        self.assertEqual(others[0], losses[0])
        self.assertNotEqual(others[1], losses[0])

    def test_outliers_end_the_run(self):
        """On all ranks, with one line."""
        weights = {**self.weights, "scale": self.weights["scale"] * float("inf")}
        safetensors_io.save(self.path("bad.safetensors"), weights)
        flags = self.flags(init=self.path("bad.safetensors"), steps=5, stop_outliers=4)
        ranks = self.start_ranks(2, lambda rank: flags)
        self.assert_one_error(self.finish(ranks[0]), "step 1: the loss is", "--stop-outliers 4")
        self.assert_silent_failure(self.finish(ranks[1]))
        self.assertEqual(self.run_alone(2, steps=300, stop_outliers=50)[0], 0)
        self.assertEqual(self.run_alone(2, steps=2, stop_outliers=0)[0], 0)
        self.assert_one_error(self.run_alone(2, stop_outliers=-1), "--stop-outliers -1")
        self.assert_one_error(self.run_alone(2, skip_outliers="nan"), "--skip-outliers nan")
        self.assert_one_error(self.run_alone(2, skip_outliers=3), "compiled without clipping")
        code, out, err = self.run_alone(2, init=self.path("bad.safetensors"), steps=3)
        self.assertEqual((code, err, out.count("not finite")), (0, [], 1), out)
        self.assertIn("step 1: loss or gradients are not finite; the run goes on", out)

    def test_torchrun_takes_no_flag_for_its_own(self):
        """torchrun looks at all words before it knows which are its own, and refuses one that begins as
        several of its flags do."""
        from torch.distributed.run import get_args_parser

        text = subprocess.run([self.binary(2), "--help"], capture_output=True, text=True, check=True)
        flags = re.findall(r"^ +(?:-\w,)?(--[a-z][a-z-]*)", text.stdout, re.M)
        self.assertIn("--log-file", flags)
        for flag in flags:
            with self.subTest(flag=flag):
                words = ["--standalone", "--no-python", "./train", flag, "x"]
                arguments = get_args_parser().parse_args(words)
                self.assertEqual(arguments.training_script_args, [flag, "x"])


if __name__ == "__main__":
    unittest.main()
