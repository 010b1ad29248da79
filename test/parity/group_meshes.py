#!/usr/bin/env python3
"""Groups on meshes of their own beside FSDP2: losses, parameters, events and collectives, and checkpoints.

FSDP2 sums in rank order here (det_rs), as the compiled step does over `local` and `shm`.
"""

import json
import re
import unittest

import checkpoints
import harness
import resume
from oracle import models

LLAMA = models.Config("llama", dim=32, layers=3, batch=2)
MLP = models.Config("mlp", dim=16, layers=3, batch=2)
RANKS = 4
#: Sharded over two ranks with two replicas; plain data parallelism. Names that `dp` is not among.
HYBRID, WHOLE = {"outer": 2, "inner": 2}, {"every": 4, "alone": 1}
GROUPS = ("layers.0", "layers.1", "layers.2")
#: Next to each other in both orders, with the root over all ranks.
MIXED = {"layers.0": HYBRID, "layers.1": WHOLE}
#: The root whole on each rank, one block over all of them, the others hybrid.
WHOLE_ROOT = {"": WHOLE, "layers.0": HYBRID, "layers.2": HYBRID}


def config_of(meshes, more=""):
    """The file; what has no mesh in `meshes` has the model's."""
    entry = lambda pattern: {"modules": [pattern]} | (
        {"mesh": meshes[pattern]} if pattern in meshes else {}
    )
    text = f"groups: {json.dumps([entry(pattern) for pattern in GROUPS])}\n"
    if "" in meshes:
        text += f"root: {json.dumps({'mesh': meshes['']})}\n"
    return text + more


class GroupMeshes(harness.Comparison):
    def write(self, workspace, text):
        path = workspace.folder / "config.yaml"
        path.write_text(text)
        return path

    def compare(self, config, meshes, text="", capture=(), more="", layouts=("flat", "per-param"),
                communicators=("local",), optimizer=harness.ADAMW, steps=4, **options):  # fmt: skip
        workspace = self.workspace(config, optimizer, capture)
        run, outcome = self.expect(
            workspace, RANKS, GROUPS, steps=steps, mesh_of=meshes, det_rs=True, **options
        )
        path = self.write(workspace, config_of(meshes, text))
        self.check(workspace, run, outcome, "dp=4", layouts, more, communicators, config=path)
        return workspace, outcome, path

    def check_norms(self, workspace, outcome, tolerance):
        log = harness.read_log(workspace.folder / "log.jsonl")
        for line, norm in zip(log, outcome[0]["grad_norms"], strict=True):
            self.assertAlmostEqual(line["grad_norm"], norm, delta=tolerance * norm)

    def test_three_meshes(self):
        workspace, outcome, _ = self.compare(LLAMA, MIXED, communicators=("local", "shm"))
        self.check_norms(workspace, outcome, 1e-6)

    def test_whole_root(self):
        for reshard in ("true", "none"):
            with self.subTest(reshard):
                self.compare(MLP, WHOLE_ROOT, reshard_after_forward=reshard)

    def test_clipping(self):
        """Norm inf is exact; below the limit the others change no bit."""
        for limit, norm in ((1e-3, "inf"), (1e6, "2")):
            with self.subTest(norm):
                options = {"lr": 1e-3, "weight_decay": 0.1, "clip_grad_norm": limit,
                           "clip_norm_type": norm}  # fmt: skip
                workspace, outcome, _ = self.compare(
                    LLAMA, MIXED, optimizer=harness.Optimizer("adamw", options)
                )
                self.check_norms(workspace, outcome, 0 if norm == "inf" else 1e-6)
                norms = outcome[0]["grad_norms"]
                self.assertTrue(all((found > limit) == (norm == "inf") for found in norms), norms)

    def test_accumulation(self):
        """`reduce_scatter` concerns the groups that have replicas."""
        for sync in ("last", "reduce_scatter"):
            with self.subTest(sync):
                self.compare(LLAMA, MIXED, microbatches=2, gradient_sync=sync,
                             more=f"microbatches=2 gradient-sync={sync}")  # fmt: skip

    def test_mixed_precision(self):
        """Gradients are reduced in bf16, and in fp16 by sums, divided by all ranks before and behind."""
        for reduce_dtype in ("bfloat16", "float16"):
            with self.subTest(reduce_dtype):
                self.compare(MLP, MIXED, mixed=True, reduce_dtype=reduce_dtype,
                             capture=("--param-dtype", "bfloat16"),
                             more=f"param-dtype=bfloat16 reduce-dtype={reduce_dtype}")  # fmt: skip

    def test_schedules(self):
        """Schedules that are searched for change no bit, and gather again where a cap asks for it."""
        meshes = {"layers.0": HYBRID, "layers.2": HYBRID}
        workspace = self.workspace(LLAMA, harness.ADAMW, ())
        run, outcome = self.expect(workspace, RANKS, GROUPS, mesh_of=meshes, det_rs=True)
        path = self.write(workspace, config_of(meshes))
        for more in ("schedule=auto device=h100", "schedule=asap", self.capped(workspace, path)):
            with self.subTest(more):
                binary = workspace.compile("dp=4", "auto", config=path, more=more)
                log, saved = harness.train(workspace, binary, RANKS, run.steps, "local")
                self.check_bits(run, outcome, log, saved)

    def capped(self, workspace, path):
        with self.assertRaises(harness.CommandFailed) as refusal:
            workspace.plan("dp=4", "auto", config=path, more="schedule=auto memory-cap=1 recompute=cheap")
        least = int(re.search(r"at least (\d+) bytes are live", str(refusal.exception))[1])
        return f"schedule=auto recompute=cheap memory-cap={least + least // 20}"

    def test_divide_factor(self):
        """The number of all ranks, which is also that of one group's shards."""
        self.compare(MLP, MIXED, text="gradient_divide_factor: 4\n", gradient_divide_factor=4.0)


class Resumed(resume.Case):
    def prepare_meshes(self):
        workspace = self.workspace(LLAMA)
        path = workspace.folder / "config.yaml"
        path.write_text(config_of(MIXED))
        return workspace, path

    def test_goes_on(self):
        """Each piece is written once, and a run that goes on is the uninterrupted run."""
        workspace, path = self.prepare_meshes()
        self.check(workspace, "dp=4", RANKS, config=path)

    def test_other_meshes(self):
        """From meshes of groups to one mesh for all, and back: the state is the same, bit for bit."""
        workspace, path = self.prepare_meshes()
        kinds = [("dp=4", RANKS, "flat", path), ("dp=2", 2, "per-param", None),
                 ("dp=4", RANKS, "per-param", path)]  # fmt: skip
        source = expected = None
        for mesh, ranks, layout, config in kinds:
            binary = workspace.compile(mesh, "none", layout, config)
            folder = workspace.folder / f"of-{binary.name}"
            begin = ["--resume", source] if source else ["--steps", 3]
            self.train(workspace, binary, ranks, *begin, "--checkpoint-dir", folder, "--save-every", 3,
                       init=source is None)  # fmt: skip
            source = checkpoints.latest(folder)
            state = checkpoints.assemble(source)
            expected = expected or state
            self.assertIsNone(harness.bitwise_difference(expected, state))


if __name__ == "__main__":
    unittest.main()
