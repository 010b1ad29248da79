// RUN: printf "groups: [{modules: [l]}]\n" > %t.average.yaml
// RUN: printf "groups: [{modules: [l]}]\ngradient_divide_factor: 5\n" > %t.yaml
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 config=%t.average.yaml" -o %t.average.mlir
// RUN: FileCheck %s --check-prefix=AVERAGE --input-file=%t.average.mlir
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 config=%t.yaml" -o %t.scaled.mlir
// RUN: FileCheck %s --check-prefix=SCALED --input-file=%t.scaled.mlir
// RUN: sed 's/ over \["dp"\] avg/ over ["dp"] premul_sum predivide 5.0/; s/reshard_after_forward none/& gradient_divide_factor 5.0/' %t.average.mlir > %t.spoiled.mlir
// RUN: not fsdp-opt %t.spoiled.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=SPOILED

// The gradient of the bias goes on to the layer before. An average leaves it as it is: it is computed where
// the reduction reads it.
// AVERAGE: %[[G:.+]] = aten.call "mul.Tensor"({{.*}}) bwd in "l" at [[[#PLACE:]]]
// AVERAGE: fsdp.reduce_scatter.start @l(%[[G]]) {{.*}} at [[[#PLACE]],

// What is scaled in place is a copy.
// SCALED: %[[G:.+]] = aten.call "mul.Tensor"({{.*}}) bwd in "l" at [[[#PLACE:]]]
// SCALED-NOT: fsdp.reduce_scatter.start @l(%[[G]]) {{.*}} at [[[#PLACE]],
// SCALED: fsdp.reduce_scatter.start @l(%[[G]])

// SPOILED: error: 'fsdp.reduce_scatter.start' op P4: writes to the gradient of @l.b, which is read later

!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @k.w : !m
  fsdp.param @l.b : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @k.w : !m
    %b = fsdp.read @l.b : !m
    %y = aten.call "mm.default"(%x, %w) fwd in "k" : (!m, !m) -> !m
    %z = aten.call "add.Tensor"(%y, %b, 1) fwd in "l" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!m) -> !s
    %o = aten.call "ones_like.default"(%z, none, none, none, none, none) bwd in "" : (!m) -> !m
    %g = aten.call "mul.Tensor"(%o, %o) bwd in "l" : (!m, !m) -> !m
    fsdp.grad @l.b, %g : !m
    %dw = aten.call "mm.default"(%x, %g) bwd in "k" : (!m, !m) -> !m
    fsdp.grad @k.w, %dw : !m
    fsdp.update @l.b step %step lr %lr
    fsdp.update @k.w step %step lr %lr
    return %loss : !s
  }
}
