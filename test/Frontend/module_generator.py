"""Writes the source of random small modules: statements over a pool of named tensors with known shapes."""

import math
import random

HEADER = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))
        self.b = nn.Parameter(torch.randn(4))
        self.register_buffer("table", torch.randn(3, 4))
        self.register_buffer("count", torch.zeros(4))
        self.register_buffer("hidden", torch.randn(4), persistent=False)
        self.register_buffer("allowed", torch.rand(5, 4) > 0.5, persistent=False)
"""


class Generator:
    """Writes the source of one module. `form` is how it will be saved: export, trace or script."""

    def __init__(self, seed, form):
        self.random = random.Random(seed)
        self.form = form
        self.members, self.lines, self.pool = [], [], {"x": (2, 3, 4), "y": (4,)}
        self.names = 0
        self.depth = 2

    def emit(self, text):
        self.lines.append("    " * self.depth + text)

    def new(self, text, shape):
        name = f"v{self.names}"
        self.names += 1
        self.emit(f"{name} = {text}")
        self.pool[name] = tuple(shape)
        return name

    def pick(self, test=lambda shape: True):
        names = [name for name, shape in self.pool.items() if test(shape)]
        return self.random.choice(names) if names else None

    def member(self, text):
        name = f"m{len(self.members)}"
        self.members.append(f"        self.{name} = {text}")
        return f"self.{name}"

    # Each of these adds at most a few statements.

    def unary(self):
        name = self.pick()
        choice = self.random.choice([
            "torch.tanh({0})", "torch.sigmoid({0})", "F.relu({0})", "F.gelu({0})", "F.silu({0})",
            "{0}.square()", "{0}.abs()", "-{0}", "torch.sin({0})", "torch.sqrt({0}.abs() + 1.0)",
            "F.softplus({0})", "F.leaky_relu({0}, 0.1)", "torch.exp({0}.clamp(-2.0, 2.0))",
            "F.elu({0})", "F.hardswish({0})", "torch.log1p({0}.abs())", "torch.erf({0})",
            "torch.rsqrt({0} * {0} + 1e-3)", "F.mish({0})", "F.logsigmoid({0})",
        ])  # fmt: skip
        self.new(choice.format(name), self.pool[name])

    def number(self):
        name = self.pick()
        choice = self.random.choice([
            "{0} * 1e-4", "2 * {0}", "1 - {0}", "{0} / 3", "{0} ** 2", "{0} + 1", "0.5 + {0}",
            "{0}.add(1, alpha=2)", "torch.maximum({0}, torch.zeros_like({0}))",
            "{0}.clamp(min=0.1)", "torch.rsub({0}, 1.5)", "2.5 / ({0}.abs() + 1)",
        ])  # fmt: skip
        self.new(choice.format(name), self.pool[name])

    def scalar(self):
        name = self.pick()
        value = self.new(f"{name}.{self.random.choice(['sum', 'mean', 'amax'])}()", ())
        self.new(self.random.choice(["1e-4 * {0}", "{0} * 3", "{0} / 7", "{0} - 0.1"]).format(value), ())

    def binary(self):
        first = self.pick()
        second = self.pick(lambda shape: _fits(shape, self.pool[first]))
        choice = self.random.choice([
            "{0} + {1}", "{0} * {1}", "{0} - {1}", "{0} / ({1}.abs() + 1.0)",
            "torch.where({0} > {1}, {0}, {1} * 0.5)", "torch.maximum({0}, {1})",
            "torch.addcmul({0}, {0}, {1}, value=0.5)", "torch.lerp({0}, {0} + {1}, 0.3)",
        ])  # fmt: skip
        self.new(choice.format(first, second), self.pool[first])

    def reduce(self):
        name = self.pick(len)
        shape = list(self.pool[name])
        dim = self.random.randrange(len(shape))
        keep = self.random.random() < 0.4
        kind = self.random.choice(["sum", "mean", "amax", "logsumexp", "var", "norm"])
        if shape[dim] < 2 and kind == "var":
            kind = "sum"
        left = [1 if i == dim else n for i, n in enumerate(shape) if keep or i != dim]
        text = {"norm": f"torch.linalg.vector_norm({name} + 3.0, dim={dim}, keepdim={keep})",
                "var": f"{name}.var({dim}, unbiased=False, keepdim={keep})"}  # fmt: skip
        self.new(text.get(kind, f"{name}.{kind}({dim}, keepdim={keep})"), left)

    def along(self):
        name = self.pick(len)
        dim = self.random.randrange(len(self.pool[name]))
        choice = self.random.choice([
            "torch.softmax({0}, {1})", "F.log_softmax({0}, {1})", "{0}.cumsum({1})",
            "{0}.flip({1})", "torch.roll({0}, 1, {1})", "{0}.sort({1})[0]",
        ])  # fmt: skip
        self.new(choice.format(name, dim), self.pool[name])

    def view(self):
        name = self.pick(len)
        shape = list(self.pool[name])
        kind = self.random.choice(["transpose", "flatten", "unsqueeze", "expand", "slice", "step",
                                   "select", "chunk", "unbind", "reshape"])  # fmt: skip
        dim = self.random.randrange(len(shape))
        before = ":, " * dim
        if kind == "transpose":
            other = self.random.randrange(len(shape))
            shape[dim], shape[other] = shape[other], shape[dim]
            self.new(f"{name}.transpose({dim}, {other})", shape)
        elif kind == "flatten":
            self.new(f"{name}.flatten()", [math.prod(shape)])
        elif kind == "unsqueeze":
            self.new(f"{name}.unsqueeze({dim})", [*shape[:dim], 1, *shape[dim:]])
        elif kind == "expand":
            self.new(f"{name}.unsqueeze(0).expand({', '.join(map(str, [2, *shape]))})", [2, *shape])
        elif kind == "slice" and shape[dim] > 1:
            shape[dim] -= 1
            self.new(f"{name}[{before}1:]", shape)
        elif kind == "step" and shape[dim] > 1:
            shape[dim] = (shape[dim] + 1) // 2
            self.new(f"{name}[{before}::2]", shape)
        elif kind == "select":
            self.new(f"{name}[{before}-1]", shape[:dim] + shape[dim + 1 :])
        elif kind == "chunk" and shape[dim] % 2 == 0:
            shape[dim] //= 2
            self.new(f"{name}.chunk(2, {dim})[1]", shape)
        elif kind == "unbind" and shape[dim] > 1:
            self.new(f"torch.unbind({name}, {dim})[1]", shape[:dim] + shape[dim + 1 :])
        elif kind == "reshape":
            self.new(f"{name}.reshape({shape[0]}, -1)", [shape[0], math.prod(shape[1:])])

    def join(self):
        name = self.pick(len)
        shape = list(self.pool[name])
        other = self.pick(lambda s: list(s) == shape)
        dim = self.random.randrange(len(shape))
        if self.random.random() < 0.5:
            self.new(f"torch.cat([{name}, {other}], {dim})",
                     [n * 2 if i == dim else n for i, n in enumerate(shape)])  # fmt: skip
        else:
            self.new(f"torch.stack([{name}, {other}], {dim})", [*shape[:dim], 2, *shape[dim:]])

    def index(self):
        name = self.pick(len)
        shape = list(self.pool[name])
        kind = self.random.choice(["tensor", "select", "gather", "input", "embedding"])
        if kind == "tensor":
            self.new(f"{name}[torch.tensor([0, {shape[0] - 1}, 0])]", [3, *shape[1:]])
        elif kind == "select":
            self.new(f"{name}.index_select(0, torch.tensor([{shape[0] - 1}, 0]))", [2, *shape[1:]])
        elif kind == "gather":
            self.new(f"{name}.gather(0, torch.zeros_like({name}, dtype=torch.long))", shape)
        elif kind == "input":
            self.new("self.w[i]", (2, 3, 4))
        else:
            self.new("F.embedding(i, self.w)", (2, 3, 4))

    def mask(self):
        if self.random.random() < 0.3:
            name = self.pick(lambda shape: shape[-1:] == (4,))
            row = self.random.choice(["0", "1", "-1"])
            self.new(f"torch.where(self.allowed[{row}], {name}, {name} * 0.5)", self.pool[name])
            return
        name = self.pick(len)
        shape = self.pool[name]
        choice = self.random.choice([
            "{0}.masked_fill({0} > 0.5, 0.25)", "{0} * ({0} > 0).float()",
            "torch.where({0} > 0, {0}, torch.zeros_like({0}))",
            "{0}.masked_fill(torch.ones_like({0}, dtype=torch.bool).logical_not(), float('-inf'))",
        ])  # fmt: skip
        self.new(choice.format(name), shape)

    def causal(self):
        name = self.pick(lambda shape: len(shape) > 1)
        rows, columns = self.pool[name][-2:]
        full = self.new(f"torch.full(({rows}, {columns}), float('-inf')).triu(1)", (rows, columns))
        del self.pool[full]
        self.new(f"torch.softmax({name} + {full}, -1)", self.pool[name])

    def in_place(self):
        name = self.pick(len)
        shape = self.pool[name]
        copy = self.new(f"{name}.clone()", shape)
        self.emit(self.random.choice([
            "{0}.mul_(2.0)", "{0}[..., 0].mul_(3.0)", "{0}[..., 1:] = 0.5", "{0} += {1}",
            "{0}.add_({1}.mean())", "{0}[0] = {1}[-1]", "{0}.relu_()", "{0}.transpose(0, -1).neg_()",
            "{0}.masked_fill_({1} > 0, 0.1)", "{0}[..., 0] += 1", "{0}.cumsum_(-1)",
            "{0}.scatter_(-1, torch.zeros_like({0}, dtype=torch.long), 0.5)",
            "{0}.index_add_(0, torch.zeros(1, dtype=torch.long), {1}[:1] * 0.5)",
        ]).format(copy, name))  # fmt: skip

    def promote(self):
        name = self.pick(len)
        shape = self.pool[name]
        choice = self.random.choice([
            "{0}.double().mul(0.1).float()", "({0}.to(torch.bfloat16) * 1.5).float()",
            "{0} * torch.arange({1})", "{0} + torch.ones({1}, dtype=torch.long)",
            "({0} + {0}.double().sum()).float()", "{0}.half().float() * True",
        ])  # fmt: skip
        self.new(choice.format(name, shape[-1]), shape)

    def constants(self):
        self.new(self.random.choice([
            "torch.tensor(2.0) * 1e-4 * self.b", "self.hidden * self.b", "torch.linspace(0, 1, 4) * self.b",
            "torch.tensor([1.0, 2.0, 3.0, 4.0]) + self.b", "self.count + self.b",
        ]), (4,))  # fmt: skip
        self.new("self.table * self.w[1:]", (3, 4))

    def buffers(self):
        name = self.pick(lambda shape: shape[-1:] == (4,))
        buffer = self.random.choice(["count", "hidden"])
        self.emit(f"self.{buffer}.add_({name}.detach().reshape(-1, 4).mean(0))")

    def no_grad(self):
        if self.form == "trace":
            return  # torch.jit.trace drops it
        name = self.pick()
        inner = f"v{self.names}"
        self.names += 1
        self.emit("with torch.no_grad():")
        self.emit(f"    {inner} = torch.cos({name} * 0.5)")
        self.pool[inner] = self.pool[name]
        self.binary()

    def detach(self):
        name = self.pick()
        self.new(f"{name}.detach() * 2", self.pool[name])

    def autocast(self):
        name = self.pick(lambda shape: shape[-1:] == (4,) and len(shape) > 1)
        if self.form == "script":
            return  # refused
        inner = f"v{self.names}"
        self.names += 1
        self.emit('with torch.autocast("cpu", dtype=torch.bfloat16):')
        self.emit(f"    {inner} = F.linear({name}, self.w, self.b).softmax(-1)")
        if self.random.random() < 0.5:  # of bf16: some norms have fp32 statistics
            self.emit(f"    {inner} = {self.norm(self.pool[name])}({inner}.bfloat16())")
        self.new(f"{inner}.float()", self.pool[name])

    def norm(self, shape):
        """A norm of tensors whose dimensions are samples, channels and more."""
        channels = shape[1]
        kinds = ["nn.LayerNorm(4)", f"nn.GroupNorm(1, {channels})"]
        if shape[0] * math.prod(shape[2:]) > 1 and len(shape) < 4:  # else there is no variance
            affine = self.random.random() < 0.6
            kinds += [f"nn.BatchNorm1d({channels}, affine={affine})"] * 2
        return self.member(self.random.choice(kinds))

    def dropout(self):
        name = self.pick(len)
        view = ".transpose(0, -1)" if self.random.random() < 0.4 else ""
        shape = list(self.pool[name])
        if view:
            shape[0], shape[-1] = shape[-1], shape[0]
        self.new(f"F.dropout({name}{view}, 0.3, True)", shape)

    def layer(self):
        name = self.pick(lambda shape: shape[-1:] == (4,) and len(shape) > 1)
        shape = self.pool[name]
        kind = self.random.choice(["Linear", "norm", "norm", "matmul", "RMSNorm", "conv"])
        if kind == "Linear":
            self.new(f"{self.member('nn.Linear(4, 4)')}({name})", shape)
        elif kind == "matmul":
            self.new(f"{name} @ self.w.t()", shape)
        elif kind == "conv":
            if len(shape) != 3:
                return
            layer = f"nn.Conv1d({shape[1]}, 4, 3, padding=1)"
            made = self.new(f"{self.member(layer)}({name})", (shape[0], 4, 4))
            if self.random.random() < 0.5:
                self.new(f"{self.member('nn.GroupNorm(2, 4)')}({made})", (shape[0], 4, 4))
        elif kind == "norm":
            self.new(f"{self.norm(shape)}({name})", shape)
        else:
            self.new(f"{self.member('nn.RMSNorm(4)')}({name})", shape)

    def recurrent(self):
        name = self.pick(lambda shape: len(shape) == 3 and shape[-1] == 4)
        kind = self.random.choice(["GRU", "RNN", "LSTM"])
        both = self.random.random() < 0.3
        options = ", bidirectional=True" if both else ""
        options += self.random.choice(["", "", ", bias=False", ", num_layers=2"])
        layer = self.member(f"nn.{kind}(4, 4, batch_first=True{options})")
        self.new(f"{layer}({name})[0]", (*self.pool[name][:2], 8 if both else 4))

    def attention(self):
        name = self.pick(lambda shape: len(shape) == 3 and shape[-1] == 4)
        shape = self.pool[name]
        query = self.new(f"{name}.reshape({shape[0]}, {shape[1]}, 2, 2).transpose(1, 2)",
                         (shape[0], 2, shape[1], 2))  # fmt: skip
        causal = self.random.random() < 0.5
        self.new(f"F.scaled_dot_product_attention({query}, {query}, {query}, is_causal={causal})",
                 (shape[0], 2, shape[1], 2))  # fmt: skip

    STATEMENTS = [unary, unary, number, number, scalar, binary, binary, reduce, along, view, view,
                  view, join, index, mask, causal, in_place, in_place, promote, constants, buffers,
                  no_grad, detach, autocast, dropout, layer, layer, recurrent, attention]  # fmt: skip

    def write(self, statements):
        for _ in range(statements):
            self.random.choice(self.STATEMENTS)(self)
        terms = [f"{name}.mean()" if shape else name for name, shape in self.pool.items()]
        self.emit(f"loss = {' + '.join(terms)}")
        if self.form == "script":  # has no parameters()
            for name in ("w", "b"):
                self.emit(f"loss = loss + self.{name}.square().mean() * 0.1")
        else:
            self.emit("for parameter in self.parameters():")
            self.emit("    loss = loss + parameter.square().mean() * 0.1")
        self.emit("return loss")
        body = "\n".join(self.lines)
        members = "\n".join(self.members) + ("\n" if self.members else "")
        head = "    def forward(self, x: torch.Tensor, y: torch.Tensor, i: torch.Tensor):"
        return f"{HEADER}{members}\n{head}\n{body}\n"


def _fits(shape, into):
    """Whether the shape broadcasts into the other."""
    return len(shape) <= len(into) and all(
        a in (1, b) for a, b in zip(reversed(shape), reversed(into))
    )
