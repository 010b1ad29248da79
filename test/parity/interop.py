#!/usr/bin/env python3
"""Checkpoints of training binaries and of the real FSDP2 are each other's.

torch.distributed.checkpoint reads a binary's checkpoint without conversion, whole or into FSDP2's
shards, and FSDP2 goes on from it with the binary's bits; a binary goes on from what FSDP2 wrote by
HuggingFaceStorageWriter. Needs the package safetensors, as torch's reader and writer do: without it
the test is skipped.
"""

import dataclasses
import sys
import unittest

import torch

import checkpoints
import fsdp2_setup
import harness
import oracle
from checkpoints_of_fsdp2 import fsdp2, load
from oracle import models, safetensors_io

SKIPPED = 77
SAVED, STEPS = 3, 6
LLAMA = models.Config("llama", dim=24, heads=2, ffn=40, layers=2, vocab=50, seq=16, batch=2)
CONVNET = models.Config("convnet", dim=8, layers=2, batch=2)
#: Optimizers with all their states.
OTHERS = {
    "rmsprop": {"momentum": 0.5, "centered": True}, "adagrad": {"initial_accumulator_value": 0.1}, "adamax": {},
    "nadam": {"momentum_decay": 0.1}, "radam": {"betas": (0.9, 0.9)}, "adadelta": {},
}  # fmt: skip
SHARED = models.Config("sharednorm", dim=8, layers=3, batch=2)
GROUPS = {"llama": ["layers.*"], "convnet": ["blocks.*"], "sharednorm": ["stem"]}


class Case(unittest.TestCase):
    def case(self, config, optimizer, ranks=2, replicas=1, placement=None, flags=()):
        workspace = harness.Workspace(config, optimizer)
        self.addCleanup(workspace.remove)
        workspace.capture(flags=flags)
        run = workspace.oracle_run(
            GROUPS[config.model], ranks, replicas=replicas, init=str(workspace.weights),
            placement=placement,
        )  # fmt: skip
        return workspace, run

    def train(self, workspace, binary, ranks, *arguments):
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        log.unlink(missing_ok=True)
        arguments = ["--ranks", ranks, "--data", workspace.data, "--log", log, "--save", save, *arguments]
        self.output = harness.run([binary, *arguments]).stdout
        losses = [
            [float.fromhex(text).hex() for text in line["loss_hex"]]
            for line in harness.read_log(log)
        ]
        return losses, safetensors_io.load(save)

    def save(self, workspace, mesh, ranks, layout="flat", more=""):
        """A binary, and its checkpoint of step SAVED."""
        binary = workspace.compile(mesh, "none", layout, more=more)
        folder = workspace.folder / f"of-{binary.name}"
        self.train(workspace, binary, ranks, "--init", workspace.weights, "--steps", SAVED,
                   "--checkpoint-dir", folder, "--save-every", SAVED)  # fmt: skip
        return binary, checkpoints.latest(folder)


class Interop(Case):
    def test_torch_reads_every_tensor(self):
        """In one process, without a mesh, under the names of its own state dicts."""
        columns = "shard-placement=largest"
        for config, mesh, ranks, layout, more in (
            (LLAMA, "dp=3", 3, "flat", ""), (CONVNET, "dp=3", 3, "flat", ""),
            (CONVNET, "dp=3", 3, "per-param", columns), (LLAMA, "replicate=2,shard=2", 4, "per-param", ""),
            (SHARED, "dp=2", 2, "flat", ""),
        ):  # fmt: skip
            with self.subTest(config.model, mesh=mesh, more=more):
                workspace, run = self.case(config, harness.ADAMW)
                _, folder = self.save(workspace, mesh, ranks, layout, more)
                self.check_read(run, folder)

    def test_torch_reads_state_of_another_dtype(self):
        """It is cast to the parameter's."""
        for layout in ("flat", "per-param"):
            flags = ["--optimizer-state-dtype", "exp_avg=bfloat16"]
            workspace, run = self.case(CONVNET, harness.ADAMW, flags=flags)
            _, folder = self.save(workspace, "dp=3", 3, layout)
            dtypes = {name: tensor.dtype for name, tensor in checkpoints.assemble(folder).items()}
            for name, dtype in dtypes.items():
                if name.startswith("optim."):
                    self.assertEqual(dtype, torch.bfloat16 if name.endswith("exp_avg") else torch.float32)
            self.check_read(run, folder)

    def check_read(self, run, folder):
        model = oracle.make_model(run)
        optimizer = fsdp2_setup.make_optimizer(run, list(model.named_parameters()))
        expected = checkpoints.assemble(folder)
        load(model, optimizer, folder, SAVED)
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, expected.pop(name)), name)
        names = {id(p): name for name, p in model.named_parameters()}
        for parameter, state in optimizer.state.items():
            for key, tensor in state.items():
                name = f"optim.state.{names[id(parameter)]}.{key}"
                self.assertTrue(torch.equal(tensor, expected.pop(name).to(tensor.dtype)), name)
            self.assertEqual(state["step"], SAVED)
        self.assertEqual([n for n in expected if not n.startswith("fsdpc.rank")], [])

    def test_fsdp2_goes_on_from_a_binarys_checkpoint(self):
        for optimizer, layout, more, placement in (
            (harness.ADAMW, "flat", "", None),
            (harness.ADAMW, "per-param", "", None),
            (harness.ADAMW, "per-param", "shard-placement=largest", None),
            (harness.ADAMW, "per-param", "shard-placement=largest", "largest"),
            (harness.SGD, "flat", "", "largest"),
        ):
            with self.subTest(optimizer=optimizer.kind, layout=layout, more=more, placement=placement):
                workspace, run = self.case(LLAMA, optimizer, placement=placement)
                binary, folder = self.save(workspace, "dp=2", 2, layout, more)
                expected = self.train(
                    workspace, binary, 2, "--resume", folder, "--steps", STEPS
                )
                losses, final = fsdp2(run, SAVED, STEPS, source=folder)
                self.assertEqual(losses, expected[0])
                self.assertIsNone(harness.bitwise_difference(expected[1], final))

    def test_other_optimizers(self):
        """Their checkpoints in both directions."""
        for kind, options in OTHERS.items():
            optimizer = harness.Optimizer(kind, options)
            with self.subTest(optimizer=kind):
                workspace, run = self.case(LLAMA, optimizer)
                binary, folder = self.save(workspace, "dp=2", 2)
                self.check_read(run, folder)
                expected = self.train(workspace, binary, 2, "--resume", folder, "--steps", STEPS)
                losses, final = fsdp2(run, SAVED, STEPS, source=folder)
                self.assertEqual(losses, expected[0])
                self.assertIsNone(harness.bitwise_difference(expected[1], final))
                folder = workspace.folder / "dcp"
                fsdp2(run, 0, SAVED, target=folder)
                resumed = self.train(workspace, binary, 2, "--resume", folder, "--steps", STEPS)
                self.assertEqual(resumed[0], losses)
                self.assertIsNone(harness.bitwise_difference(final, resumed[1]))

    def test_a_binary_goes_on_from_fsdp2s_checkpoint(self):
        for config, optimizer, ranks, replicas, placement in (
            (LLAMA, harness.ADAMW, 2, 1, "largest"),
            (LLAMA, harness.SGD, 2, 1, None),
            (LLAMA, harness.ADAMW, 4, 2, None),
        ):
            workspace, run = self.case(config, optimizer, ranks, replicas, placement)
            folder = workspace.folder / "dcp"
            fsdp2(run, 0, SAVED, target=folder)
            losses, final = fsdp2(run, SAVED, STEPS, source=folder)
            mesh = f"dp={ranks}" if replicas == 1 else "replicate=2,shard=2"
            for layout, more in (("flat", ""), ("per-param", ""), ("per-param", "shard-placement=largest")):
                with self.subTest(optimizer=optimizer.kind, mesh=mesh, layout=layout, more=more):
                    binary = workspace.compile(mesh, "none", layout, more=more)
                    resumed = self.train(
                        workspace, binary, ranks, "--resume", folder, "--steps", STEPS
                    )
                    self.assertEqual(resumed[0], losses)
                    self.assertIsNone(harness.bitwise_difference(final, resumed[1]))

    def test_state_of_frozen_parameters(self):
        """torch's adagrad keeps state of them, too: it is left out."""
        config = dataclasses.replace(LLAMA, frozen=["layers.*.attn.*"])
        optimizer = harness.Optimizer("adagrad", OTHERS["adagrad"])
        workspace, run = self.case(config, optimizer)
        folder = workspace.folder / "dcp"
        fsdp2(run, 0, SAVED, target=folder)
        losses, final = fsdp2(run, SAVED, STEPS, source=folder)
        binary = workspace.compile("dp=2")
        resumed = self.train(workspace, binary, 2, "--resume", folder, "--steps", STEPS)
        self.assertIn("optimizer state of 8 parameters is left out", self.output)
        self.assertEqual(resumed[0], losses)
        self.assertIsNone(harness.bitwise_difference(final, resumed[1]))


if __name__ == "__main__":
    try:
        import safetensors  # noqa: F401
    except ImportError:
        print("skipped: torch's reader needs the package safetensors")
        sys.exit(SKIPPED)
    unittest.main()
