#!/usr/bin/env python3
"""How long steps wait for a checkpoint, and how fast one is written and read, compared with dd.

    checkpoint.py [--rounds 3] [--gigabytes 4] [--folder DIR] [--no-exposed] [--no-disk]

Exposed: compare.py's decoder of 25M parameters with AdamW on 2 ranks saves every sixth step; the
figure is the time for which a save delays the steps, as a fraction of a step (median).

Disk: a state of --gigabytes over 4 ranks (large linear layers, Adam) is saved and resumed in DIR, in turns
with dd, which writes as many bytes with fsync and reads the checkpoint's files. Files are read without the
page cache. A resume reads into memory that no process has touched; a virtual machine may have to get such
memory from its host, which takes longer than reading. So dd reads to /dev/shm, which is new memory, too,
and for comparison to /dev/null. Nothing else should run on the machine: the load is printed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import compare
import harness
from oracle import safetensors_io

EVERY = 6
DISK_RANKS = 4
WIDTH = 8192


def lines_with(log, key):
    lines = map(json.loads, log.read_text().splitlines())
    return [line for line in lines if key in line]


def measure_exposed(rounds):
    with tempfile.TemporaryDirectory(prefix="fsdpc-benchmark-") as folder:
        workspace = harness.Workspace(compare.SIZES["25m"], samples=16, folder=folder)
        workspace.capture()
        binary = workspace.compile(compare.RANKS)
        exposed, steps = [], []
        for number in range(rounds):
            log = workspace.folder / f"log{number}.jsonl"
            arguments = ["--data", workspace.data, "--init", workspace.weights, "--steps", 3 * EVERY,
                         "--log-file", log, "--quiet", "--communicator", "shm", "--threads", 1,
                         "--checkpoint-dir", workspace.folder / f"run{number}", "--save-every", EVERY,
                         "--keep", 1]  # fmt: skip
            for status, output in harness.finish(harness.start_ranks(binary, compare.RANKS, arguments)):
                if status:
                    raise harness.CommandFailed(output)
            # The last save is excluded: no steps follow that could overlap its writing.
            exposed += [line["exposed_ms"] for line in lines_with(log, "checkpoint")[:-1]]
            steps += [line["step_ms"] for line in harness.read_log(log)][3:]
    return statistics.median(exposed), statistics.median(steps)


class Linears:
    """A model with much state and little computation, and its binary."""

    def __init__(self, folder, gigabytes):
        import torch
        from torch import nn

        # Parameters and two moments, 4 bytes each.
        count = max(1, round(gigabytes * 1e9 / 12 / WIDTH**2))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(count)])

            def forward(self, x):
                for layer in self.layers:
                    x = torch.relu(layer(x))
                return x.mean()

        torch.manual_seed(1)
        torch.jit.script(Model()).save(str(folder / "model.pt"))
        self.data, self.binary = folder / "data.safetensors", folder / "train"
        safetensors_io.save(self.data, {"x": torch.randn(2 * DISK_RANKS, WIDTH)})
        harness.run([harness.TOOLS / "fsdpc", folder / "model.pt", "--input", f"x:f32[1,{WIDTH}]",
                     "--optimizer", "adamw", "--lr", "1e-4", "--mesh", f"dp={DISK_RANKS}",
                     "-o", self.binary])  # fmt: skip
        self.weights = folder / "train.safetensors"

    def run(self, steps, *arguments):
        harness.run([self.binary, "--ranks", DISK_RANKS, "--data", self.data, "--threads", 1,
                     "--steps", steps, "--quiet", *arguments])  # fmt: skip


def forget(files):
    """Drops the files from the page cache."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def dd(*operands):
    """Runs dd; returns seconds."""
    begin = time.monotonic()
    subprocess.run(["dd", "bs=4M", "status=none", *operands], check=True)
    return time.monotonic() - begin


def measure_disk(rounds, gigabytes, parent):
    """Bytes per second in each round: saved, written by dd, resumed, read by dd to memory, read by dd
    to /dev/null."""
    found = []
    with tempfile.TemporaryDirectory(prefix="fsdpc-benchmark-", dir=parent) as folder:
        folder = pathlib.Path(folder)
        model = Linears(folder, gigabytes)
        for number in range(rounds):
            log, run = folder / f"log{number}.jsonl", folder / f"run{number}"
            model.run(1, "--init", model.weights, "--checkpoint-dir", run, "--save-every", 1,
                      "--save-in-place", "--log-file", log)  # fmt: skip
            [saved] = lines_with(log, "checkpoint")
            size = saved["bytes"]
            files = [path for path in pathlib.Path(saved["checkpoint"]).iterdir() if path.is_file()]
            written = dd("if=/dev/zero", f"of={folder / 'zeros'}", f"count={size // (4 << 20)}", "conv=fsync")
            (folder / "zeros").unlink()
            forget(files)
            read = sum(dd(f"if={file}", "of=/dev/null") for file in files)
            forget(files)
            with tempfile.TemporaryDirectory(prefix="fsdpc-benchmark-", dir="/dev/shm") as memory:
                read_to_memory = sum(dd(f"if={file}", f"of={memory}/{file.name}") for file in files)
            forget(files)
            log = folder / "resumed.jsonl"
            model.run(1, "--resume", saved["checkpoint"], "--log-file", log)
            [resumed] = lines_with(log, "resumed")
            log.unlink()
            found.append((size / saved["save_ms"] * 1e3, size / written, size / resumed["load_ms"] * 1e3,
                          size / read_to_memory, size / read))  # fmt: skip
            subprocess.run(["rm", "-r", run], check=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--folder", help="folder on the disk to measure")
    parser.add_argument("--no-exposed", action="store_true")
    parser.add_argument("--no-disk", action="store_true")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: expected at least 1")
    if options.folder and not os.path.isdir(options.folder):
        parser.error(f"--folder {options.folder}: there is no such folder")
    compare.check_tools()
    print(f"load {os.getloadavg()[0]:.2f}")
    if not options.no_exposed:
        exposed, step = measure_exposed(options.rounds)
        print(f"25M parameters: a save exposes {exposed:.2f} ms of a step of {step:.1f} ms, {exposed / step:.1%} "
              "(goal: 5 %)")  # fmt: skip
    if not options.no_disk:
        rounds = measure_disk(options.rounds, options.gigabytes, options.folder)
        for saved, written, resumed, read_to_memory, read in rounds:
            print(f"saved at {saved / 1e9:.2f} GB/s, dd {written / 1e9:.2f}; resumed at {resumed / 1e9:.2f} GB/s, "
                  f"dd to memory {read_to_memory / 1e9:.2f}, to /dev/null {read / 1e9:.2f}")  # fmt: skip
        print(f"save / dd {statistics.median(s / w for s, w, _, _, _ in rounds):.2f}, "
              f"resume / dd {statistics.median(r / d for _, _, r, d, _ in rounds):.2f} (goal: 0.8)")  # fmt: skip
    print(f"load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
