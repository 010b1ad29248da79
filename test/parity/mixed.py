#!/usr/bin/env python3
"""FSDP2's MixedPrecisionPolicy: losses and parameters bit for bit, and the same bytes on the way.

Two models: one that casts its parameters to bf16 itself, and one without a cast, captured with
--param-dtype. Their steps gather bf16 and update parameters in fp32, as FSDP2's do.
"""

import dataclasses
import itertools
import unittest

import harness
from oracle import execute, models

SIZES = {"dim": 64, "layers": 3, "seq": 32, "batch": 2}
STEPS, RANKS = 10, 2
RESHARD = ["true", "false", "none"]
FLAGS = ["--param-dtype", "bfloat16"]
MLP = models.Config("mlp", dim=16, layers=3, batch=2)


class Mixed(harness.Comparison):
    turns = itertools.count()

    def train(self, workspace, run, outcome, binary):
        """Compares the binary's run with FSDP2's."""
        self.check_bits(run, outcome, *harness.train(workspace, binary, run.ranks, STEPS))

    def compare(self, config, flags, more, groups=("layers.*",), replicas=1, **policy):
        workspace = self.workspace(config, capture=flags)
        mesh = RANKS if replicas == 1 else f"replicate={replicas},shard={RANKS}"
        runs = [
            workspace.oracle_run(list(groups), RANKS * replicas, replicas=replicas, steps=STEPS,
                                 init=str(workspace.weights), mixed=True,
                                 reshard_after_forward=reshard, **policy)
            for reshard in (RESHARD if replicas == 1 else ["none"])
        ]  # fmt: skip
        layouts = ("flat", "per-param")
        for number, (run, outcome) in enumerate(zip(runs, execute(runs), strict=True), next(self.turns)):
            reshard = run.reshard_after_forward
            # Of several modes each has one layout, and the other one in the next comparison.
            for layout in layouts if len(runs) == 1 else layouts[number % 2 :][:1]:
                with self.subTest(reshard_after_forward=reshard, layout=layout):
                    binary = workspace.compile(mesh, reshard, layout, more=more)
                    self.train(workspace, run, outcome, binary)
            # The per-param layout has FSDP2's element counts.
            _, report = workspace.plan(mesh, reshard, "per-param", more=more)
            self.check_report(run, outcome[0], report)

    def test_own_casts(self):
        """What all uses of a parameter cast to is what is gathered; nothing is asked for."""
        self.compare(models.Config("llama", compute="bf16", **SIZES), (), "")

    def test_own_casts_reduced_in_bf16(self):
        config = models.Config("llama", compute="bf16", **SIZES)
        self.compare(config, (), "param-dtype=bfloat16", reduce_dtype="bfloat16")

    def test_param_dtype(self):
        """A model without casts, whose embedding and head share a parameter."""
        config = models.Config("gpt2", dim=32, layers=3, batch=2)
        more = "param-dtype=bfloat16 reduce-dtype=float32"
        self.compare(config, FLAGS, more, groups=["h.*"])

    def test_inputs(self):
        """A floating-point input is cast. Without a reduce_dtype FSDP2 reduces in param_dtype."""
        self.compare(MLP, FLAGS, "param-dtype=bfloat16", reduce_dtype=None)

    def test_frozen(self):
        """What is never updated is gathered in param_dtype, too: of all groups, and a whole group."""
        for frozen in (["*.up.*"], ["layers.1.*"]):
            config = dataclasses.replace(MLP, frozen=frozen)
            self.compare(config, FLAGS, "param-dtype=bfloat16", reduce_dtype=None)

    def test_replicas(self):
        """HSDP: the all-reduce is in reduce_dtype, too."""
        self.compare(MLP, FLAGS, "param-dtype=bfloat16", replicas=2, reduce_dtype=None)

    def test_arguments_of_f32(self):
        """FSDP2 would cast the tables of the rotary embedding, which this model hands to its blocks."""
        workspace = self.workspace(models.Config("llama", **SIZES), capture=FLAGS)
        with self.assertRaisesRegex(harness.CommandFailed, "'layers.0' takes 'f32' from outside"):
            workspace.plan(RANKS, more="param-dtype=bfloat16")

    def test_gathers_of_f32(self):
        """param-dtype float32 leaves a model's casts behind the gather: the bits are the same."""
        workspace = self.workspace(models.Config("llama", compute="bf16", **SIZES))
        run = workspace.oracle_run(
            ["layers.*"], RANKS, steps=STEPS, init=str(workspace.weights), mixed=True
        )
        [outcome] = execute([run])
        for more in ("param-dtype=float32 reduce-dtype=float32", "schedule=auto"):
            with self.subTest(options=more):
                self.train(workspace, run, outcome, workspace.compile(RANKS, more=more))


if __name__ == "__main__":
    unittest.main()
