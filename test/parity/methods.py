#!/usr/bin/env python3
"""Methods that are forwards, beside FSDP2's register_fsdp_forward_method: of the model, which takes
the batch, and of a module with a group of its own: losses, parameters, events and collectives are the
same."""

import dataclasses
import json
import sys
import unittest

import torch

import accumulation
import fsdp2_setup
import harness
from oracle import ROOT, models

sys.path.insert(0, str(ROOT / "tools" / "python"))
import fsdpc  # noqa: E402

CODEC = models.Config("codec", dim=16, layers=2, batch=2)
METHODS = {"codec": models.Codec.forward_methods}
GROUPS = ["codec", "layers.*"]
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}


class Methods(accumulation.Case):
    def export(self, workspace, method="training_step", **options):
        path, config = workspace.folder / "model.pt2", workspace.config
        model, batch = models.build(config), models.example_inputs(config, batch=config.batch)
        fsdpc.export(model, batch, path, method=method, forward_methods=METHODS,
                     quiet=True, **options)  # fmt: skip
        return path

    def make(self, config=CODEC):
        workspace = harness.Workspace(config, harness.ADAMW, samples=40)
        self.addCleanup(workspace.remove)
        self.config = workspace.folder / "config.yaml"
        self.config.write_text(json.dumps({"groups": [{"modules": [name]} for name in GROUPS]}))
        return workspace

    def compare(self, expectation=None, method="training_step", config=CODEC, **options):
        workspace = self.make(config)
        path = self.export(workspace, method=method, weights=workspace.weights, **options)
        harness.run([harness.TOOLS / "fsdp-capture", path, *workspace.optimizer.flags(),
                     "-o", workspace.captured])  # fmt: skip
        run, (record, final) = self.expect(workspace, groups=GROUPS, **(expectation or {}))
        saved = {name: final[name] for name in models.build(config).state_dict()}
        self.check(workspace, run, (record, saved), 2, config=self.config,
                   communicators=["local", "shm"])  # fmt: skip

    def test_forwards(self):
        self.compare()
        self.compare({"reshard_after_forward": "true"})

    def test_transient_buffers(self):
        """They begin as the module has them; the file of weights and the result have none."""
        self.compare(config=dataclasses.replace(CODEC, model="counting"))

    def test_several_methods(self):
        """A function calls the model's methods, as a training loop does."""

        def step(model, x, targets):
            return torch.nn.functional.cross_entropy(
                model.head(model.codec.decode(model.embed(x))), targets
            )

        self.compare(method=step)

    def test_mixed_precision(self):
        """Arguments of such methods are cast as those of forward."""
        policies = {name: BF16 for name in [*GROUPS, ""]}
        own = {name: fsdp2_setup.policy_of(policy) for name, policy in policies.items()}
        self.compare({"policies": policies}, mixed_precision=own)

    def test_undeclared(self):
        """Without forward_methods the parameters of a method are used outside of their group."""
        workspace = self.make()
        model, batch = models.build(CODEC), models.example_inputs(CODEC, batch=CODEC.batch)
        path = workspace.folder / "model.pt2"
        fsdpc.export(model, batch, path, method="training_step", quiet=True)
        with self.assertRaisesRegex(harness.CommandFailed, "@codec.weight is used while its group"):
            harness.run([harness.TOOLS / "fsdpc", path, "--mesh", "dp=2", "--config", self.config,
                         "-o", workspace.folder / "train"])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
