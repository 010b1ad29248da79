"""PyTorch's FSDP2 on two ranks: the reference for fsdpc's losses and parameters."""

import datetime
import multiprocessing
import multiprocessing.connection
import os

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import zoo

RANKS = 2


def group_modules(model, groups):
    """The modules of fsdpc's groups except the root's, in the model's order, for calls of
    fully_shard."""
    wanted = {name for name in groups if name}
    return [module for name, module in model.named_modules() if name in wanted]


def make_optimizer(kind, parameters, lr):
    kinds = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
    return kinds[kind](parameters, lr=lr, foreach=False)


def train(rank, name, groups, batches, kind, lr):
    """(losses as hex floats, final parameters by name)"""
    from torch.distributed.fsdp import fully_shard

    model, policy = zoo.build_step(name), zoo.ENTRIES[name].policy()
    options = {"ignored_params": {p for p in model.parameters() if _is_whole(p)}}
    if policy is not None:
        options["mp_policy"] = policy
    for module in group_modules(model, groups):
        fully_shard(module, **options)
    fully_shard(model, **options)
    optimizer = make_optimizer(kind, list(model.parameters()), lr)
    losses = []
    for step in range(len(batches) // RANKS):
        loss = model(**batches[step * RANKS + rank])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    return losses, {name: p.full_tensor().detach() for name, p in model.named_parameters() if _is_compared(p)}


def _is_compared(parameter):
    """False for tensor subclasses, whose tensors have names of their own in fsdpc's files, and for 8-bit floats, which gloo
    does not gather alone. All of these are frozen."""
    return isinstance(parameter, DTensor) and type(parameter.to_local()) is torch.Tensor and parameter.element_size() > 1


def _is_whole(parameter):
    """True for tensor subclasses that FSDP2 cannot cut."""
    return is_traceable_wrapper_subclass(parameter) and not hasattr(parameter, "fsdp_pre_all_gather")


def serve(rank, pipe, port):
    """Answers runs until the pipe closes."""
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, RANKS, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS,
                            timeout=datetime.timedelta(minutes=5))  # fmt: skip
    try:
        while True:
            name, groups, batches, kind, lr = pipe.recv()
            batches = [{key: torch.from_numpy(v) for key, v in b.items()} for b in batches]
            try:
                losses, final = train(rank, name, groups, batches, kind, lr)
                # As numpy arrays, since tensors would be sent in shared memory, which ends with
                # this process.
                pipe.send((losses, {name: (t.dtype, t.view(torch.uint8).numpy()) for name, t in final.items()}))
            except Exception as error:
                pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))
    except EOFError:
        pass
    # The teardown of gloo's threads at interpreter exit sometimes aborts the process.
    os._exit(0)


class Reference:
    """Two ranks, each a fresh interpreter. The first run starts them; then they wait for further
    runs."""

    def __init__(self):
        self.pipes, self.processes = [], []
        self.answers = {}

    def start(self):
        self.store = dist.TCPStore("127.0.0.1", 0, RANKS, is_master=True, wait_for_workers=False)
        context = multiprocessing.get_context("spawn")
        for rank in range(RANKS):
            mine, theirs = context.Pipe()
            process = context.Process(target=serve, args=(rank, theirs, self.store.port), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)

    def run(self, name, groups, batches, kind, lr):
        """(losses by rank and step as hex floats, final parameters by name) of an entry of the zoo;
        batches: those of rank 0 and 1 of each step in turn, the same at each call."""
        key = name, tuple(sorted(groups)), kind, lr
        if key not in self.answers:
            self.answers[key] = self.ask(name, groups, batches, kind, lr)
        return self.answers[key]

    def ask(self, name, groups, batches, kind, lr):
        if not self.pipes:
            self.start()
        arrays = [{key: value.numpy() for key, value in b.items()} for b in batches]
        for pipe in self.pipes:
            pipe.send((name, groups, arrays, kind, lr))
        answers, waiting = {}, list(self.pipes)
        while waiting:
            for pipe in multiprocessing.connection.wait(waiting):
                try:
                    answer = pipe.recv()
                except EOFError:
                    answer = RuntimeError("a rank of FSDP2 ended")
                if isinstance(answer, Exception):
                    self.end()  # the other rank waits for a message that this rank does not send
                    raise answer
                answers[pipe] = answer
                waiting.remove(pipe)
        by_rank = [answers[pipe] for pipe in self.pipes]
        final = {name: torch.from_numpy(array).view(dtype) for name, (dtype, array) in by_rank[0][1].items()}
        return [losses for losses, _ in by_rank], final

    def end(self):
        for process in self.processes:
            process.kill()
        for pipe in self.pipes:
            pipe.close()
        self.pipes, self.processes = [], []
