// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2" 2>&1 | FileCheck %s
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2" --fsdp-mixed-precision --fsdp-insert-collectives --fsdp-verify-sharded -o /dev/null

// Blocks whose parameters are used outside (a penalty on the weight of layers.1), or held outside
// (the bank of layers.2), stay in the root. A cast before the modules run is no use.
// CHECK: remark: blocks that are no groups, but stay in the root: 'layers.2', 'layers.1'; operations outside of them use their parameters, or modules outside hold them
// CHECK: fsdp.group @layers.0 [@layers.0.w] of ["layers.0"]
// CHECK-NEXT: fsdp.group @root [@bank, @layers.1.w, @layers.2.w] of [""]
// CHECK-NEXT: func.func

!b = tensor<4x4xbf16>
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @bank : !m aliases ["layers.2.bank"]
  fsdp.param @layers.0.w : !m
  fsdp.param @layers.1.w : !m
  fsdp.param @layers.2.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %bank = fsdp.read @bank : !m
    %w0 = fsdp.read @layers.0.w : !m
    %w1 = fsdp.read @layers.1.w : !m
    %w2 = fsdp.read @layers.2.w : !m
    %cast = aten.call "_to_copy.default"(%w0, bf16, none, none, none, false, none) fwd in "" : (!m) -> !b
    %y0 = aten.call "mm.default"(%cast, %cast) fwd in "layers.0" : (!b, !b) -> !b
    %x0 = aten.call "_to_copy.default"(%y0, f32, none, none, none, false, none) fwd in "layers.0" : (!b) -> !m
    %x1 = aten.call "mm.default"(%x0, %w1) fwd in "layers.1" : (!m, !m) -> !m
    %x2 = aten.call "mm.default"(%x1, %w2) fwd in "layers.2" : (!m, !m) -> !m
    %x3 = aten.call "mm.default"(%x2, %bank) fwd in "layers.2" : (!m, !m) -> !m
    %penalty = aten.call "mul.Tensor"(%w1, %w1) fwd in "" : (!m, !m) -> !m
    %sum = aten.call "add.Tensor"(%x3, %penalty, 1) fwd in "" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%sum, none) fwd in "" : (!m) -> !s
    fsdp.grad @bank, %x2 : !m
    fsdp.update @bank step %step lr %lr
    fsdp.grad @layers.0.w, %x0 : !m
    fsdp.update @layers.0.w step %step lr %lr
    fsdp.grad @layers.1.w, %x1 : !m
    fsdp.update @layers.1.w step %step lr %lr
    fsdp.grad @layers.2.w, %x2 : !m
    fsdp.update @layers.2.w step %step lr %lr
    return %loss : !s
  }
}
