#!/usr/bin/env python3
"""reshard_after_forward with a number of ranks beside FSDP2's: events, collectives and bits.

The backward gathers over that many neighbours what they have kept since the forward. Which groups
do so, and in which layout, changes no bit; gloo adds in an order of its own at 4 ranks on one axis.
"""

import dataclasses
import unittest

import harness
import oracle
from events import MODELS
from oracle import models

RANKS, STEPS = 4, 5
LLAMA = models.Config("llama", dim=64, layers=3, seq=32, batch=2)
#: Rows that 4 ranks do not divide: FSDP2 keeps their padding in the chunks.
UNEVEN = models.Config("mlp", dim=18, layers=3, batch=2)
#: Of losses after 5 steps whose gradients gloo adds up in an order of its own.
GLOO_TOLERANCE = 1e-5
MLP = models.Config("mlp", dim=16, layers=3, batch=2)


class Reshard(harness.Comparison):
    def config_file(self, workspace, text):
        if not text:
            return None
        path = workspace.folder / "reshard.yaml"
        path.write_text(text)
        return path

    def train(self, workspace, run, outcome, binary, communicator="local"):
        log, saved = harness.train(workspace, binary, run.ranks, STEPS, communicator)
        if communicator != "gloo" or run.ranks // run.replicas <= 2:
            return self.check_bits(run, outcome, log, saved)
        found = harness.losses_of(line["loss_hex"] for line in log)
        wanted = harness.losses_of(zip(*outcome[0]["losses"]))
        self.assertEqual(found[0], wanted[0])
        for losses, others in zip(found, wanted, strict=True):
            for loss, other in zip(losses, others, strict=True):
                self.assertAlmostEqual(loss, other, delta=GLOO_TOLERANCE)

    def compare(self, config, reshard="2", replicas=1, text="", flags=(), more="",
                layouts=("flat", "per-param"), communicators=("local", "shm"), ranks=RANKS,
                reshard_of=None, groups=None, dropped=(), **policy):  # fmt: skip
        workspace = self.workspace(config, capture=flags, samples=104)
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
            _, report = workspace.plan(mesh, option, "per-param", path, more)
            self.check_report(counted, record, report, dropped)
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
        """The gradient goes through a frozen block, whose chunks are gathered. Where it ends above a frozen
        block, FSDP2 gathers that block for nothing."""
        for frozen, dropped in ((["layers.1.*"], []), (["tok*", "layers.0.*"], ["layers.0"]),
                                (["*.attn.*", "tok*"], [])):  # fmt: skip
            config = dataclasses.replace(LLAMA, frozen=frozen)
            self.compare(config, communicators=("local",), dropped=dropped)

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
        workspace = self.workspace(MLP)
        for number in ("3", "8", "0"):
            with self.assertRaisesRegex(
                harness.CommandFailed,
                f"reshard_after_forward is {number}, expected a factor of 4, the ranks of axis 'dp'",
            ):
                workspace.plan(RANKS, number)


if __name__ == "__main__":
    unittest.main()
