#!/usr/bin/env python3
"""Prints a captured training step shaped like a decoder's: the operations have the types and the
data flow that matter to the compiler (parameters, views of them, saved activations, gradients); the
arithmetic of the filler operations is not meaningful."""

import argparse
import sys

DIM, ROWS = 64, 8
WEIGHTS = ["attn.wq", "attn.wk", "attn.wv", "attn.wo", "mlp.w1", "mlp.w2", "mlp.w3"]
NORMS = ["norm1", "norm2"]

MAT = f"tensor<{DIM}x{DIM}xf32>"
MAT_T = f"tensor<{DIM}x{DIM}xf32, #aten.strides<[1, {DIM}]>>"
ROW = f"tensor<{DIM}xf32>"
ACT = f"tensor<{ROWS}x{DIM}xf32>"
ACT_T = f"tensor<{DIM}x{ROWS}xf32, #aten.strides<[1, {DIM}]>>"
LOSS = "tensor<f32>"


class Writer:
    def __init__(self):
        self.lines, self.count = [], 0

    def emit(self, line):
        self.lines.append(line)

    def op(self, text):
        self.count += 1
        self.emit(f"  %{self.count} = {text}")
        return f"%{self.count}"

    def call(self, callee, args, phase, module, operands, result):
        types = ", ".join(operands)
        return self.op(
            f'aten.call "{callee}"({", ".join(args)}) {phase} in "{module}" : ({types}) -> {result}'
        )


def forward_layer(out, i, x, filler, saved):
    for norm in NORMS:
        where = f"layers.{i}.{norm}"
        weight = out.op(f"fsdp.read @{where}.weight : {ROW}")
        saved[where] = (x, weight, None)
        x = out.call("mul.Tensor", [x, weight], "fwd", where, [ACT, ROW], ACT)
    for name in WEIGHTS:
        where = f"layers.{i}.{name}"
        weight = out.op(f"fsdp.read @{where}.weight : {MAT}")
        view = out.call("t.default", [weight], "fwd", where, [MAT], MAT_T)
        saved[where] = (x, weight, view)
        x = out.call("mm.default", [x, view], "fwd", where, [ACT, MAT_T], ACT)
    saved[f"layers.{i}"] = x
    for _ in range(filler):
        x = out.call("add.Tensor", [x, saved[f"layers.{i}"], "1.0"], "fwd", f"layers.{i}.mlp",
                     [ACT, ACT], ACT)
    return x


def backward_layer(out, i, g, filler, saved):
    for _ in range(2 * filler):
        g = out.call("mul.Tensor", [g, saved[f"layers.{i}"]], "bwd", f"layers.{i}.mlp",
                     [ACT, ACT], ACT)
    for name in reversed(WEIGHTS):
        where = f"layers.{i}.{name}"
        x, _, view = saved[where]
        xt = out.call("t.default", [x], "bwd", where, [ACT], ACT_T)
        dw = out.call("mm.default", [xt, g], "bwd", where, [ACT_T, ACT], MAT)
        out.emit(f"  fsdp.grad @{where}.weight, {dw} : {MAT}")
        wt = out.call("t.default", [view], "bwd", where, [MAT_T], MAT)
        g = out.call("mm.default", [g, wt], "bwd", where, [ACT, MAT], ACT)
    for norm in reversed(NORMS):
        where = f"layers.{i}.{norm}"
        x, weight, _ = saved[where]
        product = out.call("mul.Tensor", [g, x], "bwd", where, [ACT, ACT], ACT)
        dw = out.call("sum.dim_IntList", [product, "[0]", "false", "none"], "bwd", where, [ACT],
                      ROW)
        out.emit(f"  fsdp.grad @{where}.weight, {dw} : {ROW}")
        g = out.call("mul.Tensor", [g, weight], "bwd", where, [ACT, ROW], ACT)
    return g


def make_step(layers, filler):
    out, saved = Writer(), {}
    params = [("emb.weight", MAT)]
    for i in range(layers):
        params += [(f"layers.{i}.{n}.weight", ROW) for n in NORMS]
        params += [(f"layers.{i}.{n}.weight", MAT) for n in WEIGHTS]
    params.append(("head.weight", MAT))
    out.emit('module attributes {fsdp.model = "decoder", '
             "fsdp.phase = #fsdp.module_phase<captured>} {")
    for name, type_ in params:
        out.emit(f"fsdp.param @{name} : {type_}")
    out.emit("fsdp.optimizer adamw lr = 0.001 weight_decay = 0.1 betas = [0.9, 0.999] eps = 1.0e-8")
    out.emit(f"func.func @step() -> {LOSS} {{")
    out.emit('  %step = fsdp.input "step" : i64')
    out.emit('  %lr = fsdp.input "lr" : f64')
    out.emit(f'  %tokens = fsdp.input "tokens" : tensor<{ROWS}xi64>')
    table = out.op(f"fsdp.read @emb.weight : {MAT}")
    x = out.call("embedding.default", [table, "%tokens", "-1", "false", "false"], "fwd", "emb",
                 [MAT, f"tensor<{ROWS}xi64>"], ACT)
    for i in range(layers):
        x = forward_layer(out, i, x, filler, saved)
    head = out.op(f"fsdp.read @head.weight : {MAT}")
    view = out.call("t.default", [head], "fwd", "head", [MAT], MAT_T)
    y = out.call("mm.default", [x, view], "fwd", "head", [ACT, MAT_T], ACT)
    loss = out.call("mean.default", [y, "none"], "fwd", "", [ACT], LOSS)
    one = out.call("ones_like.default",
                   [loss, "none", "none", "#aten.device", "false",
                    "#aten.memory_format<preserve>"], "bwd", "", [LOSS], LOSS)
    wide = f"tensor<{ROWS}x{DIM}xf32, #aten.strides<[0, 0]>>"
    g = out.call("expand.default", [one, f"[{ROWS}, {DIM}]", "false"], "bwd", "", [LOSS], wide)
    g = out.call("div.Scalar", [g, f"{float(ROWS * DIM)}"], "bwd", "", [wide], ACT)
    xt = out.call("t.default", [x], "bwd", "head", [ACT], ACT_T)
    dw = out.call("mm.default", [xt, g], "bwd", "head", [ACT_T, ACT], MAT)
    out.emit(f"  fsdp.grad @head.weight, {dw} : {MAT}")
    wt = out.call("t.default", [view], "bwd", "head", [MAT_T], MAT)
    g = out.call("mm.default", [g, wt], "bwd", "head", [ACT, MAT], ACT)
    for i in reversed(range(layers)):
        g = backward_layer(out, i, g, filler, saved)
    dw = out.call("embedding_dense_backward.default", [g, "%tokens", str(DIM), "-1", "false"],
                  "bwd", "emb", [ACT, f"tensor<{ROWS}xi64>"], MAT)
    out.emit(f"  fsdp.grad @emb.weight, {dw} : {MAT}")
    for name, _ in params:
        out.emit(f"  fsdp.update @{name} step %step lr %lr")
    out.emit(f"  return {loss} : {LOSS}")
    out.emit("}\n}")
    return out.lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=126)
    parser.add_argument("--filler", type=int, default=16,
                        help="elementwise operations per layer in the forward; twice as many in "
                        "the backward")
    args = parser.parse_args()
    sys.stdout.write("\n".join(make_step(args.layers, args.filler)) + "\n")


if __name__ == "__main__":
    main()
