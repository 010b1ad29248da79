#!/usr/bin/env python3
"""Stages whose microbatches are interleaved in 1F1B order, beside FSDP2: bits, events and collectives."""

import dataclasses
import json
import unittest

import harness
from oracle import models

GROUPS = ("stages.*.blocks.*", "stages.*")
CONFIG = "groups: [{modules: ['stages.*.blocks.*']}, {modules: ['stages.*']}]\n"


def config_of(stages):
    return models.Config("staged", dim=16, layers=stages, batch=2)


class Interleaved(harness.Comparison):
    def compare(self, workspace, microbatches, reshard="none", sync="each", reshard_after_backward=True,
                ranks=2, layouts=("flat", "per-param"), **options):  # fmt: skip
        stages = [f"stages.{i}" for i in range(workspace.config.layers)]
        run, expected = self.expect(
            workspace,
            ranks=ranks,
            groups=GROUPS,
            steps=3,
            stages=stages,
            reshard_after_forward=reshard,
            microbatches=microbatches,
            gradient_sync=sync,
            reshard_after_backward=reshard_after_backward,
            **options,
        )
        text = workspace.folder / "config.yaml"
        text.write_text(
            CONFIG + f"accumulation: {{order: 1f1b, stages: ['stages.*'], microbatches: {microbatches}, "
            f"gradient_sync: {sync}, reshard_after_backward: {json.dumps(reshard_after_backward)}}}\n"
        )
        replicas = options.get("replicas", 1)
        mesh = ranks if replicas == 1 else f"replicate={replicas},shard={ranks // replicas}"
        more = f"microbatches={microbatches}"  # names the files
        self.check(workspace, run, expected, mesh, layouts, more=more, communicators=("local",),
                   config=text)  # fmt: skip

    def check_report(self, run, record, report, dropped=()):
        """With gradient_sync: reduce_scatter an all-reduce needs the sum of the shards, and starts behind the
        gather that FSDP2 issues after it."""
        are_mixed = run.gradient_sync == "reduce_scatter"
        super().check_report(run, record, report, dropped, are_reductions_mixed=are_mixed)

    def test_two_stages(self):
        workspace = self.workspace(config_of(2))
        for reshard in ("true", "false", "none"):
            self.compare(workspace, 3, reshard, "each")
            self.compare(workspace, 4, reshard, "last")
        self.compare(workspace, 3, "true", "each", reshard_after_backward=False)
        self.compare(workspace, 4, "false", "last", reshard_after_backward=False)

    def test_three_stages(self):
        workspace = self.workspace(config_of(3))
        for reshard in ("true", "none"):
            self.compare(workspace, 4, reshard, "each")
            self.compare(workspace, 3, reshard, "last")
        self.compare(workspace, 3, "true", "last", reshard_after_backward=False)

    def test_more_stages_than_microbatches(self):
        self.compare(self.workspace(config_of(4)), 2, "true", layouts=("per-param",))

    def test_chunks(self):
        """A forward before the backward of the last one gathers from its chunk."""
        self.compare(self.workspace(config_of(2)), 3, "2", "last", ranks=4, det_rs=True)

    def test_replicas(self):
        workspace = self.workspace(config_of(2))
        for sync in ("last", "reduce_scatter"):
            self.compare(workspace, 3, "none", sync, ranks=4, replicas=2)

    def test_blocks_of_a_list(self):
        """Stages that begin with a module each: the bits are those of the sequential order."""
        workspace = self.workspace(models.Config("llama", dim=32, layers=2, batch=2))
        text = workspace.folder / "config.yaml"
        text.write_text("groups: [{modules: [tok]}, {modules: ['layers.*']}, {together: [norm, head]}]\n")
        outcomes = []
        for more in ("", " microbatch-order=1f1b stages=tok,layers.1 recompute=full"):
            binary = workspace.compile(2, config=text, more="microbatches=3 gradient-sync=last" + more)
            outcomes.append(harness.train(workspace, binary, 2, 3))
        (steps, weights), (others, saved) = outcomes
        self.assertEqual([line["loss_hex"] for line in steps], [line["loss_hex"] for line in others])
        self.assertIsNone(harness.bitwise_difference(weights, saved))


if __name__ == "__main__":
    unittest.main()
