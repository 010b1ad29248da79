#!/usr/bin/env python3
"""Checkpoints are converted from and to torch's own format (.distcp), and consolidated ones are read by
transformers' from_pretrained, which is left out where the package is missing.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import unittest

import torch
import torch.distributed.checkpoint as dcp

import checkpoints
import fsdp2_setup
import harness
import interop
import oracle  # adds the folder of fsdpc
from checkpoints_of_fsdp2 import fsdp2, state_dict
from oracle import safetensors_io

import fsdpc

SAVED, STEPS = interop.SAVED, interop.STEPS
PACKAGE = pathlib.Path(__file__).parents[2] / "tools/python"


def convert(*arguments):
    command = [sys.executable, "-m", "fsdpc.checkpoints", *map(str, arguments)]
    return subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True)


class Convert(interop.Case):
    def converted(self, *arguments):
        done = convert(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_a_binarys_checkpoint_goes_to_torch_and_back(self):
        for layout, more, optimizer in (
            ("flat", "", harness.ADAMW),
            ("per-param", "shard-placement=largest", harness.ADAMW),
            ("flat", "", harness.Optimizer("nadam", {})),
        ):
            with self.subTest(layout=layout, optimizer=optimizer.kind):
                self.check_there_and_back(layout, more, optimizer)

    def check_there_and_back(self, layout, more, optimizer):
        workspace, run = self.case(interop.LLAMA, optimizer)
        binary, folder = self.save(workspace, "dp=3", 3, layout, more)
        there, back = workspace.folder / "distcp", workspace.folder / "back"
        self.assertIn("FileSystemReader", self.converted(folder, there, "--model-key", "model"))
        model = oracle.make_model(run)
        optimizer = fsdp2_setup.make_optimizer(run, list(model.named_parameters()))
        state = state_dict(model, optimizer, SAVED)
        state = {"optim": state.pop("optim"), "model": state}
        dcp.load(state, checkpoint_id=str(there), no_dist=True)
        expected = checkpoints.assemble(folder)
        for name, tensor in state["model"].items():
            self.assertTrue(torch.equal(tensor, expected.pop(name)), name)
        for parameter, entries in state["optim"]["state"].items():
            for key, tensor in entries.items():
                name = f"optim.state.{parameter}.{key}"
                self.assertTrue(torch.equal(tensor, expected.pop(name)), name)
        self.assertEqual(expected, {})
        # A binary goes on from what came back as from the checkpoint itself.
        self.converted(there, back)
        arguments = ("--steps", STEPS)
        mine = self.train(workspace, binary, 3, "--resume", folder, *arguments)
        theirs = self.train(workspace, binary, 3, "--resume", back, *arguments)
        self.assertEqual(mine[0], theirs[0])
        self.assertIsNone(harness.bitwise_difference(mine[1], theirs[1]))

    def test_a_binary_goes_on_from_what_fsdp2_saved(self):
        for optimizer in (harness.ADAMW, harness.Optimizer("rmsprop", {"momentum": 0.5, "centered": True})):
            with self.subTest(optimizer=optimizer.kind):
                self.check_goes_on(optimizer)

    def check_goes_on(self, optimizer):
        workspace, run = self.case(interop.LLAMA, optimizer, placement="largest")
        target, folder = workspace.folder / "run.distcp", workspace.folder / "converted"
        losses, final = fsdp2(run, 0, STEPS)
        fsdp2(run, 0, SAVED, target=target)
        out = self.converted(target, folder)
        self.assertIn("left out: optim.param_groups", out)
        binary = workspace.compile("dp=2", "none", "flat")
        rest = self.train(workspace, binary, 2, "--resume", folder, "--steps", STEPS)
        self.assertEqual(rest[0], losses[SAVED:])
        self.assertIsNone(harness.bitwise_difference(rest[1], final))

    def test_what_is_refused(self):
        workspace, _ = self.case(interop.LLAMA, harness.ADAMW)
        _, folder = self.save(workspace, "dp=2", 2)
        for words, arguments in (
            (["is not empty"], (folder, folder)),
            (["neither .metadata nor checkpoint.json"], (workspace.folder, workspace.folder / "a")),
        ):
            done = convert(*arguments)
            self.assertEqual(done.returncode, 1)
            for word in ["error: ", *words]:
                self.assertIn(word, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "needs the package transformers")
    def test_from_pretrained_reads_a_consolidated_checkpoint(self):
        import transformers

        config = transformers.LlamaConfig(
            vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=2, max_position_embeddings=32, use_cache=False)  # fmt: skip
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config)
        workspace, _ = self.case(interop.LLAMA, harness.ADAMW)
        folder, tools = workspace.folder / "pretrained", harness.TOOLS
        folder.mkdir()
        ids = torch.randint(0, 64, (8, 16))
        fsdpc.export(model, {"input_ids": ids[:2], "labels": ids[:2]}, str(folder / "model.pt2"), quiet=True)
        binary = folder / "train"
        harness.run([tools / "fsdpc", folder / "model.pt2", "--optimizer", "adamw", "--lr", "1e-2", "--mesh",
                     "dp=2", "--quiet", "-o", binary])  # fmt: skip
        safetensors_io.save(folder / "data.safetensors", {"input_ids": ids, "labels": ids})
        harness.run([binary, "--ranks", "2", "--data", folder / "data.safetensors", "--init", folder / "model.safetensors", "--steps", "3", "--save",
                     folder / "final.safetensors", "--checkpoint-dir", folder / "run", "--save-every", "3"])  # fmt: skip
        read = folder / "read"
        read.mkdir()
        harness.run([tools / "fsdp-checkpoint", "consolidate", checkpoints.latest(folder / "run"), "-o",
                     read / "model.safetensors"])  # fmt: skip
        (read / "config.json").write_text(json.dumps(config.to_dict() | {"architectures": ["LlamaForCausalLM"]}))
        loaded, found = transformers.AutoModelForCausalLM.from_pretrained(read, output_loading_info=True)
        self.assertEqual(list(found["missing_keys"]), [])
        trained = safetensors_io.load(folder / "final.safetensors")
        for name, tensor in loaded.named_parameters():
            self.assertTrue(torch.equal(tensor, trained[name]), name)
            self.assertFalse(torch.equal(tensor, dict(model.named_parameters())[name]), name)


if __name__ == "__main__":
    unittest.main()
