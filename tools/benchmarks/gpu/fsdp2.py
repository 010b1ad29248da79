#!/usr/bin/env python3
"""Step time, host time and memory of PyTorch FSDP2 eager as one of several ranks, the others fake.

    fsdp2.py --cases DIR --case large-fsdp2 [--short large-short] [--delay LIBRARY] [--device cuda]

Each block and the root are sharded by fully_shard with its defaults over a fake process group. The
collectives are custom ones (set_custom_all_gather, set_custom_reduce_scatter) that do on FSDP2's own
streams what the runtime's fake communicator does: nothing but the α-β model's time, by the same
delay kernel (LIBRARY: libfsdp_delay.so), and the copy of the own block where it is not in place.
Prints JSON.
"""

import argparse
import ctypes
import json
import pathlib
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

import cases
from cases import models
from curve import attention_kernels


class Delay:
    """Lets the current stream stand still; on a CPU the caller."""

    def __init__(self, library, latency_us, gb_per_s):
        self.latency_ns, self.bytes_per_ns = latency_us * 1e3, gb_per_s
        self.launch = None
        if library:
            self.launch = ctypes.CDLL(library).fsdp_launch_delay
            self.launch.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
            self.launch.restype = ctypes.c_int

    def __call__(self, arriving_bytes):
        nanoseconds = int(self.latency_ns + arriving_bytes / self.bytes_per_ns)
        if self.launch is None:
            time.sleep(nanoseconds / 1e9)
        elif error := self.launch(nanoseconds, torch.cuda.current_stream().cuda_stream):
            raise RuntimeError(f"the delay kernel: CUDA error {error}")


class FakeCollective:
    """FSDP2's interface of a custom collective."""

    def __init__(self, delay, ranks):
        self.delay, self.ranks = delay, ranks
        self.calls = self.arrived = 0

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def wait(self, block):
        self.calls += 1
        self.arrived += (self.ranks - 1) * block.nbytes
        self.delay((self.ranks - 1) * block.nbytes)


class FakeAllGather(FakeCollective):
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        own = output_tensor.view(-1)[: input_tensor.numel()]
        if own.data_ptr() != input_tensor.data_ptr():
            own.copy_(input_tensor.view(-1))
        self.wait(input_tensor)


class FakeReduceScatter(FakeCollective):
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        self.wait(output_tensor)
        output_tensor.view(-1).copy_(input_tensor.view(-1)[: output_tensor.numel()])


def blocks_of(model):
    """The repeated blocks, as fsdpc groups them without a configuration."""
    return next(child for child in model.children() if isinstance(child, torch.nn.ModuleList))


class Trainer:
    def __init__(self, config, ranks, delay, device):
        self.device = device
        model = models.build(config, device)
        mesh = dist.device_mesh.init_device_mesh(device, (ranks,))
        collectives = [FakeAllGather(delay, ranks), FakeReduceScatter(delay, ranks)]
        self.collectives = collectives
        policy = MixedPrecisionPolicy()
        if config.compute == "bf16":
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for module in [*blocks_of(model), model]:
            fully_shard(module, mesh=mesh, mp_policy=policy)
            module.set_custom_all_gather(collectives[0])
            module.set_custom_reduce_scatter(collectives[1])
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), **cases.ADAMW)
        data = models.example_inputs(config)
        self.inputs = [tensor.to(device) for tensor in data.values()]

    def step(self):
        loss = self.model(*self.inputs)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def step_ms(self, steps, skip):
        """Median time of a step; the loss of the step before is read in each, as the binary does."""
        times, last = [], self.step().detach()
        for _ in range(steps):
            begin = time.perf_counter()
            loss = self.step().detach()
            last.item()
            last = loss
            times.append((time.perf_counter() - begin) * 1e3)
        return statistics.median(times[skip:])

    def host_ms(self, steps, skip):
        """Median time in which the host issues a step for a device that is idle before and is never
        waited for meanwhile."""
        times = []
        for _ in range(steps):
            self.synchronize()
            begin = time.perf_counter()
            self.step()
            times.append((time.perf_counter() - begin) * 1e3)
        self.synchronize()
        return statistics.median(times[skip:])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=pathlib.Path, required=True)
    parser.add_argument("--case", required=True)
    parser.add_argument("--short", help="case for the host's time; its batch must be short")
    parser.add_argument("--delay", help="libfsdp_delay.so")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--skip", type=int, default=4, help="steps that warm up")
    options = parser.parse_args()
    if options.device == "cuda" and not options.delay:
        parser.error("--device cuda needs --delay: the delay kernel's library")
    manifest = json.loads((options.cases / "manifest.json").read_text())
    case = cases.find(manifest, options.case)
    if case is None:
        parser.error(f"--case {options.case}: not in {options.cases}")
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=case["ranks"])
    if options.device == "cuda":
        torch.cuda.set_device(0)
    else:
        torch.set_num_threads(1)
    delay = Delay(options.delay, manifest["latency_us"], manifest["gb_per_s"])

    def trainer(name):
        config = models.Config(**cases.find(manifest, name)["model"])
        return Trainer(config, case["ranks"], delay, options.device)

    result = {"torch": torch.__version__, "steps": options.steps}
    with attention_kernels(options.device):
        if options.short:
            short = trainer(options.short)
            result["host_ms"] = short.host_ms(options.steps, options.skip)
            del short
        if options.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        measured = trainer(options.case)
        result["step_ms"] = measured.step_ms(options.steps, options.skip)
        steps = options.steps + 1
        result["collectives"] = sum(c.calls for c in measured.collectives) / steps
        result["arriving_bytes"] = sum(c.arrived for c in measured.collectives) / steps
    if options.device == "cuda":
        result["peak_allocated_bytes"] = torch.cuda.max_memory_allocated()
        result["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
    print(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
