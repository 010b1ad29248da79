#!/usr/bin/env python3
"""Captures one training step of a known model, for planning: `capture_shape.py llama3-8b -o 8b.mlir`.

The modules are those of test/models/models.py, built on meta: without weights, in any size, in
seconds. By default the precision is as in training: parameters and optimizer state in fp32,
computation in bf16.
"""

import argparse
import dataclasses
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test" / "models"))
import export  # noqa: E402
import models  # noqa: E402

LLAMA3 = {"model": "llama", "vocab": 128256, "seq": 8192, "batch": 1, "kv_heads": 8}
# Sources: "The Llama 3 Herd of Models" (2024), table 3; "Language Models are Unsupervised Multitask
# Learners" (2019), table 2; "Mixtral of Experts" (2024), table 1; "An Image is Worth 16x16 Words"
# (2021), table 1; the model card of Llama 3.2 (2024), whose head is not tied here.
SHAPES = {
    "llama3-1b": {**LLAMA3, "dim": 2048, "layers": 16, "heads": 32, "ffn": 8192},
    "llama3-8b": {**LLAMA3, "dim": 4096, "layers": 32, "heads": 32, "ffn": 14336},
    "llama3-70b": {**LLAMA3, "dim": 8192, "layers": 80, "heads": 64, "ffn": 28672},
    "llama3-405b": {**LLAMA3, "dim": 16384, "layers": 126, "heads": 128, "ffn": 53248},
    "gpt2": dict(model="gpt2", dim=768, layers=12, heads=12, vocab=50257, seq=1024, batch=16),
    "gpt2-xl": dict(model="gpt2", dim=1600, layers=48, heads=25, vocab=50257, seq=1024, batch=4),
    "moe-8x7b": dict(
        model="moe", dim=4096, layers=32, heads=32, kv_heads=8, ffn=14336, experts=8, active=2,
        vocab=32000, seq=4096, batch=1,
    ),
    "vit-l16": dict(
        model="vit", dim=1024, layers=24, heads=16, image=224, patch=16, classes=1000, batch=64
    ),
    "vit-h14": dict(
        model="vit", dim=1280, layers=32, heads=16, image=224, patch=14, classes=1000, batch=32
    ),
}  # fmt: skip


def find_capture(path):
    found = shutil.which(path) or next(iter(sorted(ROOT.glob("build/*/bin/fsdp-capture"))), None)
    if not found:
        sys.exit(f"capture_shape.py: error: there is no '{path}'; --capture names fsdp-capture")
    return str(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--layers", type=int, help="number of blocks (the model's)")
    parser.add_argument("--batch", type=int, help="samples of a microbatch on one rank")
    parser.add_argument("--seq", type=int, help="tokens per sample")
    parser.add_argument("--dtype", choices=["mixed", "bf16", "f32"], default="mixed",
                        help="mixed: fp32 parameters, computation in bf16; bf16 or f32: the dtype of both")  # fmt: skip
    parser.add_argument("--target", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--capture", default="fsdp-capture", help="path of fsdp-capture")
    parser.add_argument("-o", "--output", required=True, help="file for the captured module")
    options = parser.parse_args()
    for name in ("layers", "batch", "seq"):
        if (size := getattr(options, name)) is not None and size < 1:
            parser.error(f"--{name} {size}: expected at least 1")
    if options.seq and SHAPES[options.shape]["model"] == "vit":
        parser.error(f"--seq {options.seq}: {options.shape} takes images, whose patches are its sequence")
    capture = find_capture(options.capture)
    is_mixed = options.dtype == "mixed"
    config = models.Config(**SHAPES[options.shape], dtype="f32" if is_mixed else options.dtype)
    changes = {name: getattr(options, name) for name in ("layers", "batch", "seq")}
    config = dataclasses.replace(config, **{k: v for k, v in changes.items() if v is not None})
    with tempfile.TemporaryDirectory() as folder:
        model = str(pathlib.Path(folder) / f"{options.shape}.pt")
        export.export(config, "script", model, meta=True)
        command = [capture, model, *models.input_flags(config), "--target", options.target]
        if is_mixed:
            command += ["--param-dtype", "bfloat16"]
        sys.exit(subprocess.run([*command, "-o", options.output]).returncode)


if __name__ == "__main__":
    main()
