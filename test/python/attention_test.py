#!/usr/bin/env python3
"""tools/python/fsdpc: attention in a forward, beside torch's own: flex_attention, and the flags of sdpa_kernel. torch refuses
derivatives of flex_attention on CPUs, although it has formulas for them; here it may use them."""

import contextlib
import io
import json
import subprocess
import unittest
import unittest.mock

import torch
import torch.nn as nn
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, flex_attention as flex, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

import exported
import fsdpc  # exported says where it is

compiled_attention, compiled_mask = torch.compile(flex_attention), torch.compile(create_block_mask)
STEPS, SAMPLES, LENGTH, HEADS = 3, 2, 24, 4


def is_causal(b, h, q, k):
    return q >= k


CAUSAL = create_block_mask(is_causal, None, None, LENGTH, LENGTH, device="cpu")


class Attention(nn.Module):
    """`attend(model, q, k, v, document)`: q [samples, heads, length, 8]; k, v of `keys` heads."""

    def __init__(self, attend, keys=HEADS, dtype=torch.float32):
        super().__init__()
        self.attend, self.keys, self.dtype = attend, keys, dtype
        self.blocks = nn.ModuleList(nn.Linear(8 * HEADS, 8 * (HEADS + 2 * keys)) for _ in range(2))
        self.register_buffer("slopes", torch.tensor([0.5, 0.25, 0.125, 0.0625]))

    def forward(self, x, document):
        for block in self.blocks:
            heads = block(x).to(self.dtype).unflatten(-1, (-1, 8)).transpose(1, 2)
            q, k, v = heads.split((HEADS, self.keys, self.keys), dim=1)
            x = x + self.attend(self, q, k, v, document).transpose(1, 2).flatten(2)
        return x.square().mean()


def everything(model, q, k, v, document):
    return flex_attention(q, k, v)


def causal(model, q, k, v, document):
    mask = create_block_mask(is_causal, None, None, LENGTH, LENGTH, device="cpu")
    return flex_attention(q, k, v, block_mask=mask, scale=0.3)


def compiled(model, q, k, v, document):
    mask = compiled_mask(is_causal, None, None, LENGTH, LENGTH, device="cpu")
    return compiled_attention(q, k, v, block_mask=mask)


def of_the_module(model, q, k, v, document):
    return flex.flex_attention(q, k, v, block_mask=CAUSAL)


def documents(model, q, k, v, document):
    mask = lambda b, h, q, k: (q >= k) & (document[b, q] == document[b, k])
    return flex_attention(q, k, v, block_mask=create_block_mask(mask, SAMPLES, None, LENGTH, LENGTH, device="cpu"))


def windows(model, q, k, v, document):
    """Of another width for each head."""
    mask = lambda b, h, q, k: (q >= k) & (q - k <= 2 * h)
    return flex_attention(q, k, v, block_mask=create_block_mask(mask, None, HEADS, LENGTH, LENGTH, device="cpu"))


def padding(model, q, k, v, document):
    """Queries of document 0 attend to nothing."""
    mask = lambda b, h, q, k: (document[b, q] > 0) & (document[b, k] > 0)
    return flex_attention(q, k, v, block_mask=create_block_mask(mask, SAMPLES, None, LENGTH, LENGTH, device="cpu"))


def constant_padding(model, q, k, v, document):
    mask = create_block_mask(lambda b, h, q, k: (q > 3) & (k > 3), None, None, LENGTH, LENGTH, device="cpu")
    return flex_attention(q, k, v, block_mask=mask)


def few_keys(model, q, k, v, document):
    return flex_attention(q, k, v, block_mask=CAUSAL, enable_gqa=True)


def soft_cap(model, q, k, v, document):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, q, k: 5 * torch.tanh(score / 5), block_mask=CAUSAL)


def slopes(model, q, k, v, document):
    """ALiBi."""
    return flex_attention(q, k, v, score_mod=lambda score, b, h, q, k: score + model.slopes[h] * (k - q))


def unused(model, q, k, v, document):
    """As transformers calls it: with a function that may change scores, and on GPUs for sums that it does not read."""
    change = lambda score, b, h, q, k: score if model.slopes.dim() else score + 1
    return flex_attention(q, k, v, score_mod=change, block_mask=CAUSAL, return_lse=True)[0]


def few_keys_of_documents(model, q, k, v, document):
    mask = lambda b, h, q, k: (q >= k) & (document[b, q] == document[b, k])
    mask = create_block_mask(mask, SAMPLES, None, LENGTH, LENGTH, device="cpu")
    return flex_attention(q, k, v, block_mask=mask, enable_gqa=True)


def sums(model, q, k, v, document):
    """With the logarithms of the sums."""
    result, extra = flex_attention(q, k, v, block_mask=CAUSAL, return_aux=flex.AuxRequest(lse=True))
    return result + 0.1 * extra.lse.unsqueeze(-1)


class Trained(exported.Exported):
    """Steps beside those of torch."""

    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.data = {
            "x": torch.randn(STEPS * SAMPLES, LENGTH, 8 * HEADS),
            "document": torch.randint(0, 4, (STEPS * SAMPLES, LENGTH)).sort().values,
        }

    def batch(self, step):
        return {name: tensor[SAMPLES * step :][:SAMPLES] for name, tensor in self.data.items()}

    def make(self, *arguments, **options):
        torch.manual_seed(1)
        return Attention(*arguments, **options)

    def export(self, model):
        fsdpc.export(model, self.batch(0), self.path, quiet=True)
        return self.capture()

    def train(self, model):
        """The losses of torch, which updates the weights."""
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
        with unittest.mock.patch.object(flex, "_validate_device"), torch.compiler.set_stance("force_eager"):
            for step in range(STEPS):
                optimizer.zero_grad()
                loss = model(**self.batch(step))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses

    def run_binary(self, *flags):
        binary, log, saved, data = (self.folder / name for name in ("train", "log.jsonl", "saved.safetensors", "data.safetensors"))
        log.unlink(missing_ok=True)
        save_file(self.data, data)
        self.compile("--mesh", "dp=1", "--optimizer", "sgd", "--lr", "0.1", *flags, "-o", binary)
        subprocess.run([binary, "--data", data, "--steps", str(STEPS), "--log", log, "--save", saved, "--init",
                        self.path.with_suffix(".safetensors")], check=True, capture_output=True)  # fmt: skip
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [float.fromhex(line["loss_hex"][0]) for line in lines if "loss_hex" in line], load_file(saved)

    def check(self, model, *flags, tolerance=2e-6, reference=None):
        code = self.export(model)
        model = reference or model
        losses = self.train(model)
        own, saved = self.run_binary(*flags)
        torch.testing.assert_close(own, losses, rtol=tolerance, atol=0)
        for name, tensor in model.named_parameters():
            torch.testing.assert_close(saved[name], tensor.detach(), rtol=0, atol=tolerance, msg=name)
        return code


class Flex(Trained):
    def test_numbers(self):
        for attend in (everything, causal, compiled, of_the_module, documents, windows, padding, constant_padding, soft_cap,
                       slopes, unused, sums):  # fmt: skip
            with self.subTest(attend.__name__):
                self.check(self.make(attend))

    def test_learned_scores(self):
        """A table of scores by distance. torch's eager version has no gradients of it, so the formula is written out."""
        by_function = lambda model, q, k, v, document: flex_attention(
            q, k, v, score_mod=lambda score, b, h, q, k: score + model.table[h, q - k + LENGTH], block_mask=CAUSAL)  # fmt: skip

        def by_formula(model, q, k, v, document):
            distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
            scores = q @ k.mT / 8**0.5 + model.table[:, distance + LENGTH]
            return scores.masked_fill(distance < 0, -torch.inf).softmax(-1) @ v

        def make(attend):
            model = self.make(attend)
            model.table = nn.Parameter(0.1 * torch.randn(HEADS, 2 * LENGTH, generator=torch.Generator().manual_seed(2)))
            return model

        self.check(make(by_function), reference=make(by_formula))

    def test_few_keys(self):
        for attend in (few_keys, few_keys_of_documents):
            with self.subTest(attend.__name__):
                self.check(self.make(attend, keys=2))

    def test_bf16(self):
        for attend in (documents, soft_cap):
            with self.subTest(attend.__name__):
                self.check(self.make(attend, dtype=torch.bfloat16), tolerance=2e-3)

    def test_options(self):
        """Recomputed, and in kernels."""
        for attend in (documents, soft_cap):
            with self.subTest(attend.__name__):
                self.check(self.make(attend), "--recompute", "full", "--fusion", "fast")

    def test_messages(self):
        """None, also of functions that are not to be compiled, as transformers calls attention; refusals name the lengths."""

        class Attend:
            @torch.compiler.disable(recursive=False)
            def __call__(self, model, *arguments):
                return compiled(model, *arguments)

        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            fsdpc.export(self.make(Attend()), self.batch(0), self.path)
        self.assertEqual(said.getvalue(), "")

        def short(model, q, k, v, document):
            return flex_attention(q[:, :, 1:], k, v, block_mask=CAUSAL)

        with self.assertRaisesRegex(fsdpc.ExportError, r"the block mask is of \(24, 24\) queries and keys, but there are \(23, 24\)"):
            fsdpc.export(self.make(short), self.batch(0), self.path, quiet=True)

    def test_causal_masks_are_no_tensors(self):
        for attend in (everything, causal, compiled, of_the_module, unused):
            with self.subTest(attend.__name__):
                code = self.export(self.make(attend))
                self.assertNotIn('"masked_fill', code)
                self.assertNotIn("_safe_softmax", code)

    def test_blocks_share_a_mask(self):
        def attend(model, q, k, v, document):
            return flex_attention(q, k, v, block_mask=model.mask)

        class Shared(Attention):
            def forward(self, x, document):
                mask = lambda b, h, q, k: (q >= k) & (document[b, q] == document[b, k])
                self.mask = create_block_mask(mask, SAMPLES, None, LENGTH, LENGTH, device="cpu")
                return super().forward(x, document)

        for flags in ([], ["--recompute", "full"]):
            code = self.check(Shared(attend), *flags)
            self.assertEqual(code.count('"masked_fill'), 1, code)


class MathForm(Trained):
    """Attention whose flags leave a CPU the math form alone has the bits of torch's."""

    def check_bits(self, attend, **options):
        self.check(self.make(attend, **options), tolerance=0)

    def targets(self):
        graphs = [module.graph for module in torch.export.load(self.path).graph_module.modules() if hasattr(module, "graph")]
        return [str(node.target) for graph in graphs for node in graph.nodes if "product_attention" in str(node.target)]

    def expect_math(self):
        self.assertEqual(self.targets(), ["aten._scaled_dot_product_attention_math.default"] * 2)

    def test_region(self):
        """With a mask of positions, of bools, of scores, and with grouped heads."""
        def attend(**options):
            def run(model, q, k, v, document):
                mask = {"attn_mask": options["mask"](document)} if "mask" in options else options
                with sdpa_kernel(SDPBackend.MATH):
                    return scaled_dot_product_attention(q, k, v, **mask)

            return run

        allowed = lambda document: (document[:, :, None] == document[:, None])[:, None]  # noqa: E731
        for name, keys, options in (("everything", HEADS, {}), ("causal", HEADS, {"is_causal": True, "scale": 0.3}),
                                    ("bools", HEADS, {"mask": allowed}), ("scores", HEADS, {"mask": lambda d: 0.5 * allowed(d)}),
                                    ("grouped", 2, {"enable_gqa": True})):  # fmt: skip
            with self.subTest(name):
                self.check_bits(attend(**options), keys=keys)
                self.expect_math()

    def test_autocast(self):
        """It casts the tensors of the operator, and nothing inside."""

        def attend(model, q, k, v, document):
            mask = torch.where(document[:, None, None] > 0, 0.0, -1.0)
            with torch.autocast("cpu", torch.bfloat16), sdpa_kernel(SDPBackend.MATH):
                return scaled_dot_product_attention(q, k, v, mask).float()

        self.check_bits(attend)
        self.expect_math()

    def test_flags_of_the_process(self):
        plain = lambda model, q, k, v, document: scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
        self.check_bits(plain)
        self.assertEqual(self.targets(), ["aten.scaled_dot_product_attention.default"] * 2)
        self.addCleanup(torch.backends.cuda.enable_flash_sdp, True)
        torch.backends.cuda.enable_flash_sdp(False)
        self.check_bits(plain)
        self.expect_math()

    def test_no_form_of_a_cpu(self):
        def attend(model, q, k, v, document):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return scaled_dot_product_attention(q, k, v)

        with self.assertRaisesRegex(fsdpc.ExportError, "remedy: sdpa_kernel leaves no form that a CPU has"):
            self.export(self.make(attend))


if __name__ == "__main__":
    unittest.main()
