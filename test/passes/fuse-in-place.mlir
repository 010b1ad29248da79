// RUN: fsdp-opt %s --fsdp-fuse --fsdp-verify-scheduled | FileCheck %s

// What is added in place to a product passes through views of its rows and back. A tensor of fewer rows beside it
// is no operand of rows that are counted by one dimension: it begins another kernel.
// CHECK-LABEL: func.func @step
// CHECK:         aten.call "add.Tensor"(%{{.+}}, %x, 1) fwd in "a"
// CHECK:         fsdp.launch @fused_add_relu(
!m = tensor<8x8xf32>
!b = tensor<2x4x8xf32>
!p = tensor<1x4x8xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !s
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @w_ [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !b
    %p = fsdp.input "p" : !p
    %y = aten.call "add.Tensor"(%x, %x, 1) fwd in "a" : (!b, !b) -> !b
    %v = aten.call "view.default"(%y, [8, 8]) fwd in "a" : (!b) -> !m
    %u = aten.call "view.default"(%v, [2, 4, 8]) fwd in "a" : (!m) -> !b
    %z = aten.call "add.Tensor"(%u, %p, 1) fwd in "b" : (!b, !p) -> !b
    %r = aten.call "relu.default"(%z) fwd in "b" : (!b) -> !b
    %loss = aten.call "sum.default"(%r, none) fwd in "" : (!b) -> !s
    %g = aten.call "sum.default"(%x, none) bwd in "" : (!b) -> !s
    %d = fsdp.pack @w_(%g) : (!s) -> !fsdp.shard<@w_, f32>
    fsdp.update @w_ with %d step %step lr %lr : !fsdp.shard<@w_, f32>
    return %loss : !s
  }
}
