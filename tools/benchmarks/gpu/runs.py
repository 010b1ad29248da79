"""Links the compiled cases with the runtime, gives them weights and data, runs them, reads what they say."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import threading
import time

import torch

import cases
from cases import models

import safetensors_io  # found through cases


class Failed(Exception):
    """A run that ended badly; the message is one line."""


@dataclasses.dataclass
class Result:
    """What a run of a training binary did."""

    log: list  # a dict per step, see --log
    output: str  # its standard output
    device_bytes: int = 0  # most that the device's memory held meanwhile; 0: not watched

    def step_ms(self, skip):
        """Median over the steps but the first `skip`."""
        times = sorted(line["step_ms"] for line in self.log[skip:])
        return times[len(times) // 2]

    def figure(self, pattern):
        found = re.search(pattern, self.output)
        return found.group(1) if found else None


class DeviceMemory:
    """Watches how much of a device's memory is in use, whoever uses it."""

    def __init__(self, watch):
        self.peak, self.watching = 0, watch
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self):
        if self.watching:
            torch.cuda.empty_cache()  # of this process, which drew the weights
            self.thread.start()
        return self

    def __exit__(self, *_):
        was, self.watching = self.watching, False
        if was:
            self.thread.join()

    def watch(self):
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits",
                   "--id=0"]  # fmt: skip
        while self.watching:
            answer = subprocess.run(command, capture_output=True, text=True)
            if answer.returncode == 0:
                self.peak = max(self.peak, int(answer.stdout.split()[0]) << 20)
            time.sleep(0.1)


class Runner:
    """Runs cases of one folder. `device`: cuda or cpu; `library`: folder of libfsdp_runtime.so;
    `work`: where binaries, weights and logs go."""

    def __init__(self, folder, library, work, device):
        self.folder, self.library = pathlib.Path(folder), pathlib.Path(library)
        self.work, self.device = pathlib.Path(work), device
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        if self.manifest["target"] != device:
            raise Failed(f"the cases in {folder} are for --device {self.manifest['target']}, "
                         f"not {device}")  # fmt: skip
        self.work.mkdir(parents=True, exist_ok=True)

    def case(self, name):
        entry = cases.find(self.manifest, name)
        if entry is None:
            raise Failed(f"there is no case '{name}' in {self.folder}")
        return entry

    def config(self, name):
        return models.Config(**self.case(name)["model"])

    def link(self, name):
        """The case's training binary."""
        binary = self.work / name
        if not binary.exists():
            torch_libraries = pathlib.Path(torch.__file__).parent / "lib"
            command = ["c++", self.folder / self.case(name)["object"], "-o", binary,
                       f"-L{self.library}", "-lfsdp_runtime", f"-Wl,-rpath,{self.library}",
                       f"-Wl,-rpath,{torch_libraries}", "-Wl,--allow-shlib-undefined", "-pie"]  # fmt: skip
            self.call(command)
        return binary

    def weights(self, name):
        """A file of the model's initial values; cases of one model share it."""
        path = self.work / f"{self.case(name)['values']}.safetensors"
        if not path.exists():
            partial = path.with_suffix(".partial")
            model = models.build(self.config(name), self.device)
            safetensors_io.save(partial, model.state_dict())
            partial.rename(path)
        return path

    def data(self, name, samples=None):
        config = self.config(name)
        samples = samples or config.batch * self.case(name)["ranks"]
        path = self.work / f"{name}.data.safetensors"
        if not path.exists():
            safetensors_io.save(path, models.example_inputs(config, batch=samples))
        return path

    def call(self, command, timeout=300):
        # Matrix products split their sums alike whatever else runs.
        environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        process = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, timeout=timeout,
            env=environment,
        )  # fmt: skip
        if process.returncode != 0:
            lines = (process.stderr or process.stdout).strip().splitlines() or ["no message"]
            raise Failed(f"{pathlib.Path(str(command[0])).name}: {lines[-1]}")
        return process.stdout

    def run(self, name, steps, *flags, fake="delay", samples=None, watch=False):
        """Trains `steps` steps. `fake`: how collectives of missing ranks are played: "delay" by
        the α-β model, "copy" by copies, "free" in no time."""
        case, log = self.case(name), self.work / f"{name}.jsonl"
        command = [self.link(name), "--data", self.data(name, samples), "--init",
                   self.weights(name), "--steps", steps, "--log", log, "--device", self.device,
                   *flags]  # fmt: skip
        if case["ranks"] > 1:
            command += ["--communicator", "fake", "--fake-ranks", case["ranks"]]
            if fake == "delay":
                command += ["--fake-gb-per-s", self.manifest["gb_per_s"],
                            "--fake-latency-us", self.manifest["latency_us"]]  # fmt: skip
            elif fake == "free":
                command += ["--fake-gb-per-s", 1e12]
        else:
            command += ["--ranks", 1]
        with DeviceMemory(watch) as memory:
            output = self.call(command)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return Result(lines, output, memory.peak)
