#!/usr/bin/env python3
"""Compiles the cases of cases.py into a folder: make_cases.py --tools BIN --out DIR [--size tiny].

Writes for each case an object file and, if it has collectives, the predicted timeline (.trace.json)
and report (.report.json); manifest.json lists all cases with the sizes of their models.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import cases
from cases import models

sys.path.insert(0, str(cases.ROOT / "test" / "models"))
import export  # noqa: E402


def run(*command):
    command = list(map(str, command))
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode != 0:
        lines = (process.stderr or process.stdout).strip().splitlines() or ["no message"]
        sys.exit(f"make_cases: error: {pathlib.Path(command[0]).name} failed: {lines[0]}")


class Maker:
    def __init__(self, tools, out, target, scratch):
        self.tools, self.out, self.target = tools, out, target
        self.scratch = pathlib.Path(scratch)
        self.network = out / "network.json"
        self.network.write_text(json.dumps(cases.network(), indent=1) + "\n")
        self.captured = {}

    def capture(self, config, optimizer):
        """The captured step of a model, without values; made once per model and optimizer."""
        key = json.dumps([dataclasses.asdict(config), optimizer])
        if key not in self.captured:
            model = self.scratch / f"model{len(self.captured)}.pt"
            captured = model.with_suffix(".mlir")
            export.export(config, "script", str(model), meta=True)
            _, values = cases.OPTIMIZERS[optimizer]
            flags = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
                     for name, value in values.items()]  # fmt: skip
            run(self.tools / "fsdp-capture", model, *models.input_flags(config),
                "--target", self.target, "--optimizer", optimizer, *flags, "-o", captured)  # fmt: skip
            self.captured[key] = captured
        return self.captured[key]

    def costs(self):
        device = "cpu" if self.target == "cpu" else "h100"
        return ["--device", device, "--network", self.network]

    def make(self, name, case):
        captured = self.capture(case.model, case.optimizer)
        scheduled, step = self.scratch / f"{name}.mlir", self.out / f"{name}.o"
        report, trace = self.out / f"{name}.report.json", self.out / f"{name}.trace.json"
        options = f"mesh=dp={case.ranks} up-to=scheduled schedule={case.schedule} fusion={case.fusion}"
        if case.memory_cap:
            options += f" memory-cap={case.memory_cap}"
        if case.ranks > 1:
            device, network = self.costs()[1::2]
            options += f" device={device} network={network} report={report}"
        run(self.tools / "fsdp-opt", captured, f"--fsdp-pipeline={options}", "-o", scheduled)
        run(self.tools / "fsdp-compile", "--object", scheduled, *self.costs(), "-o", step)
        if case.ranks > 1:
            run(self.tools / "fsdp-explain", scheduled, *self.costs(), "--trace", trace)
        _, _, body = scheduled.read_text().partition("func.func")
        calls = body.count("aten.call ") + body.count("fsdp.launch ")
        return {
            "name": name, "purpose": case.purpose, "object": step.name, "ranks": case.ranks,
            "schedule": case.schedule, "fusion": case.fusion, "values": case.values, "calls": calls,
            "optimizer": case.optimizer,
            "model": dataclasses.asdict(case.model),
            "report": report.name if case.ranks > 1 else None,
            "predicted_trace": trace.name if case.ranks > 1 else None,
        }  # fmt: skip


def abi_version():
    text = (cases.ROOT / "include/fsdp/Plan/Abi.h").read_text()
    return int(re.search(r"FSDP_PLAN_ABI_VERSION (\d+)u", text).group(1))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="folder of fsdp-opt")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--size", choices=cases.SIZES, default="full")
    parser.add_argument("--only", help="names of cases, separated by commas")
    options = parser.parse_args()
    for tool in ("fsdp-capture", "fsdp-opt", "fsdp-compile", "fsdp-explain"):
        if not (options.tools / tool).exists():
            parser.error(f"--tools {options.tools}: there is no {tool}")
    wanted = cases.cases(options.size)
    names = options.only.split(",") if options.only else list(wanted)
    if unknown := [name for name in names if name not in wanted]:
        parser.error(f"--only {unknown[0]}: expected some of {', '.join(wanted)}")
    options.out.mkdir(parents=True, exist_ok=True)
    target = "cuda:sm_90" if options.size == "full" else "cpu"
    manifest = {
        "size": options.size, "target": target, "plan_abi": abi_version(),
        "latency_us": cases.LATENCY_US, "gb_per_s": cases.GB_PER_S,
        "cases": [],
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="fsdpc-cases-") as scratch:
        maker = Maker(options.tools, options.out, target, scratch)
        for name in names:
            begin = time.monotonic()
            manifest["cases"].append(maker.make(name, wanted[name]))
            print(f"  {name}: {time.monotonic() - begin:.1f} s", flush=True)
    (options.out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
