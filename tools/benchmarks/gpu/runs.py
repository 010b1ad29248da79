"""Links the compiled cases with the runtime, gives them weights and data, runs them, and reads their
output.

Everything that uses the device runs in a process of its own, so that a process that fails, hangs or
runs out of device memory does not affect the others.
"""

import ctypes
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import torch

import cases
from cases import models

import safetensors_io  # found through cases

HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """A run that failed; the message is one line."""


@dataclasses.dataclass
class Result:
    """The result of a run of a training binary."""

    log: list  # a dict per step, see --log
    output: str  # its standard output
    device_bytes: int = 0  # peak of the device's memory in use; 0: not watched

    def step_ms(self, skip):
        """Median over all steps but the first `skip`."""
        times = sorted(line["step_ms"] for line in self.log[skip:])
        return times[len(times) // 2]

    def figure(self, pattern):
        found = re.search(pattern, self.output)
        return found.group(1) if found else None


class MemoryInfo(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class DeviceMemory:
    """Watches the memory in use on the first device, by any process."""

    def __init__(self, watch):
        self.peak, self.watching = 0, watch
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self):
        if self.watching:
            self.thread.start()
        return self

    def __exit__(self, *_):
        was, self.watching = self.watching, False
        if was:
            self.thread.join()

    def watch(self):
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        device, info = ctypes.c_void_p(), MemoryInfo()
        if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)):
            return
        while self.watching:
            if nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(info)) == 0:
                self.peak = max(self.peak, info.used)
            time.sleep(0.05)
        nvml.nvmlShutdown()


class Runner:
    """Runs cases of one folder. `device`: cuda or cpu; `library`: folder of libfsdp_runtime.so;
    `work`: where binaries, weights and the steps' logs go; `logs`: what each command printed."""

    def __init__(self, folder, library, work, device, logs):
        self.folder, self.library = pathlib.Path(folder), pathlib.Path(library)
        self.work, self.logs, self.device = pathlib.Path(work), pathlib.Path(logs), device
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        if self.manifest["target"].split(":")[0] != device:
            raise Failed(f"the cases in {folder} are for --device {self.manifest['target']}, "
                         f"not {device}")  # fmt: skip
        for path in (self.work, self.logs):
            path.mkdir(parents=True, exist_ok=True)
        self.calls = 0
        self.deadline = time.monotonic() + 600  # of all runs, in seconds of time.monotonic()
        self.longest_s = 600  # limit of one command
        self.without_graph = []  # cases that ran only entry by entry, and why
        self.without_nccl = ""  # why single ranks run without NCCL

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
            self.call(command, f"link {name}")
        return binary

    def weights(self, name):
        """A file of the model's initial values; cases of one model share it."""
        path = self.work / f"{self.case(name)['values']}.safetensors"
        if not path.exists():
            partial = path.with_suffix(".partial")
            self.script("weights.py", "--cases", self.folder, "--case", name, "--device",
                        self.device, "-o", partial, what=f"weights of {name}")  # fmt: skip
            partial.rename(path)
        return path

    def data(self, name, samples=None):
        config = self.config(name)
        samples = samples or config.batch * self.case(name)["ranks"]
        path = self.work / f"{name}.{samples}.safetensors"
        if not path.exists():
            safetensors_io.save(path, models.example_inputs(config, batch=samples))
        return path

    def call(self, command, what, **variables):
        """The standard output of a command, which is killed at the deadline. All its output goes to
        a log named after `what`. `variables`: of its environment."""
        command = list(map(str, command))
        self.calls += 1
        log = self.logs / f"{self.calls:02}-{what.replace(' ', '-')}.log"
        # Matrix products split their sums in the same way in every run; NCCL prints warnings.
        environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "NCCL_DEBUG": "WARN",
                       **variables}  # fmt: skip
        begin = time.monotonic()
        left = min(max(self.deadline - begin, 1), self.longest_s)
        with open(log, "w") as file:
            file.write(" ".join(command) + "\n")
            file.flush()
            output = log.with_suffix(".out")
            with open(output, "w") as out:
                process = subprocess.Popen(command, stdout=out, stderr=file, env=environment)
                try:
                    code = process.wait(left)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    raise Failed(f"{what}: did not end within {left:.0f} s, see {log}") from None
            file.write(f"exit status {code} after {time.monotonic() - begin:.1f} s\n")
        text = output.read_text()
        if code != 0:
            lines = log.read_text().strip().splitlines()[1:-1] or text.strip().splitlines()
            raise Failed(f"{what}: {lines[-1] if lines else f'exit status {code}'}")
        return text

    def script(self, name, *arguments, what):
        """The same for a script in this script's folder."""
        return self.call([sys.executable, HERE / name, *arguments], what)

    def command(self, name, steps, flags, fake, samples, nccl=True):
        """The command of a run. `nccl`: a single rank uses NCCL, unless `without_nccl` has a reason against
        it."""
        case = self.case(name)
        command = [self.link(name), "--data", self.data(name, samples), "--init",
                   self.weights(name), "--steps", steps, "--log", self.work / f"{name}.jsonl",
                   "--device", self.device, *flags]  # fmt: skip
        if case["ranks"] == 1 and nccl and not self.without_nccl:
            return [*command, "--ranks", 1]
        command += ["--communicator", "fake", "--fake-ranks", case["ranks"]]
        if fake == "delay":
            command += ["--fake-gb-per-s", self.manifest["gb_per_s"],
                        "--fake-latency-us", self.manifest["latency_us"]]  # fmt: skip
        return command

    def run(self, name, steps, *flags, fake="delay", samples=None, watch=False):
        """Trains `steps` steps. `fake`: how collectives of missing ranks are simulated: "delay" by
        copies that take the α-β model's time, "copy" by copies only. A step that fails as a graph
        is run once more entry by entry, and if NCCL cannot connect one rank, without NCCL."""
        what = f"run {name}"
        with DeviceMemory(watch) as memory:
            try:
                output = self.call(self.command(name, steps, flags, fake, samples), what)
            except Failed as error:
                if self.device != "cuda":
                    raise
                if self.case(name)["ranks"] == 1 and "NCCL" in str(error) and not self.without_nccl:
                    self.without_nccl = str(error)
                    flags = without_save(flags)  # a fake run saves nothing
                elif "--cuda-graph" in flags:
                    raise
                else:
                    self.without_graph.append(str(error))
                    flags = [*flags, "--cuda-graph", "off"]
                output = self.call(self.command(name, steps, flags, fake, samples), what + " again")
        log = (self.work / f"{name}.jsonl").read_text()
        return Result([json.loads(line) for line in log.splitlines()], output, memory.peak)


def without_save(flags):
    """The flags but --save and its file."""
    return [flag for i, flag in enumerate(flags)
            if flag != "--save" and (i == 0 or flags[i - 1] != "--save")]  # fmt: skip
