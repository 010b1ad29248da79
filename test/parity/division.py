#!/usr/bin/env python3
"""By what summed gradients are divided, and by which operation they are reduced, beside FSDP2:
set_gradient_divide_factor, set_force_sum_reduction_for_comms, and reductions in float16."""

import dataclasses
import unittest

import harness
from oracle import models

MLP = models.Config("mlp", dim=16, layers=3, batch=2)
MIXED = ("--param-dtype", "bfloat16")


class Division(harness.Comparison):
    def run_case(self, mesh, ranks, text="", mixed=None, more="", capture=(), layouts=("flat", "per-param"),
                 communicators=("local",), model=MLP, **options):  # fmt: skip
        """Compares a run with FSDP2's. `text`: the config file's; `mixed`: reduce_dtype."""
        replicas = int(mesh.split(",")[0].split("=")[1]) if "," in mesh else 1
        # gloo adds in rank order between two ranks only.
        options.setdefault("det_rs", ranks // replicas > 2)
        if mixed:
            capture, options = MIXED, options | {"mixed": True, "reduce_dtype": mixed}
            more += f" param-dtype=bfloat16 reduce-dtype={mixed}"
        workspace = self.workspace(model, capture=capture)
        run, expected = self.expect(workspace, ranks, replicas=replicas, **options)
        config = workspace.folder / "config.yaml"
        config.write_text("groups: [{modules: ['layers.*']}]\n" + text)
        self.check(workspace, run, expected, mesh, layouts, more, communicators, config=config)

    def test_force_sum(self):
        """Sums, divided behind the collectives by the number of all ranks."""
        text = "force_sum_reduction_for_comms: true\n"
        for mesh, ranks in (("dp=3", 3), ("replicate=2,shard=2", 4)):
            with self.subTest(mesh):
                self.run_case(mesh, ranks, text, force_sum=True)

    def test_factor_of_the_shards(self):
        """A factor that is the number of shards: averages over them, sums over the replicas."""
        for mesh, ranks in (("dp=2", 2), ("replicate=2,shard=2", 4)):
            with self.subTest(mesh):
                text = "gradient_divide_factor: 2\n"
                self.run_case(mesh, ranks, text, gradient_divide_factor=2.0)

    def test_other_factor(self):
        """Another factor is multiplied before the sum: PREMUL_SUM, which gloo does not have."""
        for mesh, ranks in (("dp=3", 3), ("replicate=2,shard=2", 4)):
            with self.subTest(mesh):
                text = "gradient_divide_factor: 5\n"
                self.run_case(mesh, ranks, text, gradient_divide_factor=5.0, det_rs=True,
                              communicators=("local", "shm"))  # fmt: skip

    def test_other_factor_of_sums(self):
        """The same where sums are forced: gloo has them, and the division follows."""
        text = "gradient_divide_factor: 5\nforce_sum_reduction_for_comms: true\n"
        for mesh, ranks in (("dp=2", 2), ("dp=4", 4)):
            with self.subTest(mesh):
                self.run_case(mesh, ranks, text, gradient_divide_factor=5.0, force_sum=True)

    def test_factors_of_groups(self):
        """Each group has its own, and the others that of all."""
        text = ("groups:\n  - modules: [layers.1]\n    gradient_divide_factor: 4\n"
                "  - modules: [layers.0, layers.2]\n"
                "root: {gradient_divide_factor: 2}\n"
                "gradient_divide_factor: 8\nforce_sum_reduction_for_comms: true\n")  # fmt: skip
        workspace = self.workspace(MLP)
        run, expected = self.expect(
            workspace, groups=("layers.1", "layers.0", "layers.2"), force_sum=True,
            gradient_divide_factor=8.0, divide_factor_of={"layers.1": 4.0, "": 2.0},
        )  # fmt: skip
        config = workspace.folder / "config.yaml"
        config.write_text(text)
        self.check(workspace, run, expected, 2, communicators=("local",), config=config)

    def test_float16(self):
        """The divisor is split: a part before the sum, the rest behind all sums."""
        for mesh, ranks in (("dp=3", 3), ("dp=4", 4), ("replicate=2,shard=2", 4)):
            with self.subTest(mesh):
                self.run_case(mesh, ranks, mixed="float16")

    def test_float16_by_a_factor(self):
        for mesh, ranks, factor in (("dp=2", 2, 12), ("replicate=2,shard=2", 4, 6)):
            with self.subTest(mesh):
                text = f"gradient_divide_factor: {factor}\n"
                self.run_case(mesh, ranks, text, mixed="float16",
                              gradient_divide_factor=float(factor))  # fmt: skip

    def test_bfloat16(self):
        text = "gradient_divide_factor: 6\nforce_sum_reduction_for_comms: true\n"
        self.run_case("replicate=2,shard=2", 4, text, mixed="bfloat16", force_sum=True,
                      gradient_divide_factor=6.0)  # fmt: skip

    def test_microbatches(self):
        """Each microbatch is divided, or their sum, or what is reduced over the replicas last.

        Of three blocks an all-reduce of the last kind is issued behind the next gather, not before.
        """
        model = dataclasses.replace(MLP, layers=2)
        for mesh, ranks, syncs in (("dp=2", 2, ("each",)),
                                   ("replicate=2,shard=2", 4, ("reduce_scatter", "last"))):
            for sync in syncs:
                with self.subTest(mesh=mesh, sync=sync):
                    text = "gradient_divide_factor: 6\n"
                    self.run_case(mesh, ranks, text, mixed="float16", microbatches=2,
                                  more=f"microbatches=2 gradient-sync={sync}", model=model,
                                  gradient_sync=sync, gradient_divide_factor=6.0)  # fmt: skip

    def test_processes(self):
        """Over gloo itself, and in shared memory, where peers read a rank's gradients in place."""
        self.run_case("dp=2", 2, mixed="float16", communicators=("shm", "gloo"))
        text = "force_sum_reduction_for_comms: true\ngradient_divide_factor: 5\n"
        self.run_case("dp=2", 2, text, force_sum=True, gradient_divide_factor=5.0,
                      communicators=("shm", "gloo"))  # fmt: skip

    def test_gloo_has_no_scaled_sum(self):
        """FSDP2 ends with gloo's error; here the inputs are multiplied before a plain sum."""
        workspace = self.workspace(MLP)
        with self.assertRaisesRegex(Exception, "PREMUL_SUM"):
            self.expect(workspace, gradient_divide_factor=5.0)
        config = workspace.folder / "config.yaml"
        config.write_text("gradient_divide_factor: 5\n")
        binary = workspace.compile(2, config=config)
        (local, _), (gloo, _) = (
            harness.train(workspace, binary, 2, 2, communicator) for communicator in ("local", "gloo")
        )
        self.assertEqual([line["loss_hex"] for line in local], [line["loss_hex"] for line in gloo])


if __name__ == "__main__":
    unittest.main()
