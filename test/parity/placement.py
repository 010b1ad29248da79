#!/usr/bin/env python3
"""Parameters cut on any dimension beside FSDP2 with a shard_placement_fn: events, collectives, losses
and parameters are the same, bit for bit."""

import dataclasses
import json
import unittest

import checkpoints
import fsdp2_setup
import harness
from events import MODELS
from oracle import models, safetensors_io

STEPS = 4
MLP = models.Config("mlp", dim=12, layers=3, batch=2)
LLAMA = models.Config("llama", dim=48, heads=2, ffn=96, layers=2, vocab=60, seq=16, batch=2)
CONVNET = models.Config("convnet", dim=12, layers=2, batch=2)
#: Some on dimension 1, some on the largest one, the others on dimension 0.
MIXED = {"**.attn.wo.weight": 1, "**.w2.weight": -1, "tok.weight": "largest", "head.weight": "largest"}


def dims_of(config, asked, shards):
    """Of each parameter the dimension on which FSDP2 is to cut it."""
    named = list(models.build(config).named_parameters())
    place = fsdp2_setup.placement_fn(named, asked, shards)
    return {name: (p, getattr(place(p), "dim", 0) % p.dim()) for name, p in named}


class Placement(harness.Comparison):
    def config_file(self, workspace, placement, **more):
        path = workspace.folder / "placement.yaml"
        path.write_text(json.dumps({"shard_placement": placement, **more}))
        return path

    def compare(self, config, placement, ranks=2, replicas=1, capture=(), more="", file=None, groups=None,
                optimizer=harness.ADAMW, communicators=("local",), **options):  # fmt: skip
        """`file`: what else the configuration says; `more`: further options of the pipeline."""
        workspace = self.workspace(config, optimizer, capture)
        shards = ranks // replicas
        # gloo adds in rank order between two ranks only.
        run, outcome = self.expect(
            workspace, ranks, groups or MODELS[config.model][1], STEPS, replicas=replicas,
            placement=placement, det_rs=shards > 2, **options,
        )  # fmt: skip
        mesh = ranks if replicas == 1 else f"replicate={replicas},shard={shards}"
        path = self.config_file(workspace, placement, **(file or {}))
        self.check(workspace, run, outcome, mesh, ["per-param"], more, communicators, path)

    def test_one_matrix(self):
        """The smallest case: one weight on dimension 1, sgd."""
        self.compare(MLP, {"head.weight": 1}, optimizer=harness.SGD, communicators=("local", "gloo"))

    def test_ranks(self):
        for ranks in (1, 3, 4):
            communicators = ("local",) if ranks == 1 else ("local", "shm")
            with self.subTest(ranks=ranks):
                self.compare(LLAMA, MIXED, ranks, communicators=communicators)

    def test_largest(self):
        """Also of parameters of four dimensions, and where no dimension is divisible."""
        self.compare(CONVNET, "largest", 3)
        self.compare(dataclasses.replace(MLP, dim=18), "largest", 4)
        self.compare(models.Config("gpt2", dim=16, layers=2, batch=2), "largest", 4)

    def test_other_dimensions(self):
        """The last two dimensions of a convolution, behind others that are not cut."""
        self.compare(CONVNET, {"**.conv.weight": 2, "stem.weight": -1}, 3, optimizer=harness.SGD)

    def test_some_groups(self):
        """What a group says counts for it alone, and what the root says for the root."""
        file = {
            "groups": [{"modules": ["layers.0"], "shard_placement": {"**.wo.weight": 1}},
                       {"modules": ["layers.1"]}],
            "root": {"shard_placement": {"head.weight": 1}},
        }  # fmt: skip
        placement = {"**.w2.weight": 1}
        self.compare(LLAMA, placement, file=file, groups=["layers.0", "layers.1"],
                     placement_of={"layers.0": {"**.wo.weight": 1}, "": {"head.weight": 1}})  # fmt: skip

    def test_reshard(self):
        for reshard in ("true", "false"):
            self.compare(LLAMA, MIXED, reshard_after_forward=reshard)

    def test_replicas(self):
        self.compare(LLAMA, MIXED, 4, replicas=2, communicators=("local", "gloo"))

    def test_mixed_precision(self):
        for reduce_dtype in ("float32", "bfloat16"):
            self.compare(
                MLP, "largest", capture=["--param-dtype", "bfloat16"], mixed=True,
                more=f"param-dtype=bfloat16 reduce-dtype={reduce_dtype}", reduce_dtype=reduce_dtype,
            )  # fmt: skip

    def test_frozen(self):
        for frozen in (["layers.1.*"], ["*.attn.*", "tok*"]):
            self.compare(dataclasses.replace(LLAMA, frozen=frozen), MIXED)

    def test_microbatches(self):
        for sync in ("each", "last"):
            self.compare(LLAMA, MIXED, more=f"microbatches=2 gradient-sync={sync}",
                         microbatches=2, gradient_sync=sync)  # fmt: skip

    def test_recomputation(self):
        self.compare(LLAMA, MIXED, more="recompute=full")

    def test_host_state(self):
        self.compare(LLAMA, MIXED, more="offload-optimizer=all")

    def test_clipping(self):
        """By the largest gradient, which rounds nothing."""
        options = dict(harness.ADAMW.options, clip_grad_norm=0.05, clip_norm_type="inf")
        self.compare(LLAMA, MIXED, optimizer=harness.Optimizer("adamw", options))

    def test_optimizer_groups(self):
        groups = [{"parameters": ["**.wo.weight"], "lr": 1e-2}, {"max_dims": 1, "weight_decay": 0.0}]
        self.compare(LLAMA, MIXED, file={"optimizer": {"groups": groups}}, optimizer_groups=groups)

    def test_chunks(self):
        """With a number of ranks FSDP2 ends with an error in the backward; here the bits are those of
        `true`."""
        workspace = self.workspace(LLAMA)
        path = self.config_file(workspace, MIXED)
        results = []
        for reshard in ("true", "2"):
            binary = workspace.compile(4, reshard, "per-param", path)
            log, saved = harness.train(workspace, binary, 4, STEPS)
            results.append(([line["loss_hex"] for line in log], saved))
        self.assertEqual(results[0][0], results[1][0])
        self.assertIsNone(harness.bitwise_difference(results[0][1], results[1][1]))

    def test_checkpoints(self):
        """Each rank's part is that of FSDP2's shard. A run goes on with any other placement, and
        fsdp-checkpoint finds the same state in whatever it saves."""
        workspace = self.workspace(LLAMA)
        path = self.config_file(workspace, MIXED)
        binaries = {
            "columns": (workspace.compile(2, "none", "per-param", path), 2),
            "columns of 3": (workspace.compile(3, "none", "per-param", path), 3),
            "rows": (workspace.compile(2, "none", "per-param", more="recompute=none"), 2),
            "flat": (workspace.compile(2), 2),
        }
        binary, ranks = binaries["columns"]
        _, whole = harness.train(workspace, binary, ranks, STEPS)
        dims = dims_of(LLAMA, MIXED, ranks)
        for name, (binary, ranks) in binaries.items():
            folder = workspace.folder / f"of {name}"
            harness.train(workspace, binary, ranks, STEPS // 2, extra=[
                "--checkpoint-dir", folder, "--save-every", STEPS // 2])  # fmt: skip
            saved = checkpoints.latest(folder)
            state = checkpoints.assemble(saved)
            if name == "columns":
                self.check_parts(saved, dims)
                self.assertIn("each element once", self.tool("verify", saved))
                consolidated = workspace.folder / "consolidated.safetensors"
                self.tool("consolidate", saved, "-o", consolidated)
                weights = safetensors_io.load(consolidated)
                expected = {key: tensor for key, tensor in state.items() if not key.startswith("optim.")}
                self.assertIsNone(harness.bitwise_difference(expected, weights))
            for other, (resumed, count) in binaries.items():
                with self.subTest(saved=name, resumed=other):
                    again = workspace.folder / f"of {name}, again by {other}"
                    harness.run([resumed, "--ranks", count, "--data", workspace.data, "--resume", saved,
                                 "--steps", STEPS // 2, "--checkpoint-dir", again, "--save-every", STEPS])  # fmt: skip
                    copy = checkpoints.assemble(checkpoints.latest(again))
                    self.assertIsNone(harness.bitwise_difference(state, copy))
                    self.tool("diff", saved, checkpoints.latest(again))
                    if count == ranks == 2:
                        final = workspace.folder / "final.safetensors"
                        final.unlink()
                        harness.run([resumed, "--ranks", 2, "--data", workspace.data, "--resume", saved,
                                     "--steps", STEPS, "--save", final])  # fmt: skip
                        difference = harness.bitwise_difference(whole, safetensors_io.load(final))
                        self.assertIsNone(difference)

    def tool(self, *arguments):
        return harness.run([harness.TOOLS / "fsdp-checkpoint", *arguments]).stdout

    def check_parts(self, folder, dims):
        """Rank 1's file begins in the middle of the dimension that is cut."""
        [file] = folder.glob("shard-00002-*.safetensors")
        parts = {name: (offsets, part) for name, offsets, part in checkpoints.parts(file)}
        for name, (parameter, dim) in dims.items():
            for key in (name, f"optim.state.{name}.exp_avg"):
                offsets, part = parts[key]
                half = [0] * parameter.dim()
                half[dim] = parameter.shape[dim] // 2
                self.assertEqual(offsets, half, key)
                self.assertEqual(part.shape[dim], parameter.shape[dim] // 2, key)
        self.assertIn(1, [dim for _, dim in dims.values()])

    def test_refused(self):
        workspace = self.workspace(MLP)
        for placement, layout, ranks, message in (
            ("largest", "flat", 2, "shard_placement is for the per-param layout"),
            ({"head.*": 1}, "per-param", 2, "shard_placement of parameter 'head.bias' is 1, but it has 1 dimension"),
            ({"head.weight": 1}, "per-param", 5, "dimension 1 has size 12, which the 5 ranks of axis 'dp' do not divide"),
            ({"head.weight": 1, "head.*": 0}, "per-param", 2, "cuts parameter 'head.weight' on dimension 1 by"),
            ({"tail.*": 1}, "per-param", 2, "pattern 'tail.*' of shard_placement matches no parameter"),
            ("rows", "per-param", 2, "shard_placement is 'rows', expected a dimension"),
        ):  # fmt: skip
            path = self.config_file(workspace, placement)
            self.assert_fails(message, workspace.plan, ranks, "none", layout, path)


if __name__ == "__main__":
    unittest.main()
