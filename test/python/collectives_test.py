#!/usr/bin/env python3
"""tools/python/fsdpc: collectives of torch.distributed become operators of the step, which are the same on all ranks, or are
refused."""

import contextlib
import io
import json
import threading
import unittest
import zipfile

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
import torch.nn as nn
from torch.distributed import all_reduce, get_rank, is_initialized  # bound before the export
from torch.utils.checkpoint import checkpoint

import exported
import fsdpc  # exported says where it is
from exported import Model

RANKS = 2


class Simulated:
    """The ranks of a run, in threads of lock step. The reductions have the order of ranks."""

    def __init__(self, ranks):
        self.ranks, self.barrier, self.slots = ranks, threading.Barrier(ranks), [None] * ranks

    def exchange(self, rank, x):
        self.slots[rank] = x.clone()  # which may be overwritten
        self.barrier.wait()
        every = list(self.slots)
        self.barrier.wait()
        return every

    @staticmethod
    def reduce(parts, op):
        stacked = torch.stack(parts)
        return {"sum": lambda: stacked.sum(0), "avg": lambda: stacked.mean(0), "max": lambda: stacked.amax(0)}[op]()

    def call(self, rank, name, x, *more):
        if name == "own_part":
            return x[rank].clone()
        every = self.exchange(rank, x)
        if name == "all_gather":
            assert more == (self.ranks,)
            return torch.stack(every)
        return self.reduce(every if name == "all_reduce" else [parts[rank] for parts in every], *more)

    def run(self, function):
        """What a function of the rank returns on each rank."""
        results, errors = [None] * self.ranks, []

        def run(rank):
            try:
                results[rank] = function(rank)
            except BaseException as error:  # noqa: BLE001
                errors.append(error)
                self.barrier.abort()

        threads = [threading.Thread(target=run, args=[rank]) for rank in range(self.ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results


class Collective(torch.autograd.Function):
    """An operator of the step, with the derivative that lib/Frontend/ModelCollectives.cpp has."""

    @staticmethod
    def forward(ctx, call, name, x, *more):
        ctx.call, ctx.name, ctx.more, ctx.ranks = call, name, more, x.shape[:1]
        result = call(name, x, *more)
        if name == "own_part" or "max" in more:
            ctx.mark_non_differentiable(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        name, more = {"all_reduce": ("all_reduce", ctx.more), "all_gather": ("reduce_scatter", ("sum",)),
                      "reduce_scatter": ("all_gather", ctx.ranks)}[ctx.name]  # fmt: skip
        return None, None, ctx.call(name, gradient, *more), *[None] * len(ctx.more)


class Graphs(torch.autograd.Function):
    """A recorded Function: the graphs of its forward and its backward."""

    @staticmethod
    def forward(ctx, run, forward, backward, differentiable, *operands):
        results = run(forward, *operands)
        count = len(differentiable)
        ctx.run, ctx.graph, ctx.saved = run, backward, results[count:]
        ctx.mark_non_differentiable(*(result for result, has in zip(results, differentiable) if not has))
        return tuple(results[:count])

    @staticmethod
    def backward(ctx, *gradients):
        return None, None, None, None, *ctx.run(ctx.graph, *gradients, *ctx.saved)


class Interpreter(torch.fx.Interpreter):
    def __init__(self, module, call):
        super().__init__(module)
        self.call = call

    def run_graph(self, graph, *operands):
        return Interpreter(graph, self.call).run(*operands)

    def call_function(self, target, args, kwargs):
        name = str(target)
        if name.startswith("fsdpc."):
            return Collective.apply(self.call, name.split(".")[1], *args)
        if name == "autograd_function":
            return Graphs.apply(self.run_graph, *args[:2], kwargs["differentiable"], *args[2:])
        if name == "wrap_with_set_grad_enabled":
            with torch.set_grad_enabled(args[0]):
                return self.run_graph(*args[1:])
        return super().call_function(target, args, kwargs)


class GatherLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.rank, ctx.size = dist.get_rank(), len(x)
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *gradients):
        every = torch.stack(gradients)
        dist.all_reduce(every)
        return every[dist.get_rank()]


class Sliced(GatherLayer):
    @staticmethod
    def backward(ctx, *gradients):
        return torch.cat(gradients)[ctx.size * ctx.rank:ctx.size * (ctx.rank + 1)] * len(gradients)


class Chosen(GatherLayer):
    @staticmethod
    def backward(ctx, *gradients):
        return gradients[dist.get_rank()] * len(gradients)


def labels(x):
    return torch.arange(len(x)) + len(x) * dist.get_rank()


def scores(y, every):
    """The loss of each row of y against all rows."""
    return torch.logsumexp(y @ every.t(), 1).mean()


class Values(exported.Exported):
    """Programs of two ranks, each with a batch of its own, and what plain code computes of both batches."""

    def run_ranks(self, model, batches, **options):
        """The losses by rank, the gradients of the weight by rank, and the model's buffers by rank."""
        fsdpc.export(model, {"x": batches[0]}, self.path, quiet=True, ranks=RANKS, **options)
        program = torch.export.load(self.path)
        names = {**program.graph_signature.inputs_to_parameters, **program.graph_signature.inputs_to_buffers}
        simulated = Simulated(RANKS)

        def run(rank):
            held = {name: value.detach().clone() for name, value in (*model.named_parameters(), *model.named_buffers())}
            weight = held["linear.weight"].requires_grad_()
            inputs = [held[names[node.name]] if node.name in names else batches[rank]
                      for node in program.graph.nodes if node.op == "placeholder"]  # fmt: skip
            call = lambda name, x, *more: simulated.call(rank, name, x, *more)  # noqa: E731
            (loss,) = Interpreter(program.graph_module, call).run(*inputs)
            return loss.detach(), torch.autograd.grad(loss, weight)[0], held

        return zip(*simulated.run(run))

    def check(self, forward, expected, **options):
        """expected(y, x): the losses by rank, of the results and inputs of both ranks."""
        torch.manual_seed(0)
        model, batches = Model(forward), [torch.randn(2, 4) for _ in range(RANKS)]
        losses, gradients, _ = self.run_ranks(model, batches, **options)
        plain = [loss.sum() for loss in expected([model.linear(x) for x in batches], batches)]
        torch.testing.assert_close(list(losses), [loss.detach() for loss in plain])
        gradient, = torch.autograd.grad(sum(plain), model.linear.weight)
        torch.testing.assert_close(sum(gradients), gradient)

    def test_in_place(self):
        def normalized(model, x):
            count, least, largest, mean = (x > 0).sum(), x.amin(0), x.amax(0), x.mean(0)
            all_reduce(count)
            works = [dist.all_reduce(least, dist.ReduceOp.MIN, async_op=True), dist.all_reduce(largest, op=dist.ReduceOp.MAX)]
            works[0].wait()
            dist.all_reduce(mean, dist.ReduceOp.AVG)
            whole = (x * 8).long().amin(0)
            dist.all_reduce(whole, dist.ReduceOp.MIN)
            any_positive = (x > 1).any(0)
            dist.all_reduce(any_positive, dist.ReduceOp.MAX)
            return model.linear(x) / count * (largest - least) + mean + whole + any_positive

        def expected(y, x):
            every = torch.cat(x)
            rest = every.mean(0) + (every * 8).long().amin(0) + (every > 1).any(0)
            return [one / (every > 0).sum() * (every.amax(0) - every.amin(0)) + rest for one in y]

        self.check(normalized, expected)

    def test_history_of_overwritten_tensors(self):
        """It stays, as in eager mode: the gradient is that of a sum over one rank."""

        def overwritten(model, x):
            y = model.linear(x)
            dist.all_reduce(y)
            return y

        self.check(overwritten, lambda y, x: [sum(y).detach() + one - one.detach() for one in y])

    def test_gathers(self):
        def forward(model, x):
            rows, flat = [torch.empty_like(x) for _ in range(2)], x.new_empty(4, 4)
            own, part = x.new_empty(1, 4), x.new_empty(1, 4)
            dist.all_gather(rows, x)
            dist.all_gather_into_tensor(flat, x)
            dist.reduce_scatter(own, [x[:1], x[1:]], op=dist.ReduceOp.AVG)
            dist.reduce_scatter_tensor(part, x)
            sent, mask = x.clone(), x > 0
            dist.broadcast(sent, 1)
            dist.broadcast(mask, src=0)
            dist.barrier()
            return model.linear(x) * (rows[1] + flat[:2] + own + part + sent + mask)

        def expected(y, x):
            total = x[0] + x[1]
            return [one * (x[1] + x[0] + total[r] * 1.5 + x[1] + (x[0] > 0)) for r, one in enumerate(y)]

        self.check(forward, expected)

    def test_differentiable(self):
        def forward(model, x):
            y = model.linear(x)
            total = differentiable.all_reduce(y)
            every = torch.cat(differentiable.all_gather(y.tanh()))
            based = differentiable._all_gather_base(y.new_empty(4, 4), y.sin())
            part = differentiable.reduce_scatter(y.new_empty(1, 4), [y[:1].exp(), y[1:]])
            sent = differentiable.broadcast(y.cos(), 1)
            mean = differentiable.all_reduce(y.exp(), dist.ReduceOp.AVG)
            return total * x + scores(y, every) + scores(y, based) + part * x + sent * x + mean * x

        def expected(y, x):
            every, based = torch.cat([one.tanh() for one in y]), torch.cat([one.sin() for one in y])
            parts, mean = [y[0][:1].exp() + y[1][:1].exp(), y[0][1:] + y[1][1:]], (y[0].exp() + y[1].exp()) / 2
            return [(sum(y) + parts[r] + y[1].cos() + mean) * x[r] + scores(y[r], every) + scores(y[r], based) for r in range(2)]

        self.check(forward, expected)

    def test_functional(self):
        def forward(model, x):
            y, world = model.linear(x), dist.group.WORLD
            total = functional.wait_tensor(functional.all_reduce(y, "sum", world))
            beside = functional.all_gather_tensor(y, 1, world)
            part = functional.reduce_scatter_tensor_autograd(y, "sum", 1, world)
            largest = functional.all_reduce(y.detach(), "max", world)
            return total * x + beside.square().sum() + part.exp().sum() + largest + functional.broadcast(x, 1, world)

        def expected(y, x):
            total = sum(y)
            return [total * x[r] + torch.cat(y, 1).square().sum() + total[:, 2 * r:2 * r + 2].exp().sum()
                    + torch.maximum(*y).detach() + x[1] for r in range(2)]  # fmt: skip

        self.check(forward, expected)

    def test_numbers_of_ranks(self):
        """Labels, indices and slices that depend on the rank, and questions that all ranks answer alike."""

        def forward(model, x):
            every = torch.cat(differentiable.all_gather(model.linear(x)))
            rank, n = dist.get_rank(), len(x)
            assert dist.is_available() and is_initialized() and 0 <= rank < dist.get_world_size(dist.group.WORLD)
            buffer = torch.zeros(RANKS * n, 4)
            buffer[rank * n:(rank + 1) * n] = x
            sides, sign = every.view(n, RANKS, 4), torch.where(torch.as_tensor(get_rank()) == 0, 1, -1)
            return (every[labels(x)] * x + every[rank * n:rank * n + n].exp() + every.view(RANKS, n, 4)[rank - 1]
                    + sides[:, rank] * sides[..., rank, 1:2] + buffer.sum() * x * sign)  # fmt: skip

        def expected(y, x):
            sides = torch.cat(y).view(2, 2, 4)
            return [y[r] * x[r] + y[r].exp() + y[1 - r] + sides[:, r] * sides[:, r, 1:2] + x[r].sum() * x[r] * (1 - 2 * r)
                    for r in range(2)]  # fmt: skip

        self.check(forward, expected)

    def test_functions(self):
        """Gradients of all ranks, or a rank's own; the rank from the forward or from the backward."""
        for function in (GatherLayer, Sliced, Chosen):
            with self.subTest(function.__name__):

                def forward(model, x):
                    return scores(x, torch.cat(function.apply(model.linear(x))))

                def expected(y, x):
                    if function is GatherLayer:
                        return [scores(one, torch.cat(y)) for one in x]
                    own = lambda r: torch.cat([one if at == r else one.detach() for at, one in enumerate(y)])  # noqa: E731
                    return [2 * scores(x[r], own(r)) - scores(x[r], own(r)).detach() for r in range(2)]

                self.check(forward, expected)

    def test_prints(self):
        """Code of one rank that leaves the step as it is."""

        def forward(model, x):
            if dist.get_rank() == 0:
                print(f"rank {dist.get_rank():02d}")
            return differentiable.all_reduce(model.linear(x))

        with contextlib.redirect_stdout(io.StringIO()) as told:
            self.check(forward, lambda y, x: [sum(y), sum(y)])
        self.assertEqual(told.getvalue(), "rank 00\n")

    def test_regions(self):
        def forward(model, x):
            total = lambda x: differentiable.all_reduce(model.linear(x))  # noqa: E731
            with torch.no_grad():
                shift = total(x)
            return checkpoint(total, x, use_reentrant=False) + checkpoint(total, x, use_reentrant=False) * shift

        self.check(forward, lambda y, x: [sum(y) + sum(y) * sum(y).detach()] * 2)

    def test_center(self):
        """A buffer is the same on all ranks."""

        def forward(model, x):
            y = model.linear(x)
            with torch.no_grad():
                total = y.sum(0)
                dist.all_reduce(total)
                model.mean = model.mean * 0.9 + total / (len(y) * dist.get_world_size()) * 0.1
            return y

        torch.manual_seed(0)
        model, batches = Model(forward), [torch.randn(2, 4) for _ in range(RANKS)]
        *_, held = self.run_ranks(model, batches)
        mean = model.linear(torch.cat(batches)).mean(0).detach() * 0.1
        for values in held:
            torch.testing.assert_close(values["mean"], mean)
        self.assertTrue(torch.equal(held[0]["mean"], held[1]["mean"]))

    def test_sync_batch_norm(self):
        """As a batch norm of the batches of all ranks, in training and evaluation."""
        options = ({}, {"momentum": None}, {"affine": False}, {"track_running_stats": False})
        for chosen in options:
            with self.subTest(chosen):
                torch.manual_seed(0)
                forward = lambda model, x: model.norm(model.linear(x)[..., None].cos()).square() * x[..., None]  # noqa: E731
                model, batches = Model(forward), [torch.randn(2, 4) for _ in range(RANKS)]
                model.norm = nn.SyncBatchNorm(4, **chosen)
                losses, gradients, held = self.run_ranks(model, batches)
                plain = Model(forward)
                plain.norm = nn.BatchNorm1d(4, **chosen)
                plain.load_state_dict(model.state_dict())
                loss = plain(torch.cat(batches))
                torch.testing.assert_close(sum(losses), loss.detach())
                torch.testing.assert_close(sum(gradients), torch.autograd.grad(loss, plain.linear.weight)[0])
                for name, buffer in plain.named_buffers():
                    torch.testing.assert_close(held[1][name], buffer)
        self.path.unlink()
        self.expect_refusal(r"module 'norm' is a SyncBatchNorm.*\n  remedy: fsdpc.export\(..., ranks=N\)", model)
        self.export(model.eval())


class Programs(exported.Exported):
    def find(self, forward, **options):
        """The operators of the step, with the shapes of their results."""
        self.export(Model(forward), ranks=RANKS, **options)
        modules = torch.export.load(self.path).graph_module.modules()
        nodes = [node for module in modules if isinstance(module, torch.fx.GraphModule) for node in module.graph.nodes]
        return [(node.target._opname, list(node.meta["val"].shape)) for node in nodes if str(node.target).startswith("fsdpc.")]

    def test_operators(self):
        def forward(model, x):
            y = torch.cat(differentiable.all_gather(model.linear(x)))
            total = y.sum()
            dist.all_reduce(total)
            return y[labels(x)] + differentiable.reduce_scatter(x.new_empty(1, 4), [x[:1], x[1:]]) + total

        expected = [("all_gather", [2, 2, 4]), ("all_reduce", []), ("own_part", []), ("reduce_scatter", [4])]
        self.assertEqual(self.find(forward), expected)
        with zipfile.ZipFile(self.path) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("fsdpc.json"))
            self.assertEqual(json.loads(archive.read(name))["ranks"], RANKS)

    def test_dtypes(self):
        def forward(model, x):
            every = torch.cat(differentiable.all_gather(model.linear(x)))
            if (x > -100).all():
                every = every * 2
            return every

        policy = torch.distributed.fsdp.MixedPrecisionPolicy(torch.bfloat16, output_dtype=torch.float32)
        found = self.find(forward, mixed_precision=policy, specialize=True)
        self.assertEqual(found, [("all_gather", [2, 2, 4])])

    def test_loss(self):
        loss = lambda output, batch: torch.cat(differentiable.all_gather(output)).mean()  # noqa: E731
        fsdpc.export(nn.Linear(4, 4), {"input": torch.randn(2, 4)}, self.path, loss=loss, quiet=True, ranks=RANKS)

    def test_nothing_is_left(self):
        self.find(lambda model, x: differentiable.all_reduce(model.linear(x)))
        self.assertFalse(dist.is_initialized())
        self.assertIsNone(dist.group.WORLD)
        self.assertNotIn("__getitem__", vars(torch.Tensor))
        with self.assertRaisesRegex(ValueError, "has not been initialized"):
            get_rank()

    def test_number_of_ranks(self):
        for ranks in (True, 0, -1, 2.0, "2"):
            with self.assertRaisesRegex(fsdpc.ExportError, f"ranks is {ranks!r}, expected a whole number of at least 1"):
                self.export(Model(lambda model, x: model.linear(x)), ranks=ranks)
        for forward in (lambda model, x: model.linear(x) * dist.get_world_size(), lambda model, x: model.linear(x) + get_rank(),
                        lambda model, x: model.linear(x) * (2 if is_initialized() else 1),
                        lambda model, x: all_reduce(x.clone()) or model.linear(x),
                        lambda model, x: differentiable.all_reduce(model.linear(x)),
                        lambda model, x: functional.all_reduce(model.linear(x), "sum", dist.group.WORLD)):  # fmt: skip
            self.expect_refusal(r"the forward has a collective, or asks [^\n]*\n  at .*collectives_test.py:\d+\n  remedy: "
                                r"fsdpc.export\(..., ranks=N\)", Model(forward))  # fmt: skip

    def test_refused(self):
        def of_rank(model, x):
            return model.linear(x) * (2 if get_rank() == 0 else 1)

        def of_number(model, x):
            count = (x > 0).sum()
            dist.all_reduce(count)
            return model.linear(x) if count > 2 else x

        clone = lambda call: lambda model, x: call(x.clone()) or model.linear(x)  # noqa: E731
        for text, forward in (
            (r"the forward of rank 1 is another one [^\n]* True on rank 0 and False on rank 1\n  at .*collectives_test.py:\d+\n"
             r"  remedy: a step is one program for all ranks", of_rank),
            ("0 on rank 0 and 1 on rank 1", lambda model, x: [model.linear(x), x][get_rank()]),
            (r"\n  at .*collectives_test.py:\d+\n  remedy: the number depends on other ranks", of_number),
            (r"calls torch.distributed.all_to_all_single, which a step does not have\n  at .*collectives_test.py:\d+\n  remedy: ",
             clone(lambda x: dist.all_to_all_single(x, x))),
            ("calls torch.distributed.new_group,", clone(lambda x: dist.new_group([0, 1]))),
            ("calls torch.distributed.all_gather_object,", clone(lambda x: dist.all_gather_object([None, None], 1))),
            ("calls torch.distributed.send,", clone(lambda x: dist.send(x, 1))),
            ("calls torch.distributed.gather,", clone(lambda x: dist.gather(x, None, 0))),
            ("calls torch.distributed.nn.functional.gather,", lambda model, x: differentiable.gather(model.linear(x))[0]),
            ("calls torch.distributed._functional_collectives.all_to_all_single,",
             lambda model, x: functional.all_to_all_single(model.linear(x), None, None, dist.group.WORLD)),
            ("a reduction by product of torch.float32", clone(lambda x: dist.all_reduce(x, dist.ReduceOp.PRODUCT))),
            ("a reduction by avg of torch.int64", clone(lambda x: dist.all_reduce(x.long(), dist.ReduceOp.AVG))),
            ("a collective of torch.int16", clone(lambda x: dist.all_reduce(x.short()))),
            ("all_reduce by max has no derivative", lambda model, x: differentiable.all_reduce(model.linear(x), dist.ReduceOp.MAX)),
            ("a group that is not that of all ranks", lambda model, x: differentiable.all_reduce(model.linear(x), group=object())),
        ):  # fmt: skip
            with self.subTest(text):
                self.expect_refusal(text, Model(forward), ranks=RANKS)

    def test_stored_rank(self):
        model = Model(lambda model, x: model.linear(x) * torch.stack(differentiable.all_gather(x)).sum() + model.linear.rank)
        model.linear.rank = 0
        with contextlib.redirect_stderr(io.StringIO()) as told:
            fsdpc.export(model, {"x": torch.randn(2, 4)}, self.path, ranks=RANKS)
        self.assertIn("attribute 'rank' of module 'linear' is 0, on every rank of the step", told.getvalue())


if __name__ == "__main__":
    unittest.main()
