#!/usr/bin/env python3
"""A run that is interrupted and goes on from its checkpoint is the uninterrupted run, bit for bit:
losses, parameters, buffers and optimizer state, over features, meshes and layouts. On another mesh
or layout the state is the checkpoint's, bit for bit."""

import itertools
import json
import shutil
import unittest

import checkpoints
import harness
from oracle import models, safetensors_io

STEPS, SAVED = 6, 4
#: Sizes whose flat shards begin and end inside rows.
LLAMA = models.Config("llama", dim=24, heads=2, ffn=40, layers=2, vocab=50, seq=16, batch=2)
GPT2 = models.Config("gpt2", dim=20, heads=2, layers=2, vocab=50, seq=16, batch=2, dropout=0.1)
CONVNET = models.Config("convnet", dim=8, layers=2, batch=2)
MLP = models.Config("mlp", dim=16, layers=3, batch=2)
SHARED = models.Config("sharednorm", dim=8, layers=3, batch=2)
STAGED = models.Config("staged", dim=16, layers=2, batch=2)


class Case(harness.WorkspaceCase):
    def train(self, workspace, binary, ranks, *arguments, init=True):
        """Losses and norms by step, parameters and buffers, of a run with these arguments."""
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        for path in (log, save):
            path.unlink(missing_ok=True)
        weights = ["--init", workspace.weights] if init else []
        process = harness.run([binary, "--ranks", ranks, "--data", workspace.data, "--log", log,
                               "--save", save, *weights, *arguments])  # fmt: skip
        lines = [(r["step"], r["loss_hex"], r["grad_norm"], r["lr"]) for r in harness.read_log(log)]
        return lines, safetensors_io.load(save), process.stdout

    def assert_equal_files(self, first, second):
        names = sorted(path.name for path in first.iterdir())
        self.assertEqual(names, sorted(path.name for path in second.iterdir()))
        for name in names:
            self.assertEqual((first / name).read_bytes(), (second / name).read_bytes(), name)

    def check(self, workspace, mesh, ranks, layouts=("flat", "per-param"), more="", flags=(), config=None):
        flags = ["--steps", STEPS, "--lr-schedule", "cosine", "--shuffle", "--seed", "5", *flags]
        for layout in layouts:
            with self.subTest(model=workspace.config.model, mesh=mesh, layout=layout, more=more):
                binary = workspace.compile(mesh, "none", layout, config, more)
                folder, whole = workspace.folder / "run", workspace.folder / "whole"
                for path in (folder, whole):
                    shutil.rmtree(path, ignore_errors=True)
                saving = ["--checkpoint-dir", folder, "--save-every", SAVED]
                plain, final, _ = self.train(workspace, binary, ranks, *flags)
                lines, saved, _ = self.train(workspace, binary, ranks, *flags, *saving)
                self.assertEqual(lines, plain)  # saving changes nothing
                shutil.copytree(folder, whole)
                # As if it had been killed behind the first checkpoint.
                shutil.rmtree(folder / f"step-{STEPS:09}")
                lines, again, _ = self.train(
                    workspace, binary, ranks, *saving, "--resume", init=False
                )
                self.assertEqual(lines, plain[SAVED:])
                self.assertIsNone(harness.bitwise_difference(final, saved))
                self.assertIsNone(harness.bitwise_difference(final, again))
                last = f"step-{STEPS:09}"
                self.assert_equal_files(whole / last, folder / last)
                state = checkpoints.assemble(folder / last)
                for name, tensor in final.items():
                    self.assertIsNone(
                        harness.bitwise_difference({name: tensor}, {name: state[name]})
                    )


class Resume(Case):
    def test_optimizers(self):
        for optimizer in (harness.ADAMW, harness.SGD, harness.Optimizer("sgd", {"lr": 0.1})):
            self.check(self.workspace(LLAMA, optimizer), "dp=2", 2)
        self.check(self.workspace(LLAMA), "dp=1", 1)

    def test_rows_that_are_cut(self):
        for config in (LLAMA, CONVNET):
            workspace = self.workspace(config)
            self.check(workspace, "dp=3", 3, layouts=["flat"])
            last = checkpoints.latest(workspace.folder / "run")
            self.assertTrue(list(last.glob("*-model-00002-of-*")))

    def test_dropout_and_shared_parameters(self):
        self.check(self.workspace(GPT2), "dp=2", 2)
        workspace = self.workspace(SHARED)
        self.check(workspace, "dp=2", 2)
        saved = safetensors_io.load(workspace.folder / "final.safetensors")
        models.build(SHARED).load_state_dict(saved, strict=True)

    def test_accumulation(self):
        for sync in ("each", "last"):
            self.check(self.workspace(GPT2), "dp=2", 2, more=f"microbatches=2 gradient-sync={sync}")
        self.check(self.workspace(STAGED), "dp=2", 2, ["per-param"],
                   "microbatches=2 microbatch-order=1f1b stages=stages.0,stages.1")  # fmt: skip

    def test_mixed_precision(self):
        workspace = self.workspace(MLP, capture=["--param-dtype", "bfloat16"])
        self.check(workspace, "dp=2", 2, more="param-dtype=bfloat16 reduce-dtype=float32")

    def test_clipping(self):
        self.check(self.workspace(LLAMA, capture=["--clip-grad-norm", "0.1"]), "dp=2", 2)
        self.check(self.workspace(LLAMA, capture=["--clip-grad-norm", "0.1"]), "dp=2", 2,
                   layouts=["flat"], flags=["--clip-grad-norm", "0.05"])  # fmt: skip
        self.check(self.workspace(LLAMA, capture=["--clip-grad-value", "1e-3"]), "dp=2", 2,
                   flags=["--clip-grad-value", "5e-4"])  # fmt: skip

    def test_state_on_the_host(self):
        for optimizer in (harness.ADAMW, harness.SGD):
            self.check(self.workspace(LLAMA, optimizer), "dp=2", 2, more="offload-optimizer=all")

    def test_parameters_on_the_host(self):
        for optimizer in (harness.ADAMW, harness.Optimizer("sgd", {"lr": 0.1})):
            self.check(self.workspace(LLAMA, optimizer), "dp=2", 2, more="offload-policy=cpu")
        self.check(self.workspace(LLAMA), "dp=1", 1, more="offload-policy=cpu")
        workspace = self.workspace(MLP, capture=["--param-dtype", "bfloat16"])
        self.check(workspace, "dp=2", 2,
                   more="param-dtype=bfloat16 reduce-dtype=float32 offload-policy=cpu")  # fmt: skip

    def test_replicas(self):
        self.check(self.workspace(LLAMA), "replicate=2,shard=2", 4)
        workspace = self.workspace(LLAMA)
        self.check(workspace, "replicate=2,shard=2", 4, ["flat"], more="offload-optimizer=all")

    def test_buffers_of_each_rank(self):
        """Statistics of batches differ between the ranks, and stay so."""
        workspace = self.workspace(CONVNET)
        self.check(workspace, "dp=2", 2)
        self.check(workspace, "replicate=2,shard=2", 4, ["flat"])
        state = checkpoints.assemble(checkpoints.latest(workspace.folder / "run"))
        names = [name for name in state if name.endswith("running_mean")]
        own = [name for name in names if name.startswith("fsdpc.rank1.")]
        self.assertEqual(len(names), 4 * len(own))
        for name in own:
            self.assertNotEqual(state[name].tolist(), state[name[len("fsdpc.rank1.") :]].tolist())

    def test_frozen_parameters(self):
        config = models.Config("llama", dim=24, heads=2, layers=2, vocab=50, batch=2,
                               frozen=["layers.*.attn.*"])  # fmt: skip
        self.check(self.workspace(config), "dp=2", 2)

    def test_searched_schedule(self):
        self.check(self.workspace(LLAMA), "dp=2", 2, ["flat"], more="schedule=auto")

    def test_other_meshes_and_layouts(self):
        """What is saved by one is loaded by every other one, and saved again the same."""
        for config in (LLAMA, CONVNET, GPT2):
            workspace = self.workspace(config)
            kinds = [("dp=4", 4, "flat", ""), ("dp=2", 2, "per-param", ""), ("dp=3", 3, "flat", ""),
                     ("replicate=2,shard=2", 4, "per-param", "offload-optimizer=all"),
                     ("dp=1", 1, "flat", ""), ("dp=4", 4, "per-param", "shard-placement=largest"),
                     ("dp=4", 4, "per-param", "")]  # fmt: skip
            binaries = [
                workspace.compile(mesh, "none", layout, more=more) for mesh, _, layout, more in kinds
            ]
            folder = workspace.folder / "first"
            self.train(workspace, binaries[0], 4, "--steps", 3, "--checkpoint-dir", folder,
                       "--save-every", 3)  # fmt: skip
            first = checkpoints.latest(folder)
            expected = checkpoints.assemble(first)
            source = first
            for (mesh, ranks, layout, more), binary in zip(kinds[1:], binaries[1:]):
                with self.subTest(model=config.model, mesh=mesh, layout=layout):
                    folder = workspace.folder / f"of-{binary.name}"
                    _, final, out = self.train(
                        workspace, binary, ranks, "--resume", source, "--checkpoint-dir", folder,
                        "--save-every", 3, init=False)  # fmt: skip
                    self.assertIn("compiled otherwise", out)
                    source = checkpoints.latest(folder)
                    state = checkpoints.assemble(source)
                    own = lambda tensors: {
                        name: t for name, t in tensors.items() if not name.startswith("fsdpc.")
                    }
                    self.assertIsNone(harness.bitwise_difference(own(expected), own(state)))
                    for name, tensor in final.items():
                        self.assertIsNone(
                            harness.bitwise_difference({name: tensor}, {name: state[name]})
                        )

    def test_other_groups_and_gathers(self):
        """The state is the checkpoint's, bit for bit; the run goes on as one of the other configuration
        that begins with that state, as weights and as a checkpoint of its own."""
        groups = {"groups": [{"modules": ["layers.0"]}, {"together": ["layers.1", "layers.2", "norm"]}],
                  "root": {"reshard_after_forward": True}}  # fmt: skip
        grouped = {"config": groups}
        narrow = {"capture": ["--param-dtype", "bfloat16"], "more": "param-dtype=bfloat16"}
        for optimizer in (harness.Optimizer("sgd", {"lr": 0.1}), harness.ADAMW):
            workspace = self.workspace(MLP, optimizer)
            kinds = [self.configured(workspace, name, **options) for name, options in (
                ("plain", {}), ("grouped", grouped), ("narrow", narrow),
                ("both", {**grouped, **narrow, "layout": "per-param"}))]  # fmt: skip
            self.assertIn("layers.1, layers.2, norm:", self.groups_of(kinds[1]))
            self.assertNotIn("layers.1, layers.2, norm:", self.groups_of(kinds[0]))
            for before, after in itertools.permutations(kinds, 2):
                with self.subTest(optimizer=optimizer.kind, before=before.name, after=after.name):
                    self.check_other(workspace, before, after)

    def configured(self, workspace, name, config=None, capture=(), more="", layout="flat"):
        """A binary of 2 ranks whose losses are those of its own configuration."""
        workspace.capture(flags=capture)
        path = None
        if config:
            path = workspace.folder / f"{name}.yaml"
            path.write_text(json.dumps(config))
        return workspace.compile(2, "none", layout, path, more).rename(workspace.folder / name)

    def groups_of(self, binary):
        return harness.run([binary, "--describe"]).stdout

    def check_other(self, workspace, before, after):
        folder = workspace.folder
        for name in ("first", "moved", "own"):
            shutil.rmtree(folder / name, ignore_errors=True)
        save = lambda name: ["--checkpoint-dir", folder / name, "--save-every", SAVED]
        _, saved, _ = self.train(workspace, before, 2, "--steps", SAVED, *save("first"))
        state = checkpoints.assemble(checkpoints.latest(folder / "first"))
        _, moved, out = self.train(workspace, after, 2, "--resume", folder / "first", *save("moved"),
                                   init=False)  # fmt: skip
        self.assertIn("compiled otherwise", out)
        self.assertIsNone(harness.bitwise_difference(saved, moved))
        self.assertIsNone(harness.bitwise_difference(
            state, checkpoints.assemble(checkpoints.latest(folder / "moved"))))  # fmt: skip
        lines, final, _ = self.train(workspace, after, 2, "--resume", folder / "first", "--steps",
                                     STEPS, init=False)  # fmt: skip
        self.assertEqual([line[0] for line in lines], list(range(SAVED + 1, STEPS + 1)))
        again, other, _ = self.train(workspace, after, 2, "--resume", folder / "moved", "--steps",
                                     STEPS, init=False)  # fmt: skip
        self.assertEqual(lines, again)
        self.assertIsNone(harness.bitwise_difference(final, other))
        if workspace.optimizer.kind != "sgd":
            return  # weights are not all of the state
        weights, data = folder / "weights.safetensors", folder / "rest.safetensors"
        safetensors_io.save(weights, saved)
        samples = SAVED * 2 * MLP.batch
        safetensors_io.save(data, {name: tensor[samples:].contiguous() for name, tensor in
                                   safetensors_io.load(workspace.data).items()})  # fmt: skip
        workspace.data, whole = data, workspace.data
        fresh, other, _ = self.train(workspace, after, 2, "--init", weights, "--steps", STEPS - SAVED,
                                     init=False)  # fmt: skip
        workspace.data = whole
        self.assertEqual([line[1:] for line in lines], [line[1:] for line in fresh])
        self.assertIsNone(harness.bitwise_difference(final, other))

    def test_data_goes_on_where_it_stopped(self):
        """The order of samples is that of the global batch, whatever its size and the ranks."""
        workspace = self.workspace(MLP)
        wide, narrow = (workspace.compile(f"dp={ranks}") for ranks in (4, 2))
        folder = workspace.folder / "wide"
        self.train(workspace, wide, 4, "--steps", 3, "--checkpoint-dir", folder, "--save-every", 3,
                   "--shuffle")  # fmt: skip
        self.assertEqual(checkpoints.manifest(checkpoints.latest(folder))["samples"], 24)
        # Two steps of half the size read what one of 4 ranks would have read.
        other = workspace.folder / "narrow"
        self.train(workspace, narrow, 2, "--steps", 5, "--checkpoint-dir", other, "--save-every", 1,
                   "--resume", folder, init=False)  # fmt: skip
        self.assertEqual(checkpoints.manifest(checkpoints.latest(other))["samples"], 32)
        one, _, _ = self.train(workspace, wide, 4, "--resume", folder, "--steps", 4, "--lr", 0,
                               init=False)  # fmt: skip
        two, _, _ = self.train(workspace, narrow, 2, "--resume", folder, "--steps", 5, "--lr", 0,
                               init=False)  # fmt: skip
        # With the rate 0 the parameters stay, so each rank's loss is its samples'.
        self.assertEqual(one[0][1], two[0][1] + two[1][1])


if __name__ == "__main__":
    unittest.main()
