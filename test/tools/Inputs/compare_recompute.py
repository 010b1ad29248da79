"""Runs the binaries `train` of two folders: equal losses, and a smaller arena in the first."""

import json
import pathlib
import re
import subprocess
import sys


def inspect(folder):
    data = folder / "tokens.bin"
    data.write_bytes(bytes(i * i % 97 for i in range(4096)))
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    subprocess.run([folder / "train", "--ranks", "2", "--data", data, "--data-dtype", "u8",
                    "--steps", "3", "--log", log, "--quiet"], check=True)  # fmt: skip
    losses = [json.loads(line)["loss_hex"] for line in log.read_text().splitlines()]
    arena = re.search(r"fsdp.arena_bytes = (\d+)", (folder / "planned.mlir").read_text())
    return losses, int(arena[1])


(cheap_losses, cheap_arena), (kept_losses, kept_arena) = map(
    inspect, map(pathlib.Path, sys.argv[1:])
)
assert len(cheap_losses) == 3 and cheap_losses == kept_losses, (cheap_losses, kept_losses)
assert cheap_arena < 0.95 * kept_arena, (cheap_arena, kept_arena)
