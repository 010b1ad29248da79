#!/usr/bin/env python3
"""reshard_after_forward with a number of ranks beside FSDP2's: events, collectives and bits.

The backward gathers over that many neighbours what they have kept since the forward. Which groups
do so, and in which layout, changes no bit; gloo adds in an order of its own at 4 ranks on one axis.
"""

import dataclasses
import json
import unittest

import harness
import oracle
from events import MODELS, lines
from oracle import models

RANKS, STEPS = 4, 5
LLAMA = models.Config("llama", dim=64, layers=3, seq=32, batch=2)
#: Rows that 4 ranks do not divide: FSDP2 keeps their padding in the chunks.
UNEVEN = models.Config("mlp", dim=18, layers=3, batch=2)
#: Of losses after 5 steps whose gradients gloo adds up in an order of its own.
GLOO_TOLERANCE = 1e-5
MLP = models.Config("mlp", dim=16, layers=3, batch=2)


class Reshard(unittest.TestCase):
    maxDiff = None

    def prepare(self, config, flags=()):
        workspace = harness.Workspace(config, samples=104)
        self.addCleanup(workspace.remove)
        workspace.capture(flags=flags)
        return workspace

    def config_file(self, workspace, text):
        if not text:
            return None
        path = workspace.folder / "reshard.yaml"
        path.write_text(text)
        return path

    def compare_report(self, workspace, record, mesh, reshard, config=None, more=""):
        _, report = workspace.plan(mesh, reshard, "per-param", config, more)
        report = json.loads(report.read_text())
        self.assertEqual(lines(record["events"]), lines(report["events"]))
        self.assertEqual(lines(record["collectives"]), lines(report["collectives"]))

    def train(self, workspace, run, outcome, binary, communicator="local"):
        expected, final = outcome
        log, saved = harness.train(workspace, binary, run.ranks, STEPS, communicator)
        is_exact = communicator != "gloo" or run.ranks // run.replicas <= 2
        for step, line in enumerate(log):
            losses = [float.fromhex(text) for text in line["loss_hex"]]
            wanted = [float.fromhex(rank[step]) for rank in expected["losses"]]
            if is_exact or step == 0:
                self.assertEqual(losses, wanted)
            for loss, other in zip(losses, wanted, strict=True):
                self.assertAlmostEqual(loss, other, delta=GLOO_TOLERANCE)
        if run.config.model == "gpt2":
            del saved["head.weight"]  # the embedding's other name
        if is_exact:
            self.assertIsNone(harness.bitwise_difference(final, saved))

    def compare(self, config, reshard="2", replicas=1, text="", flags=(), more="",
                layouts=("flat", "per-param"), communicators=("local", "shm"), ranks=RANKS,
                reshard_of=None, groups=None, **policy):  # fmt: skip
        workspace = self.prepare(config, flags)
        mesh = ranks if replicas == 1 else f"replicate={replicas},shard={ranks // replicas}"
        # Sums in rank order are gathered and added by hand: reductions are counted without.
        run, counted = (
            workspace.oracle_run(
                groups or MODELS[config.model][1], ranks, replicas=replicas, steps=steps,
                init=str(workspace.weights), det_rs=in_order and ranks // replicas > 2,
                reshard_after_forward=reshard, reshard_of=reshard_of or {}, **policy,
            )
            for steps, in_order in ((STEPS, True), (2, False))
        )  # fmt: skip
        outcome, (record, _) = oracle.execute([run, counted])
        path = self.config_file(workspace, text)
        option = "none" if text else reshard
        with self.subTest("report"):
            self.compare_report(workspace, record, mesh, option, path, more)
        for layout in layouts:
            binary = workspace.compile(mesh, option, layout, path, more)
            for communicator in communicators:
                with self.subTest(layout=layout, communicator=communicator):
                    self.train(workspace, run, outcome, binary, communicator)

    def test_llama(self):
        self.compare(LLAMA)

    def test_microbatches(self):
        """A chunk lasts for its own microbatch, also where parameters stay behind the backward."""
        for sync, reshard_after_backward in (("each", True), ("last", False)):
            more = (f"microbatches=2 gradient-sync={sync} "
                    f"reshard-after-backward={str(reshard_after_backward).lower()}")  # fmt: skip
            self.compare(LLAMA, more=more, communicators=("local",), microbatches=2,
                         gradient_sync=sync, reshard_after_backward=reshard_after_backward)  # fmt: skip

    def test_frozen(self):
        """The gradient goes through a frozen block, whose chunks are gathered; it ends before others."""
        for frozen in (["layers.1.*"], ["tok*", "layers.0.*"], ["*.attn.*", "tok*"]):
            config = dataclasses.replace(LLAMA, frozen=frozen)
            self.compare(config, communicators=("local",))

    def test_padding(self):
        self.compare(UNEVEN, communicators=("local",))

    def test_tied(self):
        self.compare(models.Config("gpt2", dim=32, layers=3, batch=2), communicators=("local",))

    def test_replicas(self):
        """On 2 x 2 ranks the only numbers are aliases; gloo's sums of 2 have one order."""
        for reshard in ("1", "2"):
            self.compare(MLP, reshard, replicas=2, communicators=("local", "gloo"))

    def test_replicas_of_4(self):
        self.compare(MLP, "2", replicas=2, ranks=8, communicators=("local",))

    def test_aliases(self):
        for reshard in ("1", "4"):
            self.compare(MLP, reshard, communicators=("local",), layouts=("flat",))

    def test_mixed_precision(self):
        """Chunks are of the dtype that is gathered."""
        self.compare(MLP, flags=["--param-dtype", "bfloat16"], more="param-dtype=bfloat16",
                     communicators=("local",), mixed=True, reduce_dtype=None)  # fmt: skip

    def test_some_groups(self):
        """The blocks keep chunks and the root stays, or the other way round."""
        block = 'root: {reshard_after_forward: %s}\ngroups:\n  - {modules: ["layers.*"], ' \
                'reshard_after_forward: %s}\n'  # fmt: skip
        for root, blocks in (("none", "2"), ("2", "true"), ("2", "false")):
            self.compare(LLAMA, root, text=block % (root, blocks), reshard_of={"layers.*": blocks},
                         communicators=("local",))  # fmt: skip

    def test_two_numbers(self):
        """Groups that keep chunks over different numbers of ranks meet on communicators of their own."""
        blocks = {"layers.0": "2", "layers.1": "4"}
        text = "groups:\n" + "".join(
            f'  - {{modules: ["{path}"], reshard_after_forward: {number}}}\n'
            for path, number in [*blocks.items(), ("layers.2", "true")]
        )
        for layouts, communicators in ((("flat",), ("local", "shm")), (("per-param",), ("local",))):
            self.compare(LLAMA, "none", text=text, ranks=8, layouts=layouts,
                         communicators=communicators,
                         groups=["layers.0", "layers.1", "layers.2"],
                         reshard_of={**blocks, "layers.2": "true"})  # fmt: skip

    def test_gloo(self):
        """Gathers over a part of the ranks, between processes on any hosts."""
        self.compare(MLP, communicators=("gloo",), layouts=("per-param",), replicas=2, ranks=8)

    def test_other_numbers(self):
        """FSDP2's words: a factor of the ranks."""
        workspace = self.prepare(MLP)
        for number in ("3", "8", "0"):
            with self.assertRaisesRegex(
                harness.CommandFailed,
                f"reshard_after_forward is {number}, expected a factor of 4, the ranks of axis 'dp'",
            ):
                workspace.plan(RANKS, number)


if __name__ == "__main__":
    unittest.main()
