"""Captured models trained on recorded CUDA devices, whose memory and operators are the host's.

Usage: recorded_train_test.py BUILD [unittest's arguments]

BUILD is a build folder. Steps that are scheduled for CUDA, with generated kernels and without, run
through the whole path of --device cuda: eager, captured, and replayed as a graph. Losses, norms and
weights are those of --device cpu, bit for bit, or near where shards are narrow. What is a GPU's own, its operators and its arithmetic,
is not seen here.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../../models"), str(HERE / "../../python"), str(HERE / "../../../tools/python")]
import export
import models
import safetensors_io

BUILD = None
INPUTS = HERE.parents[1] / "Inputs"
STEPS, SAMPLES, LIMIT_S = 6, 16, 300
CUDA = "module attributes {fsdp.target = #fsdp.target<cuda>, "


class Norms(torch.nn.Module):
    """Norms that torch's library for GPUs has as one operator, of enough rows for kernels to add gradients up."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(2048) + 0.5)
        self.rms = torch.nn.RMSNorm(2048, eps=1e-6)
        self.layer = torch.nn.LayerNorm(2048)
        self.register_buffer("rows", torch.randn(2, 2048, 2048))

    def forward(self, factors):
        rows = torch.tanh(self.rms(self.rows * factors.view(2, 1, 1) * self.scale))
        return self.layer(rows * self.scale).pow(3).mean()


class RecordedTrain(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fsdpc-recorded-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.captured = None  # what is in captured.mlir: configuration, flags, optimizer

    def run_tool(self, *command, **options):
        command = list(map(str, command))
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, **options)
        self.assertEqual(done.returncode, 0, f"$ {' '.join(command)}\n{done.stderr}{done.stdout}")
        return done.stdout

    def run_recorded(self, *arguments):
        recorded = BUILD / "recorded"
        return self.run_tool(recorded / "recorded-train", *arguments,
                             env={**os.environ, "LD_LIBRARY_PATH": str(recorded), "OMP_NUM_THREADS": "1"})  # fmt: skip

    def capture(self, config, flags=(), optimizer="adamw"):
        """The step as CPUs run its operators, to be planned for CUDA. A test captures it once."""
        tools = BUILD / "bin"
        model, step = self.folder / "model.pt", self.folder / "captured.mlir"
        asked = config, list(flags), optimizer
        if self.captured == asked:
            return step
        self.captured = asked
        self.data = self.folder / "data.safetensors"
        export.export(config, "script", str(model))
        safetensors_io.save(self.data, models.example_inputs(config, seed=7, batch=SAMPLES))
        self.weights = self.folder / "weights.safetensors"
        self.run_tool(tools / "fsdp-capture", model, *models.input_flags(config), "--optimizer",
                      optimizer, "--lr", "1e-2", "--weights", self.weights, *flags, "-o", step)  # fmt: skip
        text = step.read_text()
        self.assertIn("module attributes {", text)
        step.write_text(text.replace("module attributes {", CUDA, 1))
        return step

    def compile(self, config, mesh, fusion, pipeline, flags, optimizer="adamw"):
        """The step's plan on `mesh`, or on an axis of so many ranks."""
        step = self.capture(config, flags, optimizer)
        mesh = f"dp={mesh}" if isinstance(mesh, int) else mesh
        scheduled, plan = self.folder / "scheduled.mlir", self.folder / "plan.so"
        self.run_tool(BUILD / "bin/fsdp-opt", step, f"--fsdp-pipeline=mesh={mesh} up-to=scheduled fusion={fusion} {pipeline}",
                      "-o", scheduled)  # fmt: skip
        self.run_tool(BUILD / "bin/fsdp-compile", scheduled, "--shared", "-o", plan)
        return plan

    def train(self, plan, ranks, *flags):
        """Losses and norms in all digits, the weights afterwards, and what the run prints."""
        log, weights = self.folder / "log.jsonl", self.folder / "trained.safetensors"
        log.unlink(missing_ok=True)
        printed = self.run_recorded(plan, "--ranks", ranks, "--data", self.data, "--init", self.weights, "--steps",
                                    STEPS, "--seed", 7, "--log", log, "--save", weights, *flags)  # fmt: skip
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(len(lines), STEPS)
        return [(line["loss_hex"], line["grad_norm"]) for line in lines], safetensors_io.load(weights), printed

    def compare(self, run, expected, tolerance):
        figures, weights, _ = run
        expected_figures, expected_weights, _ = expected
        losses = [[float.fromhex(loss) for ranks, _ in lines for loss in ranks] for lines in (figures, expected_figures)]
        torch.testing.assert_close(*losses, rtol=tolerance, atol=0)
        # Squares are added up in another order.
        norms = [[float("nan" if norm is None else norm) for _, norm in lines] for lines in (figures, expected_figures)]
        torch.testing.assert_close(*norms, rtol=max(tolerance, 1e-6), atol=0, equal_nan=True)
        self.assertEqual(set(weights), set(expected_weights))
        bits = lambda values: values.contiguous().view(-1).view(torch.uint8)
        for name, tensor in expected_weights.items():
            if tolerance:
                torch.testing.assert_close(weights[name], tensor, rtol=tolerance, atol=tolerance,
                                           msg=lambda text: f"{name}: {text}")  # fmt: skip
            else:
                self.assertTrue(torch.equal(bits(weights[name]), bits(tensor)), f"{name} differs")

    def check(self, config, ranks, fusion, pipeline="", tolerance=0, flags=(), optimizer="adamw", mesh=None):
        """`flags`: of the capture. `tolerance`: 0: the numbers are the CPU's. `mesh`: None: one axis."""
        plan = self.compile(config, mesh or ranks, fusion, pipeline, flags, optimizer)
        described = self.run_recorded(plan, "--describe")
        self.assertEqual("generated kernels" in described, fusion != "off")
        on_cpus = self.train(plan, ranks, "--device", "cpu")
        runs = {}
        for graph in ("off", "on"):
            with self.subTest(graph=graph):
                run = runs[graph] = self.train(plan, ranks, "--device", "cuda", "--cuda-graph", graph)
                self.assertRegex(run[2], "CUDA graph " + ("on: a step is one graph" if graph == "on" else "off"))
                self.compare(run, on_cpus, tolerance)
        self.compare(runs["on"], runs["off"], 0)
        return plan, runs["off"]

    def test_operators_alone(self):
        self.check(models.Config("llama", dim=32, layers=2), 2, "off")

    def test_parts_of_tensors(self):
        """Operators on slices, whose results have gaps, and memory that is allocated before it is written."""
        self.check(models.Config("mlp", dim=64, layers=4, batch=4), 2, "off")

    def test_generated_kernels(self):
        for fusion in ("exact", "fast"):
            self.check(models.Config("llama", dim=32, layers=2), 2, fusion)

    def test_mixed_precision(self):
        """Products store the gradients of weights in fp32, so that they are rounded once less."""
        config = models.Config("llama", dim=32, layers=2, compute="bf16")
        runs = {}
        for fusion, count in (("off", 0), ("fast", 15)):
            _, runs[fusion] = self.check(config, 2, fusion)
            scheduled = (self.folder / "scheduled.mlir").read_text()
            self.assertEqual(scheduled.count('"mm.dtype"'), count)
        losses = [[float.fromhex(loss) for ranks, _ in runs[fusion][0] for loss in ranks] for fusion in runs]
        torch.testing.assert_close(*losses, rtol=2**-6, atol=0)
        self.assertNotEqual(*losses)

    def test_norms(self):
        """Kernels compute what CPUs have no operators for, as CPUs do by others."""
        torch.manual_seed(0)
        model, self.data, self.weights = (self.folder / name for name in ("model.pt", "data.safetensors", "w.safetensors"))
        torch.jit.script(Norms()).save(model)
        safetensors_io.save(self.data, {"factors": torch.rand(SAMPLES) + 0.5})
        runs = {}
        for target, fusion in (("cpu", "off"), ("cuda", "fast")):
            step, scheduled, plan = (self.folder / f"{target}{suffix}" for suffix in (".mlir", "-s.mlir", ".so"))
            self.run_tool(BUILD / "bin/fsdp-capture", model, "--input", "factors:f32[2]", "--optimizer", "adamw", "--lr",
                          "1e-2", "--target", target, "--weights", self.weights, "-o", step)  # fmt: skip
            self.assertEqual(step.read_text().count('"_fused_rms_norm'), 2 if target == "cuda" else 0)
            self.run_tool(BUILD / "bin/fsdp-opt", step, f"--fsdp-pipeline=mesh=dp=2 up-to=scheduled fusion={fusion}",
                          "-o", scheduled)  # fmt: skip
            self.assertEqual("_norm" in scheduled.read_text().partition("func.func")[2].replace("grad_norm", ""), target == "cpu")
            self.run_tool(BUILD / "bin/fsdp-compile", scheduled, "--shared", "-o", plan)
            runs[target] = self.train(plan, 2, "--device", target)
        self.compare(runs["cuda"], runs["cpu"], 1e-4)

    def test_float8_gathers(self):
        """The device casts shards to float8, by the largest absolute values of all ranks."""
        import float8_gathers_test as float8

        model, step, config = (self.folder / name for name in ("model.pt2", "captured.mlir", "config.yaml"))
        float8.fsdpc.export(float8.Model(), (torch.randn(2, float8.WIDTH),), model, quiet=True)
        self.data, self.weights = self.folder / "data.safetensors", model.with_suffix(".safetensors")
        safetensors_io.save(self.data, {"x": torch.randn(SAMPLES, float8.WIDTH)})
        self.run_tool(BUILD / "bin/fsdp-capture", model, "--optimizer", "adamw", "--lr", "1e-2", "-o", step)
        step.write_text(step.read_text().replace("module attributes {", CUDA, 1))
        runs = []
        for policy in ({}, float8.FLOAT8):
            for layout in ("flat", "per-param"):
                config.write_text(json.dumps({"layout": layout, "mixed_precision": policy}))
                scheduled, plan = self.folder / "scheduled.mlir", self.folder / "plan.so"
                self.run_tool(BUILD / "bin/fsdp-opt", step, f"--fsdp-pipeline=mesh=dp=2 config={config} up-to=scheduled "
                              "fusion=off", "-o", scheduled)  # fmt: skip
                self.assertEqual("fsdp.partial_amax" in scheduled.read_text(), bool(policy))
                self.run_tool(BUILD / "bin/fsdp-compile", scheduled, "--shared", "-o", plan)
                for device in (("cpu",), ("cuda", "--cuda-graph", "off"), ("cuda", "--cuda-graph", "on")):
                    runs.append(self.train(plan, 2, "--device", *device))
        for run in runs:
            self.compare(run, runs[0], 0)

    def test_collectives_of_the_model(self):
        """On the stream of the computation, in a graph too."""
        import fsdpc

        for name in ("contrastive", "statistics"):
            with self.subTest(model=name):
                config = models.Config(name, dim=16, layers=2, batch=4)
                model, step, scheduled, plan = (self.folder / (name + suffix) for suffix in (".pt2", ".mlir", "-s.mlir", ".so"))
                fsdpc.export(models.build(config), models.example_inputs(config), model, ranks=2, quiet=True)
                self.data, self.weights = self.folder / "data.safetensors", model.with_suffix(".safetensors")
                safetensors_io.save(self.data, models.example_inputs(config, seed=7, batch=SAMPLES))
                self.run_tool(BUILD / "bin/fsdp-capture", model, "--optimizer", "adamw", "--lr", "1e-2", "-o", step)
                step.write_text(step.read_text().replace("module attributes {", CUDA, 1))
                self.run_tool(BUILD / "bin/fsdp-opt", step, "--fsdp-pipeline=mesh=dp=2 up-to=scheduled fusion=fast", "-o", scheduled)
                self.run_tool(BUILD / "bin/fsdp-compile", scheduled, "--shared", "-o", plan)
                expected = self.train(plan, 2, "--device", "cpu")
                for graph in ("off", "on"):
                    run = self.train(plan, 2, "--device", "cuda", "--cuda-graph", graph)
                    self.assertIn(f"CUDA graph {graph}", run[2])
                    self.compare(run, expected, 0)

    def test_mixed_precision_of_microbatches(self):
        self.check(models.Config("llama", dim=32, layers=2, compute="bf16", batch=2), 2, "fast", "microbatches=2")
        self.assertIn('"mm.dtype"', (self.folder / "scheduled.mlir").read_text())

    def test_narrow_shards(self):
        """They are updated in fp32 here, operator by operator on a CPU."""
        self.check(models.Config("llama", dim=32, layers=2, dtype="bf16"), 2, "off", tolerance=2**-6)

    def test_optimizers(self):
        """With options, clipping, parameter groups, and state of a dtype of its own."""
        config = models.Config("llama", dim=32, layers=2)
        (self.folder / "groups.yaml").write_text(
            "groups: [{modules: ['layers.*']}]\noptimizer: {groups: [{max_dims: 1, weight_decay: 0.0, lr: 2.0e-3}]}\n")
        for optimizer, *flags in (("nadam", "--weight-decay", "0.1", "--momentum-decay", "0.1"),
                                  ("radam", "--weight-decay", "0.1", "--decoupled-weight-decay"),
                                  ("rmsprop", "--weight-decay", "0.1", "--momentum", "0.9", "--centered",
                                   "--optimizer-state-dtype", "grad_avg=bfloat16")):  # fmt: skip
            with self.subTest(optimizer=optimizer):
                self.check(config, 2, "off", f"config={self.folder / 'groups.yaml'}", optimizer=optimizer,
                           flags=[*flags, "--clip-grad-norm", "0.5"])  # fmt: skip

    def test_clipping_by_value(self):
        """To a value of which most gradients have more, also of parameters in bf16 whose state is in fp32."""
        for dtype, flags, tolerance in (("f32", [], 0), ("bf16", ["--optimizer-state-dtype", "float32"], 2**-6)):
            with self.subTest(dtype=dtype):
                self.check(models.Config("llama", dim=32, layers=2, dtype=dtype), 2, "off", tolerance=tolerance,
                           flags=[*flags, "--clip-grad-value", "1e-4"])  # fmt: skip

    def test_loss_scale(self):
        """Some steps overflow, which the device decides, in a graph too, and the host learns from the norm."""
        flags = ["--param-dtype", "float16", "--ema-decay", 0.9, "--loss-scale", 2.0**22, "--loss-scale-backoff-factor",
                 0.25, "--loss-scale-growth-factor", 16, "--loss-scale-growth-interval", 1]  # fmt: skip
        config = models.Config("mlp", dim=32, layers=2, batch=2)
        for more, pipeline in (([], ""), (["--clip-grad-norm", 0.5], "offload-policy=cpu microbatches=2"),
                               (["--clip-grad-value", 1e-4], "")):  # fmt: skip
            with self.subTest(pipeline=pipeline, more=more):
                _, (figures, _, printed) = self.check(
                    config, 2, "off", f"param-dtype=float16 reduce-dtype=float32 {pipeline}",
                    flags=list(map(str, flags + more)))  # fmt: skip
                skipped = [norm is None for _, norm in figures]
                self.assertTrue(skipped[0] and True in skipped[skipped.index(False):], skipped)
                self.assertIn("gradients are not finite at a loss scale of 4194304: no update", printed)

    def test_dropout(self):
        self.check(models.Config("gpt2", dim=32, layers=2, dropout=0.1), 2, "fast")

    def test_one_rank_and_microbatches(self):
        self.check(models.Config("llama", dim=32, layers=2, batch=2), 1, "fast", "microbatches=2")

    def test_offloaded(self):
        """Parameters, states and, while they wait for each other and for the norm, gradients."""
        pipeline = "offload-policy=cpu microbatches=2"
        plan, run = self.check(models.Config("llama", dim=32, layers=2, batch=2), 2, "off", pipeline,
                               flags=["--clip-grad-norm", "0.5"])  # fmt: skip
        pageable = self.train(plan, 2, "--device", "cuda", "--cuda-graph", "on", "--pin-memory", "off")
        self.assertIn("CUDA graph off: what lies on the host is not pinned (--pin-memory off)", pageable[2])
        self.compare(pageable, run, 0)

    def test_offloaded_activations(self):
        for fusion, pipeline in (("off", ""), ("fast", "schedule=auto device=h100")):
            with self.subTest(fusion=fusion):
                plan, _ = self.check(models.Config("llama", dim=32, layers=4), 2, fusion,
                                     f"offload-activations=all {pipeline}")  # fmt: skip
                described = self.run_recorded(plan, "--describe")
                self.assertRegex(described, r"on the host: \S+ \w+ of gradients, activations and chunks")

    def test_average(self):
        """The moving average of the weights, in another dtype than narrow weights."""
        average = self.folder / "average.safetensors"
        for dtype, flags, tolerance in (("f32", [], 0), ("bf16", ["--optimizer-state-dtype", "ema=float32"], 2**-6)):
            config = models.Config("llama", dim=32, layers=2, dtype=dtype)
            plan = self.compile(config, 2, "off", "", ["--ema-decay", "0.9", *flags])
            runs = {}
            for device in ("cpu", "cuda"):
                run = self.train(plan, 2, "--device", device, "--save-ema", average)
                runs[device] = (run[0], safetensors_io.load(average), run[2])
            self.compare(runs["cuda"], runs["cpu"], tolerance)
            self.assertFalse(torch.equal(*(weights["norm.weight"] for weights in (runs["cuda"][1], run[1]))))

    def test_searched_schedule(self):
        self.check(models.Config("llama", dim=32, layers=3), 2, "fast", "schedule=auto device=h100")

    def check_chunks(self, fusion, pipeline, options=""):
        """Of four ranks, `pipeline` lets some keep chunks together; without it the numbers are the same. `options`: of both."""
        config = models.Config("llama", dim=32, layers=3, batch=2)
        _, run = self.check(config, 4, fusion, f"{pipeline} {options}")
        scheduled = (self.folder / "scheduled.mlir").read_text()
        self.assertIn(" = fsdp.chunk(", scheduled)
        plain = self.compile(config, 4, fusion, options, ())
        self.compare(run, self.train(plain, 4, "--device", "cpu"), 0)
        return scheduled

    def test_chunks(self):
        """Two neighbours gather from each other in the backward."""
        for fusion, options in (("off", ""), ("fast", "microbatches=2"), ("fast", "layout=per-param")):
            with self.subTest(fusion=fusion, options=options):
                self.check_chunks(fusion, "reshard-after-forward=2", options)

    def test_searched_chunks(self):
        """Under a cap the ranks of a host keep chunks, on the device or on the host."""
        for hosts, microbatches, where in (("two-per-host", 1, "none"), ("two-per-host", 1, "auto"),
                                           ("two-per-host", 2, "auto"), ("one-per-host", 1, "auto")):  # fmt: skip
            with self.subTest(hosts=hosts, microbatches=microbatches, offload_chunks=where):
                search, options = f"schedule=auto device=h100 network={INPUTS / hosts}.json", f"microbatches={microbatches}"
                step = self.capture(models.Config("llama", dim=32, layers=3, batch=2))
                refusal = subprocess.run([BUILD / "bin/fsdp-opt", step, f"--fsdp-pipeline=mesh=dp=4 {search} {options} fusion=off memory-cap=1"],
                                         capture_output=True, text=True)  # fmt: skip
                least = int(re.search(r"at least (\d+) bytes are live", refusal.stderr)[1])
                scheduled = self.check_chunks("off", f"{search} memory-cap={least + least // 20} offload-chunks={where}", options)
                self.assertEqual(" : !fsdp.host<" in scheduled, where == "auto")

    def test_replicas(self):
        """Gradients are averaged over two replicas, or added up and divided by the ranks."""
        divided, summed = self.folder / "divided.yaml", self.folder / "summed.yaml"
        divided.write_text("gradient_divide_factor: 3\n")
        summed.write_text("force_sum_reduction_for_comms: true\n")
        for pipeline in ("", "microbatches=2 gradient-sync=reduce_scatter", "schedule=auto device=h100", f"config={divided}",
                         f"config={summed}"):  # fmt: skip
            with self.subTest(pipeline=pipeline):
                self.check(models.Config("llama", dim=32, layers=2, batch=2), 4, "off", pipeline, mesh="replicate=2,shard=2",
                           optimizer="sgd", flags=["--clip-grad-norm", "0.5"])  # fmt: skip

    def test_group_meshes(self):
        """Groups that are replicated beside a root that is not."""
        (self.folder / "meshes.yaml").write_text("groups: [{modules: ['layers.*'], mesh: {replicate: 2, shard: 2}}]\n")
        self.check(models.Config("llama", dim=32, layers=2), 4, "off", f"config={self.folder / 'meshes.yaml'}")


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
