"""fsdp-checkpoint: what it lists, compares, verifies and writes.

Usage: train_checkpoint_tool_test.py FOLDER, which holds tiny_train-RANKS-LAYOUT and fsdp-checkpoint.
"""

import json
import os
import pathlib
import shutil
import sys
import unittest

import torch
import torch.distributed.checkpoint as dcp

from tiny_run import BINARIES, LIBRARIES, TinyRunTest, safetensors_io


class CheckpointToolTest(TinyRunTest):
    def tool(self, *arguments, **environment):
        command = [os.path.join(BINARIES, "fsdp-checkpoint"), *map(str, arguments)]
        return self.finish(self.start(command, **environment))

    def succeeds(self, *arguments, **environment):
        code, out, err = self.tool(*arguments, **environment)
        self.assertEqual((code, err), (0, []), out)
        return out

    def train(self, name, ranks=2, layout="Flat", **flags):
        folder = pathlib.Path(self.path(name))
        code, _, err = self.run_alone(
            ranks, layout, checkpoint_dir=folder, save_every=2, steps=4,
            save=self.path(f"{name}.safetensors"), **flags,
        )  # fmt: skip
        self.assertEqual((code, err), (0, []))
        return folder

    def test_ls(self):
        run = self.train("run")
        (run / "step-000000003").mkdir()
        lines = self.succeeds("ls", run).splitlines()
        self.assertRegex(lines[0], r"step-000000002: step 2 of 4, 2 ranks, \d+ bytes")
        self.assertTrue(lines[1].endswith("step-000000003: not complete"))
        self.assertEqual(len(lines), 3)
        lines = self.succeeds("ls", run / "step-000000004").splitlines()
        self.assertRegex(lines[0], r"^tiny, step 4 of 4, adamw on 2 ranks, 2 files, \d+ bytes$")
        for name in ("l.w", "optim.state.l.w.exp_avg"):
            self.assertIn(f"  {name}  F32[5,3]", lines)
        for name in ("tied.scale", "scale"):
            self.assertIn(f"  {name}  F32[3]", lines)
        self.assert_one_error(self.tool("ls", self.path("none")), "none")

    def test_verify(self):
        run = self.train("run")
        self.assertEqual(len(self.succeeds("verify", run).splitlines()), 2)
        file = next((run / "step-000000002").glob("shard-00002*"))
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        self.assert_one_error(self.tool("verify", run), str(file), "CRC-32C")
        self.assert_one_error(self.tool("verify", run / "step-000000002"), str(file))
        self.succeeds("verify", run / "step-000000004")

    def test_diff(self):
        first, same, other = self.train("a"), self.train("b", layout="PerParam"), self.train("c", lr=0)
        last = "step-000000004"
        self.assertIn(" 0 differ", self.succeeds("diff", first / last, same / last))
        code, out, err = self.tool("diff", first / last, other / last)
        self.assertEqual((code, err), (1, []))
        self.assertRegex(out, r"l\.w: 15 of 15 elements differ, the first is 0\n")
        self.assertNotIn("count:", out)
        # Another number of ranks: buffers of ranks that one does not have.
        code, out, _ = self.tool("diff", self.train("d", ranks=1) / last, first / last)
        self.assertEqual(code, 1)
        self.assertIn(f"fsdpc.rank1.count: only in {first / last}", out)

    def test_consolidate(self):
        run, out = self.train("run") / "step-000000004", self.path("out.safetensors")
        self.succeeds("consolidate", run, "-o", out)
        expected = safetensors_io.load(self.path("run.safetensors"))
        found = safetensors_io.load(out)
        self.assertEqual(sorted(found), sorted(expected))
        for name, tensor in expected.items():
            self.assertTrue(torch.equal(found[name], tensor), name)
        # What it writes can be started from.
        self.assertEqual(self.run_alone(2, steps=1, init=out)[0], 0)
        names = pathlib.Path(self.path("names.json"))
        names.write_text(json.dumps({"l.w": "decoder.weight"}))
        self.succeeds("consolidate", run, "-o", out, "--names", names)
        found = safetensors_io.load(out)
        self.assertTrue(torch.equal(found["decoder.weight"], expected["l.w"]))
        self.assertNotIn("l.w", found)
        for text, words in (('{"l.x": "a"}', "'l.x'"), ('{"l.w": "l.b"}', "'l.b'"),
                            ('{"l.w": 3}', "'l.w'"), ("[", "JSON object")):  # fmt: skip
            names.write_text(text)
            os.remove(out)
            self.assert_one_error(
                self.tool("consolidate", run, "-o", out, "--names", names), "--names", words
            )
            self.assertFalse(os.path.exists(out))
            pathlib.Path(out).touch()
        own = next(run.glob("shard-00001*"))
        before = own.read_bytes()
        self.assert_one_error(self.tool("consolidate", run, "-o", own), "--output", str(own), "would destroy it")
        self.assertEqual(own.read_bytes(), before)
        next(run.glob("shard-00002*")).unlink()
        self.assert_one_error(self.tool("consolidate", run, "-o", out), "shard-00002")
        self.assert_one_error(self.tool("consolidate", run, "-o", "x.bin"), "x.bin", ".safetensors")

    def test_convert(self):
        """To torch's own format and back; each Python is named in one of the two ways."""
        run, theirs, back = self.train("run") / "step-000000004", self.path("theirs"), self.path("back")
        out = self.succeeds("convert", run, theirs, "--model-key", "model", "--python", sys.executable)
        self.assertIn("for torch.distributed.checkpoint.FileSystemReader", out)
        names = dcp.FileSystemReader(theirs).read_metadata().state_dict_metadata
        self.assertIn("model.l.w", names)
        self.assertIn("optim.state.l.w.exp_avg", names)
        self.succeeds("convert", run, self.path("plain"), FSDP_PYTHON=sys.executable)
        out = self.succeeds("convert", self.path("plain"), back, FSDP_PYTHON=sys.executable)
        self.assertIn("for --resume", out)
        wholes = [self.path("a.safetensors"), self.path("b.safetensors")]
        for folder, whole in zip((run, back), wholes):
            self.succeeds("consolidate", folder, "-o", whole)
        ours, found = map(safetensors_io.load, wholes)
        self.assertEqual(list(ours), list(found))
        for name, tensor in ours.items():
            self.assertTrue(torch.equal(found[name], tensor), name)
        self.assert_one_error(self.tool("convert", run, run, "--python", sys.executable), "is not empty")
        self.assert_wrong_usage(self.tool("convert", run), "FOLDER is required")

    def test_convert_without_python(self):
        """A Python that is missing, has no torch, no package, or a torch that cannot be imported."""
        convert = lambda **environment: self.tool("convert", self.path("a"), self.path("b"), **environment)
        self.assert_one_error(convert(FSDP_PYTHON="/none/python"), "'/none/python': No such file", "--python or FSDP_PYTHON")
        bare, modules = pathlib.Path(self.path("bare")), pathlib.Path(self.path("modules"))
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        bare.chmod(0o755)
        found = {"FSDP_PYTHON": str(bare), "PYTHONPATH": str(modules), "PYTHONDONTWRITEBYTECODE": "1"}
        needs = "--python or FSDP_PYTHON names a Python that has torch and fsdpc"
        self.assert_one_error(convert(**found), "has no package 'torch'", needs)
        modules.mkdir()
        (modules / "torch.py").write_text("")
        code, _, err = convert(**found)
        self.assertEqual((code, len(err)), (1, 1), err)
        self.assertIn("cannot import fsdpc.checkpoints: ", err[0])
        # A tool that is not in the build folder finds an installed package alone.
        alone = shutil.copy(os.path.join(BINARIES, "fsdp-checkpoint"), self.folder)
        found["LD_LIBRARY_PATH"] = LIBRARIES
        done = self.finish(self.start([alone, "convert", self.path("a"), self.path("b")], **found))
        self.assert_one_error(done, "has no package 'fsdpc'", needs)

    def test_flags(self):
        self.assertIn("plan ABI", self.succeeds("--version"))
        self.assertIn("consolidate", self.succeeds("--help"))
        self.assert_wrong_usage(self.tool(), "A subcommand is required")

    def assert_wrong_usage(self, result, message):
        """The command line lacks a word: the status of CLI11's RequiredError, and two lines."""
        code, out, err = result
        self.assertEqual((code, out), (106, ""), err)
        self.assertEqual(err, [message, "Run with --help for more information."])


if __name__ == "__main__":
    unittest.main()
