#!/usr/bin/env python3
"""Continues a text with trained weights, in plain PyTorch: `generate.py WEIGHTS PROMPT`."""

import pathlib
import sys

import torch

from decoder import Decoder

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import safetensors_io  # noqa: E402

SEQ, LENGTH, TEMPERATURE = 128, 100, 0.7


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    weights, prompt = sys.argv[1:]
    torch.manual_seed(0)
    model = Decoder(vocab=256, dim=128, layers=4, heads=4, kv_heads=2, seq=SEQ)
    try:
        model.load_state_dict(safetensors_io.load(weights), strict=True)
    except OSError as error:
        sys.exit(f"generate.py: error: {error}")
    tokens = list(prompt.encode())
    with torch.no_grad():
        while len(tokens) < len(prompt.encode()) + LENGTH:
            logits = model.logits(torch.tensor([tokens[-SEQ:]]))[0, -1]
            tokens.append(int(torch.multinomial(torch.softmax(logits / TEMPERATURE, -1), 1)))
    print(bytes(tokens).decode(errors="replace").replace("\n", " "))


if __name__ == "__main__":
    main()
