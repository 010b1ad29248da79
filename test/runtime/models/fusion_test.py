"""Generated kernels beside the operators that they stand for: trained by both, bit for bit.

Usage: fusion_test.py TOOLS [unittest's arguments]

TOOLS is the folder of fsdpc. Models of test/models are trained with --fusion off and exact, in fp32 and
in mixed precision, on 1 rank and on 2: losses, gradient norms and weights are equal. With --fusion fast
they are near.
"""

import collections
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../../models"), str(HERE / "../../../tools/python"), str(HERE / "../../../tools/demo")]
import export
import models
import safetensors_io
from decoder import Decoder

TOOLS = None
STEPS, SAMPLES, LIMIT_S = 3, 16, 300
BF16 = ["--param-dtype", "bfloat16", "--reduce-dtype", "float32"]


class LossModel(torch.nn.Module):
    """Logits of tokens, and a loss of them."""

    def __init__(self, vocab=80, dim=32):
        super().__init__()
        self.vocab = vocab
        self.embedding = torch.nn.Embedding(vocab, dim)
        self.head = torch.nn.Linear(dim, vocab, bias=False)
        self.register_buffer("weights", torch.rand(vocab) + 0.5)

    def logits(self, tokens):
        return self.head(self.embedding(tokens)).float().view(-1, self.vocab)


class Sum(LossModel):
    def forward(self, tokens, targets):
        return F.cross_entropy(self.logits(tokens), targets.view(-1), ignore_index=0, reduction="sum") / 64


class Ignored(LossModel):
    def forward(self, tokens, targets):
        return F.cross_entropy(self.logits(tokens), targets.view(-1), ignore_index=0)


class IgnoredBehindAll(LossModel):
    def forward(self, tokens, targets):
        targets = torch.where(targets == 0, 255, targets)
        return F.cross_entropy(self.logits(tokens), targets.view(-1), ignore_index=255)


class Smoothed(LossModel):
    def forward(self, tokens, targets):
        return F.cross_entropy(self.logits(tokens), targets.view(-1), ignore_index=0, label_smoothing=0.1)


class Weighted(LossModel):
    def forward(self, tokens, targets):
        return F.cross_entropy(self.logits(tokens), targets.view(-1), weight=self.weights)


class WeightedSum(LossModel):
    def forward(self, tokens, targets):
        loss = F.cross_entropy(self.logits(tokens), targets.view(-1), self.weights, ignore_index=0, reduction="sum")
        return loss / 64


class WeightedAndSmoothed(LossModel):
    def forward(self, tokens, targets):
        return F.cross_entropy(self.logits(tokens), targets.view(-1), self.weights, ignore_index=0, label_smoothing=0.1)


class Each(LossModel):
    def forward(self, tokens, targets):
        each = F.cross_entropy(self.logits(tokens), targets.view(-1), reduction="none")
        return (each * (targets.view(-1) % 3)).mean()


class EachWeightedAndSmoothed(LossModel):
    def forward(self, tokens, targets):
        each = F.cross_entropy(self.logits(tokens), targets.view(-1), self.weights, ignore_index=0,
                               label_smoothing=0.1, reduction="none")  # fmt: skip
        return (each * each).mean()


class Picked(LossModel):
    def forward(self, tokens, targets):
        logs = torch.log_softmax(self.logits(tokens).view(targets.size(0), -1, self.vocab), -1)
        return -logs.gather(-1, targets.unsqueeze(-1)).squeeze(-1).mean()


class WithSquaredLogarithm(LossModel):
    def forward(self, tokens, targets):
        logits = self.logits(tokens)
        return F.cross_entropy(logits, targets.view(-1)) + 0.1 * logits.logsumexp(-1).pow(2).mean()


class Scaled(LossModel):
    """Weights whose gradients are sums over 4096 rows of what a kernel computes."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(2048) + 0.5)
        self.norm = torch.nn.LayerNorm(2048)
        self.register_buffer("rows", torch.randn(4096, 2048).bfloat16())

    def forward(self, tokens, targets):
        scaled = torch.tanh(self.norm(self.rows * self.scale))
        return F.cross_entropy(self.logits(tokens), targets.view(-1)) + scaled.view(2, 2048, 2048).mean()


LOSSES = [Sum, Ignored, IgnoredBehindAll, Smoothed, Weighted, WeightedSum, WeightedAndSmoothed, Each,
          EachWeightedAndSmoothed, Picked, WithSquaredLogarithm]  # fmt: skip


class Fusion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fsdpc-fusion-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_tool(self, *command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, f"$ {' '.join(map(str, command))}\n{done.stderr}")
        return done

    def train(self, config, ranks, fusion, flags, evaluates=False):
        """Losses, norms and evaluations in all digits, the weights afterwards, and the plan's number of
        launches. `config`: of a model of test/models, the demo's, or a LossModel."""
        model, data = self.folder / "model.pt", self.folder / "data.safetensors"
        loss, config = (config, models.Config("llama", vocab=80, seq=12)) if isinstance(config, type) else (None, config)
        if loss and not model.exists():
            torch.manual_seed(0)
            torch.jit.script(loss()).save(model)
            tokens = torch.randint(config.vocab, (2, SAMPLES, config.seq))
            tokens[1, :, ::5] = 0
            safetensors_io.save(data, {"tokens": tokens[0].clone(), "targets": tokens[1].clone()})
        if not model.exists() and config.model == "demo":
            torch.manual_seed(0)
            torch.jit.script(Decoder(config.vocab, config.dim, config.layers, config.heads, 2, config.seq)).save(model)
            tokens = torch.randint(config.vocab, (2, SAMPLES, config.seq))
            safetensors_io.save(data, {"tokens": tokens[0].clone(), "targets": tokens[1].clone()})
        elif not model.exists():
            export.export(config, "script", str(model))
            safetensors_io.save(data, models.example_inputs(config, seed=7, batch=SAMPLES))
        inputs = models.input_flags(dataclasses.replace(config, model="llama") if config.model == "demo" else config)
        binary = self.folder / f"{fusion}-{ranks}"
        evaluation = ["--eval-model", model] if evaluates else []
        self.run_tool(TOOLS / "fsdpc", model, *evaluation, *inputs, "--optimizer",
                      "adamw", "--lr", "1e-2", "--mesh", f"dp={ranks}", "--fusion", fusion, *flags,
                      "--save-temps", self.folder, "-o", binary)  # fmt: skip
        log, weights = binary.with_suffix(".jsonl"), binary.with_suffix(".trained.safetensors")
        evaluation = ["--eval-data", data, "--eval-every", 1, "--eval-steps", 1] if evaluates else []
        self.run_tool(binary, "--ranks", ranks, "--data", data, "--steps", STEPS, "--log", log, "--save",
                      weights, *evaluation, "--quiet")  # fmt: skip
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        launches = (self.folder / "planned.mlir").read_text().count("fsdp.launch")
        figures = [(line["loss_hex"], line.get("grad_norm")) for line in lines]
        self.assertEqual(len(figures), STEPS * (1 + evaluates))
        return figures, safetensors_io.load(weights), launches

    def check(self, config, ranks, flags, evaluates=False):
        with self.subTest(model=config.model, ranks=ranks, flags=flags):
            figures, weights, launches = self.train(config, ranks, "exact", flags, evaluates)
            self.assertGreater(launches, 0)
            expected, expected_weights, none = self.train(config, ranks, "off", flags, evaluates)
            self.assertEqual(none, 0)
            self.assertEqual(figures, expected)
            self.assertEqual(set(weights), set(expected_weights))
            for name, tensor in expected_weights.items():
                bits = lambda values: values.contiguous().view(-1).view(torch.uint8)
                self.assertTrue(torch.equal(bits(weights[name]), bits(tensor)), f"{name} differs")

    def test_fp32(self):
        for config, numbers in (
            (models.Config("llama", dim=64, layers=2), (1, 2)),
            (models.Config("gpt2", dim=64, layers=2, dropout=0.1), (2,)),
            (models.Config("vit", dim=32, dropout=0.1), (1,)),
            (models.Config("moe", dim=32), (2,)),
        ):
            for file in self.folder.iterdir():
                file.unlink()
            for ranks in numbers:
                self.check(config, ranks, [])

    def test_mixed_precision(self):
        for ranks in (1, 2):
            self.check(models.Config("llama", dim=64, layers=2, compute="bf16"), ranks, [])

    def test_param_dtype(self):
        self.check(models.Config("demo", dim=32, layers=2), 2, BF16)

    def test_bf16(self):
        self.check(models.Config("llama", dim=64, layers=2, dtype="bf16"), 2, [])

    def test_without_recomputation(self):
        self.check(models.Config("llama", dim=64, layers=2), 2, ["--recompute", "none", "--layout", "per-param"])

    def test_recomputation_and_microbatches(self):
        accumulation = ["--microbatches", 2, "--gradient-sync", "last", "--reshard-after-backward", "false"]
        for flags in (["--recompute", "full"], ["--recompute", "selected", "--microbatches", 2], accumulation):
            self.check(models.Config("llama", dim=64, layers=2, batch=2), 2, flags)

    def test_searched(self):
        """Kernels are made before the search, which moves collectives between them."""
        searched = ["--schedule", "auto", "--budget", 100]
        for flags in ([], ["--memory-cap", "1270000"], ["--layout", "per-param", "--microbatches", 2]):
            self.check(models.Config("llama", dim=64, layers=2, batch=2), 2, searched + flags)

    def test_evaluation(self):
        self.check(models.Config("gpt2", dim=64, layers=2, dropout=0.1), 2, [], evaluates=True)

    def refuse(self, planned, text, message):
        planned.write_text(text)
        done = subprocess.run([TOOLS / "fsdp-compile", planned, "-o", self.folder / "edited"],
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn(message, done.stderr)

    def test_a_kernel_cannot_compute_something_else(self):
        self.train(models.Config("llama", dim=64, layers=1), 2, "exact", [])
        planned = self.folder / "planned.mlir"
        text = planned.read_text()
        kernel = text.index("fsdp.kernel")
        something_else = "S9: the step computes something else than what was captured"
        self.assertIn("1.000000e-05", text[kernel:])  # of the norm
        self.refuse(planned, text[:kernel] + text[kernel:].replace("1.000000e-05", "2.000000e-05", 1),
                    something_else)  # fmt: skip
        # The operands of a launch, of one type, change places.
        launches = re.finditer(r"fsdp\.launch @\S+?\((.*?)\).* : \((.*)\) -> ", text)
        swapped = []
        for launch in launches:
            operands, types = launch[1].split(", "), re.findall(r"tensor<[^>]*>", launch[2])
            self.assertEqual(len(operands), len(types))
            pairs = [(i, j) for i in range(len(types)) for j in range(i) if types[i] == types[j]]
            for i, j in pairs[:1]:
                operands[i], operands[j] = operands[j], operands[i]
                swapped.append(text[:launch.start(1)] + ", ".join(operands) + text[launch.end(1):])
        self.assertGreater(len(swapped), 2)
        for edited in swapped:
            self.refuse(planned, edited, something_else)

    def test_a_run_moves_the_bytes_of_the_account(self):
        """Each kernel and operator of a traced step: as often, and with as many bytes, as fsdp-fuse says."""
        config = models.Config("llama", dim=64, layers=2, compute="bf16")
        for fusion in ("off", "exact", "fast"):
            self.train(config, 1, fusion, [])
            trace = self.folder / "trace.json"
            self.run_tool(self.folder / f"{fusion}-1", "--data", self.folder / "data.safetensors", "--steps", 3,
                          "--trace", trace, "--kernels", "torch", "--threads", 1, "--quiet")  # fmt: skip
            moved = collections.Counter(), collections.Counter()
            for event in json.loads(trace.read_text())["traceEvents"]:
                if "bytes" in event.get("args", {}):
                    moved[0][event["args"]["operator"]] += 1
                    moved[1][event["args"]["operator"]] += event["args"]["bytes"]
            self.assertEqual([name for name in moved[0] if name.startswith("fused")] == [], fusion == "off")
            remarks = self.run_tool(TOOLS / "fsdp-opt", self.folder / "captured.mlir", "--remarks-filter-analyse=fsdp-fuse",
                                    f"--fsdp-pipeline=mesh=dp=1 fusion={fusion}", "-o", "/dev/null").stderr  # fmt: skip
            movers = re.findall(r"Bytes=(\d+), Operator=(\S+), Times=(\d+)", remarks)
            self.assertEqual(movers == [], fusion == "off")
            if fusion == "off":
                unfused = sum(moved[1].values())
                continue
            for size, name, times in movers:
                if not name.startswith(("embedding", "nll_loss", "ones_like")):  # they read less than their operands
                    self.assertEqual((moved[0][name], moved[1][name]), (int(times), int(size)), name)
            self.assertLess(sum(moved[1].values()), unfused)

    def check_near(self, config, ranks=2):
        figures, _, launches = self.train(config, ranks, "fast", [])
        expected, _, _ = self.train(config, ranks, "off", [])
        self.assertGreater(launches, 0)
        for (loss, _), (near, _) in zip(figures, expected):
            got, wanted = ([float.fromhex(x) for x in line] for line in (loss, near))
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=0)

    def test_fast_is_near(self):
        for name in ("llama", "gpt2"):
            for file in self.folder.iterdir():
                file.unlink()
            self.check_near(models.Config(name, dim=64, layers=2))

    def test_sums_of_columns(self):
        """A kernel adds up chunks of rows, and stores nothing of the rows' size for torch's sum."""
        for flags in ([], BF16):
            with self.subTest(flags=flags):
                for file in self.folder.iterdir():
                    file.unlink()
                figures, _, _ = self.train(Scaled, 2, "fast", flags)
                launches = re.findall(r"fsdp\.launch .*", (self.folder / "planned.mlir").read_text())
                results = [line.split(" -> ")[1] for line in launches]
                self.assertEqual(sum(types.count("tensor<512x2048xf32>") for types in results), 3)
                self.assertNotIn("native_layer_norm", (self.folder / "planned.mlir").read_text())
                expected, _, _ = self.train(Scaled, 2, "off", flags)
                for (got, norm), (wanted, wanted_norm) in zip(figures, expected):
                    got, wanted = ([float.fromhex(x) for x in line] for line in (got, wanted))
                    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=0)
                    torch.testing.assert_close(norm, wanted_norm, rtol=1e-3 if flags else 1e-5, atol=0)

    def test_losses(self):
        """Each is near torch's; a kernel stores no probabilities in fp32."""
        for loss in LOSSES:
            for flags in ([], BF16):
                with self.subTest(loss=loss.__name__, flags=flags):
                    for file in self.folder.iterdir():
                        file.unlink()
                    figures, _, _ = self.train(loss, 2, "fast", flags)
                    # Of the logits' size it stores these and their gradient, in the product's dtype.
                    step = re.search(r"func\.func @step.*", (self.folder / "planned.mlir").read_text(), re.DOTALL)[0]
                    results = re.findall(r" at \[.* -> (tensor<(?:48|4x12)x80x\w+>)", step)
                    self.assertEqual([result[-5:-1].lstrip("x") for result in results], 2 * ["bf16" if flags else "f32"])
                    expected, expected_weights, _ = self.train(loss, 2, "off", flags)
                    for (got, _), (wanted, _) in zip(figures, expected):
                        got, wanted = ([float.fromhex(x) for x in line] for line in (got, wanted))
                        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=0)
                    if not flags:
                        figures, weights, _ = self.train(loss, 2, "exact", flags)
                        self.assertEqual(figures, expected)
                        for name, tensor in expected_weights.items():
                            self.assertTrue(torch.equal(weights[name], tensor), name)

    def test_targets(self):
        """Some are ignored; one that is no class is an error, also where a kernel looks it up."""
        config = models.Config("llama", dim=64, layers=1)
        self.train(config, 1, "off", [])
        data = self.folder / "data.safetensors"
        inputs = safetensors_io.load(data)
        inputs["targets"][::2, ::3] = -100
        safetensors_io.save(data, inputs)
        self.check_near(config)
        for bad in (config.vocab, -1):
            inputs["targets"][0, 1] = bad
            safetensors_io.save(data, inputs)
            for fusion in ("off", "fast"):
                done = subprocess.run([self.folder / f"{fusion}-2", "--ranks", "2", "--data", data, "--steps", "1"],
                                      capture_output=True, text=True, timeout=LIMIT_S)  # fmt: skip
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"of input 'targets' is {bad}, expected", done.stderr)

    def test_targets_of_a_loss_that_ignores_a_class(self):
        self.check_bad_targets(Ignored)

    def test_targets_that_are_picked(self):
        self.check_bad_targets(Picked)

    def check_bad_targets(self, loss):
        self.train(loss, 1, "fast", [])
        data = self.folder / "data.safetensors"
        inputs = safetensors_io.load(data)
        for bad in (80, -1):
            inputs["targets"][0, 1] = bad
            safetensors_io.save(data, inputs)
            done = subprocess.run([self.folder / "fast-1", "--data", data, "--steps", "1"], capture_output=True,
                                  text=True, timeout=LIMIT_S)  # fmt: skip
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"of input 'targets' is {bad}, expected", done.stderr)


if __name__ == "__main__":
    TOOLS = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
