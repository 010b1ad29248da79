#!/usr/bin/env python3
"""Measures a step of PyTorch FSDP2 on one of several ranks; the others are fake.

    fsdp2.py --cases DIR --case large-fsdp2 --measure step|host [--compile none|blocks|whole]
        [--timer LIBRARY] [--device cuda]

The step is as users run it: fully_shard, with its defaults, shards each block and the root over a
fake process group, attention is the kernel that torch chooses, and the optimizer is the fused
AdamW. --compile: eager, or torch.compile of each block (as torchtitan does) or of the whole model.

The collectives are custom ones (set_custom_all_gather, set_custom_reduce_scatter) that do the same
as the runtime's fake communicator, on FSDP2's own streams: they copy the bytes that would arrive,
and take at least the α-β model's time, by the same kernels (LIBRARY: libfsdp_timer.so). They run one
after another, as those of one process group do: it has one NCCL communicator.

"step": the time of a step and the memory it needs. "host": the host's time to issue a step; the
collectives then copy only this rank's block, since the calls of a real collective cost little more
than one launch. Prints JSON.
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


class Timer:
    """Makes the current stream (on a CPU the caller) wait until a time has passed since a start. A
    timer's number belongs to one stream."""

    def __init__(self, number, library, latency_us, gb_per_s):
        self.number, self.latency_ns, self.bytes_per_ns = number, latency_us * 1e3, gb_per_s
        self.library = ctypes.CDLL(library) if library else None
        if library:
            self.library.fsdp_start_timer.argtypes = [ctypes.c_uint, ctypes.c_void_p]
            self.library.fsdp_await_timer.argtypes = [ctypes.c_uint, ctypes.c_uint64,
                                                      ctypes.c_void_p]  # fmt: skip

    def launch(self, function, *arguments):
        stream = torch.cuda.current_stream().cuda_stream
        if error := function(self.number, *arguments, stream):
            raise RuntimeError(f"a timer kernel: CUDA error {error}")

    def start(self):
        if self.library:
            self.launch(self.library.fsdp_start_timer)
        else:
            self.begin = time.monotonic_ns()

    def wait(self, arriving_bytes):
        nanoseconds = int(self.latency_ns + arriving_bytes / self.bytes_per_ns)
        if self.library:
            self.launch(self.library.fsdp_await_timer, nanoseconds)
        else:
            time.sleep(max(0, self.begin + nanoseconds - time.monotonic_ns()) / 1e9)


class Communicator:
    """Runs its collectives one after another, whatever their streams. On a CPU the caller runs them."""

    def __init__(self, device):
        self.last_end = torch.cuda.Event() if device == "cuda" else None

    def begin(self):
        if self.last_end:
            self.last_end.wait()

    def end(self):
        if self.last_end:
            self.last_end.record()


class FakeCollective:
    """A custom collective of FSDP2. `copies`: copies the bytes that would arrive."""

    def __init__(self, communicator, timer, ranks, copies):
        self.communicator, self.timer = communicator, timer
        self.ranks, self.copies = ranks, copies
        self.calls = self.arrived = 0

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def begin(self):
        self.communicator.begin()
        self.timer.start()

    def end(self, block):
        self.calls += 1
        self.arrived += (self.ranks - 1) * block.nbytes
        self.timer.wait((self.ranks - 1) * block.nbytes)
        self.communicator.end()


class FakeAllGather(FakeCollective):
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        self.begin()
        own = input_tensor.view(-1)
        for rank in range(self.ranks if self.copies else 1):
            part = output_tensor.view(-1)[rank * own.numel() : (rank + 1) * own.numel()]
            if part.data_ptr() != own.data_ptr():
                part.copy_(own)
        self.end(input_tensor)


class FakeReduceScatter(FakeCollective):
    arrivals = None

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        self.begin()
        blocks = input_tensor.view(self.ranks, -1)
        if self.copies:
            if self.arrivals is None or self.arrivals.numel() < blocks.size(1):
                self.arrivals = torch.empty_like(blocks[0])
            for block in blocks[1:]:
                self.arrivals[: block.numel()].copy_(block)
        output_tensor.view(-1).copy_(blocks[0])
        self.end(output_tensor)


def blocks_of(model):
    """The repeated blocks, grouped as fsdpc does without a configuration."""
    return next(child for child in model.children() if isinstance(child, torch.nn.ModuleList))


class Trainer:
    def __init__(self, config, ranks, collectives, device, compiled="none"):
        self.device = device
        model = models.build(config, device)
        if compiled == "blocks":
            for block in blocks_of(model):
                block.compile()
        mesh = dist.device_mesh.init_device_mesh(device, (ranks,))
        policy = MixedPrecisionPolicy()
        if config.compute == "bf16":
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for module in [*blocks_of(model), model]:
            fully_shard(module, mesh=mesh, mp_policy=policy)
            module.set_custom_all_gather(collectives[0])
            module.set_custom_reduce_scatter(collectives[1])
        if compiled == "whole":
            model.compile()
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), fused=True, **cases.ADAMW)
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
        """Median time of a step; each step reads the loss of the step before, as the binary does."""
        times, last = [], self.step().detach()
        for _ in range(steps):
            begin = time.perf_counter()
            loss = self.step().detach()
            last.item()
            last = loss
            times.append((time.perf_counter() - begin) * 1e3)
        self.last_loss = last.item()
        return statistics.median(times[skip:])

    def host_ms(self, steps, skip):
        """Median time of the host to issue a step. The device is idle before, and the host does not
        wait for it meanwhile."""
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
    parser.add_argument("--measure", choices=["step", "host"], required=True)
    parser.add_argument("--compile", choices=["none", "blocks", "whole"], default="none")
    parser.add_argument("--timer", help="libfsdp_timer.so")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--skip", type=int, default=4, help="number of warm-up steps")
    options = parser.parse_args()
    if options.device == "cuda" and not options.timer:
        parser.error("--device cuda needs --timer: the library of the timer kernels")
    manifest, case = cases.read(parser, options)
    ranks = case["ranks"]
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    if options.device == "cuda":
        torch.cuda.set_device(0)
    else:
        torch.set_num_threads(1)
    timers = [Timer(number, options.timer, manifest["latency_us"], manifest["gb_per_s"])
              for number in range(2)]  # fmt: skip
    copies = options.measure == "step"
    communicator = Communicator(options.device)
    collectives = (FakeAllGather(communicator, timers[0], ranks, copies),
                   FakeReduceScatter(communicator, timers[1], ranks, copies))  # fmt: skip
    result = {"torch": torch.__version__, "steps": options.steps, "compile": options.compile}
    config = models.Config(**case["model"])
    trainer = Trainer(config, ranks, collectives, options.device, options.compile)
    if options.measure == "host":
        result["host_ms"] = trainer.host_ms(options.steps, options.skip)
    else:
        result["step_ms"] = trainer.step_ms(options.steps, options.skip)
        steps = options.steps + 1
        result["collectives"] = sum(c.calls for c in collectives) / steps
        result["arriving_bytes"] = sum(c.arrived for c in collectives) / steps
        result["last_loss"] = trainer.last_loss
        if options.device == "cuda":
            result["peak_allocated_bytes"] = torch.cuda.max_memory_allocated()
            result["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
    print(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
