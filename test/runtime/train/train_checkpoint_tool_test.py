"""fsdp-checkpoint: what it lists, compares, verifies and writes.

Usage: train_checkpoint_tool_test.py FOLDER, which holds tiny_train-RANKS-LAYOUT and fsdp-checkpoint.
"""

import json
import os
import pathlib
import unittest

import torch

from tiny_run import BINARIES, TinyRunTest, safetensors_io


class CheckpointToolTest(TinyRunTest):
    def tool(self, *arguments):
        command = [os.path.join(BINARIES, "fsdp-checkpoint"), *map(str, arguments)]
        return self.finish(self.start(command))

    def succeeds(self, *arguments):
        code, out, err = self.tool(*arguments)
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

    def test_flags(self):
        self.assertIn("plan ABI", self.succeeds("--version"))
        self.assertIn("consolidate", self.succeeds("--help"))
        self.assertNotEqual(self.tool()[0], 0)


if __name__ == "__main__":
    unittest.main()
