#!/usr/bin/env python3
"""Saves the demo's decoder, as TorchScript: `export.py OUT`."""

import sys

import torch

from decoder import Decoder

if len(sys.argv) != 2:
    sys.exit(__doc__)
torch.manual_seed(0)
model = Decoder(vocab=256, dim=128, layers=4, heads=4, kv_heads=2, seq=128)
torch.jit.script(model).save(sys.argv[1])
print(f"{sys.argv[1]}: {sum(p.numel() for p in model.parameters())} parameters")
