#!/usr/bin/env python3
"""Measures schedules of captured models: captures each module (meta weights), makes its scheduling
problem on several devices, networks and meshes, and runs schedule-benchmark on all of them:

    tools/benchmarks/schedule/captured.py --build build/release -o problems -- --require-goals

Arguments after -- go to schedule-benchmark. Captured modules and problems in the output folder are
reused.
"""

import argparse
import dataclasses
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CAPTURE = HERE.parents[1] / "capture_shape.py"


@dataclasses.dataclass
class Capture:
    shape: str  # a shape of capture_shape.py
    seq: int = 0  # tokens of a sample; 0: the shape's
    batch: int = 0  # samples of one rank; 0: the shape's

    def name(self):
        sizes = [f"s{self.seq}" if self.seq else "", f"b{self.batch}" if self.batch else ""]
        return "-".join(filter(None, [self.shape, *sizes]))


@dataclasses.dataclass
class Deployment:
    ranks: int
    device: str = "h100"
    recompute: str = "cheap"
    network: str = ""  # "": the device's; else a file in networks/
    updates: str = "interleaved"
    replicas: int = 1  # of `ranks` shards each
    offload_chunks: bool = False

    def name(self):
        ranks = f"{self.replicas}x{self.ranks}" if self.replicas > 1 else str(self.ranks)
        chunks = "chunks-on-host" if self.offload_chunks else ""
        parts = [ranks, self.device, self.network, self.recompute, self.updates, chunks]
        return "-".join(filter(None, parts))

    def flags(self):
        mesh = f"dp={self.ranks}"
        if self.replicas > 1:
            mesh = f"replicate={self.replicas},shard={self.ranks}"
        flags = ["--mesh", mesh, "--device", self.device]
        if self.network:
            flags += ["--network", str(HERE / "networks" / f"{self.network}.json")]
        if self.offload_chunks:
            flags.append("--offload-chunks")
        return [*flags, "--recompute", self.recompute, "--updates", self.updates]


D = Deployment
INSTANCES = [
    (Capture("llama3-8b", seq=2048), [
        D(8), D(8, recompute="none", updates="at-end"), D(8, "b200", recompute="full"),
        D(64, recompute="selected"), D(8, "a100", network="pcie"),
    ]),
    (Capture("llama3-8b"), [
        D(8), D(8, recompute="full", updates="at-end"), D(16, "h200", recompute="selected"),
        D(64), D(64, recompute="full"), D(512, updates="at-end"), D(32, "a100"),
        D(8, "b200"), D(64, "b200", recompute="full"), D(32, network="ethernet"),
        D(16, network="copy-engines", recompute="selected"),
        D(8, replicas=8), D(8, "b200", replicas=16, recompute="full"),
    ]),
    (Capture("llama3-70b", seq=4096), [
        D(32, recompute="full"), D(64, "b200", recompute="full", updates="at-end"),
        D(64, network="ethernet", recompute="full"),
        D(64, network="ethernet", recompute="full", offload_chunks=True),
        D(64, network="single-gpu-hosts", recompute="full", offload_chunks=True),
    ]),
    (Capture("llama3-70b"), [
        D(64), D(256, recompute="full", updates="at-end"), D(128, "h200", recompute="selected"),
        D(256, network="copy-engines", recompute="full"), D(128, "a100", recompute="full"),
        D(64, replicas=4, recompute="full"),
    ]),
    (Capture("llama3-405b"), [
        D(256, recompute="full"), D(512, "b200", recompute="full"),
        D(1024, recompute="selected", updates="at-end"),
    ]),
    (Capture("gpt2"), [
        D(8), D(8, "a100", network="pcie", updates="at-end"), D(64), D(8, "b200"),
    ]),
    (Capture("gpt2", batch=2), [D(8), D(8, "b200", updates="at-end")]),
    (Capture("gpt2-xl"), [
        D(8), D(64, updates="at-end"), D(16, network="ethernet"), D(8, "a100", network="pcie"),
        D(32, "b200", recompute="full"), D(8, replicas=4),
    ]),
    (Capture("moe-8x7b"), [
        D(16), D(64, recompute="full", updates="at-end"), D(64, "b200", recompute="selected"),
        D(128, network="copy-engines", recompute="full"), D(64, network="ethernet"),
        D(16, replicas=4),
    ]),
    (Capture("vit-l16"), [D(8), D(64, updates="at-end"), D(8, "a100", network="pcie")]),
    (Capture("vit-h14"), [
        D(8), D(32, recompute="full"), D(16, "b200", updates="at-end"), D(16, network="ethernet"),
    ]),
]  # fmt: skip


def run(command):
    result = subprocess.run([str(part) for part in command])
    if result.returncode:
        sys.exit(result.returncode)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, help="folder")
    parser.add_argument("--extract-only", action="store_true", help="do not run the benchmark")
    parser.add_argument("benchmark", nargs="*", help="arguments of schedule-benchmark, after --")
    options = parser.parse_args()
    tools = options.build / "bin"
    for tool in ("fsdp-capture", "extract-problem", "schedule-benchmark"):
        if not (tools / tool).is_file():
            parser.error(f"--build {options.build}: there is no {tools / tool}")
    options.output.mkdir(parents=True, exist_ok=True)
    for capture, deployments in INSTANCES:
        module = options.output / f"{capture.name()}.mlir"
        if not module.exists():
            sizes = [("--seq", capture.seq), ("--batch", capture.batch)]
            flags = [part for flag, size in sizes if size for part in (flag, size)]
            capturer = ["--capture", tools / "fsdp-capture"]
            run([sys.executable, CAPTURE, capture.shape, *flags, *capturer, "-o", module])
        for deployment in deployments:
            problem = options.output / f"{capture.name()}-{deployment.name()}.json"
            if not problem.exists():
                run([tools / "extract-problem", module, *deployment.flags(), "-o", problem])
    if not options.extract_only:
        run([tools / "schedule-benchmark", "--problems", options.output, *options.benchmark])


if __name__ == "__main__":
    main()
