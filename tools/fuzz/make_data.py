"""Samples for models of test/models: safetensors for the mlp, and files of tokens as llm.c writes them.

    make_data.py data.safetensors gpt2.bin llama3.bin
"""

import json
import random
import struct
import sys

SAMPLES = 8
TOKENS = 200
values = random.Random(0)
x = struct.pack(f"<{SAMPLES * 32}f", *(values.uniform(-1, 1) for _ in range(SAMPLES * 32)))
targets = struct.pack(f"<{SAMPLES}q", *(values.randrange(8) for _ in range(SAMPLES)))
header = json.dumps(
    {
        "x": {"dtype": "F32", "shape": [SAMPLES, 32], "data_offsets": [0, len(x)]},
        "targets": {"dtype": "I64", "shape": [SAMPLES], "data_offsets": [len(x), len(x) + len(targets)]},
    }
).encode()
with open(sys.argv[1], "wb") as file:
    file.write(len(header).to_bytes(8, "little") + header + x + targets)
for path, magic, version, kind in zip(sys.argv[2:], (20240520, 20240801), (1, 7), "HI"):
    with open(path, "wb") as file:
        file.write(struct.pack("<256i", magic, version, TOKENS, *[0] * 253))
        file.write(struct.pack(f"<{TOKENS}{kind}", *(values.randrange(32) for _ in range(TOKENS))))
