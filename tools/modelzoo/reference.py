"""PyTorch's FSDP2 on two ranks: what fsdpc's losses and parameters are compared with."""

import multiprocessing
import os

import torch
import torch.distributed as dist

RANKS = 2


def group_modules(model, groups):
    """The modules of fsdpc's groups but the root's, in the model's order: fully_shard's calls."""
    wanted = {name for name in groups if name}
    return [module for name, module in model.named_modules() if name in wanted]


def make_optimizer(kind, parameters, lr):
    kinds = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
    return kinds[kind](parameters, lr=lr, foreach=False)


def train(rank, make, groups, batches, kind, lr):
    """(losses as hex floats, final parameters by name)"""
    from torch.distributed.fsdp import fully_shard

    model = make()
    for module in group_modules(model, groups):
        fully_shard(module)
    fully_shard(model)
    optimizer = make_optimizer(kind, list(model.parameters()), lr)
    losses = []
    for step in range(len(batches) // RANKS):
        loss = model(**batches[step * RANKS + rank])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    return losses, {name: p.full_tensor().detach() for name, p in model.named_parameters()}


def serve(rank, pipe, make):
    """Answers runs until the pipe closes."""
    torch.set_num_threads(1)
    try:
        port, batches = pipe.recv()
        store = dist.TCPStore("127.0.0.1", port, RANKS, is_master=False)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
        while True:
            groups, kind, lr = pipe.recv()
            try:
                losses, final = train(rank, make, groups, batches, kind, lr)
                # As numpy arrays: tensors would travel in shared memory, which ends with us.
                pipe.send((losses, {name: t.numpy() for name, t in final.items()}))
            except Exception as error:
                pipe.send(error)
    except EOFError:
        pass
    # Tearing down gloo's threads at interpreter exit now and then aborts the process.
    os._exit(0)


class Reference:
    """Two ranks that wait for runs. They are forked: to be made before torch has started threads.

    make: function without arguments that returns the module whose forward returns the loss.
    """

    def __init__(self, make):
        context = multiprocessing.get_context("fork")
        self.pipes, self.processes = [], []
        for rank in range(RANKS):
            mine, theirs = context.Pipe()
            process = context.Process(target=serve, args=(rank, theirs, make), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(mine)
            self.processes.append(process)
        self.store = None

    def run(self, groups, batches, kind, lr):
        """(losses by rank and step as hex floats, final parameters by name); batches: those of rank
        0 and 1 of each step in turn."""
        if not self.store:
            self.store = dist.TCPStore("127.0.0.1", 0, RANKS, is_master=True, wait_for_workers=False)
            for pipe in self.pipes:
                pipe.send((self.store.port, batches))
        for pipe in self.pipes:
            pipe.send((groups, kind, lr))
        answers = [pipe.recv() for pipe in self.pipes]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        final = {name: torch.from_numpy(array) for name, array in answers[0][1].items()}
        return [losses for losses, _ in answers], final

    def end(self):
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(10)
            if process.is_alive():
                process.kill()
