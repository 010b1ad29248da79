"""Samples for the mlp of test/models, as safetensors."""

import json
import random
import struct
import sys

SAMPLES = 8
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
