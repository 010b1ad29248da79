// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=1 fusion=fast" | FileCheck %s

// A kernel reads one of the backward's results before what is computed from x a second time: the backward does not wait
// for that, though nothing asks for its other result until then.
// CHECK-LABEL: func.func @step
// CHECK: %[[H:.+]] = fsdp.launch @{{.+}}(%x) bwd
// CHECK: %[[BACK:.+]]:3 = aten.call "convolution_backward.default"(%{{.+}}, %[[H]], %{{.+}})
// CHECK: fsdp.launch @{{.+}}(%[[BACK]]#1
// CHECK: aten.call "_softmax.default"
!x = tensor<1x4x8x8xf32>
!w = tensor<4x4x1x1xf32>
!b = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.target = #fsdp.target<cuda>, fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a.w : !w
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !x
    %w = fsdp.read @a.w : !w
    %dz = aten.call "convolution.default"(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) fwd in "a" : (!x, !w) -> !x
    %loss = aten.call "sum.default"(%dz, none) fwd in "" : (!x) -> !s
    %g = aten.call "silu.default"(%x) bwd in "a" : (!x) -> !x
    %h = aten.call "mul.Tensor"(%g, %x) bwd in "a" : (!x, !x) -> !x
    %c:3 = aten.call "convolution_backward.default"(%dz, %h, %w, [4], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, true]) bwd in "a" : (!x, !x, !w) -> (!x, !w, !b)
    %r = aten.call "relu.default"(%c#1) bwd in "a" : (!w) -> !w
    %q = aten.call "mul.Tensor"(%r, %w) bwd in "a" : (!w, !w) -> !w
    %k = aten.call "_softmax.default"(%dz, -1, false) bwd in "" : (!x) -> !x
    %m = aten.call "mul.Tensor"(%k, %x) bwd in "a" : (!x, !x) -> !x
    %n = aten.call "silu_backward.default"(%m, %x) bwd in "a" : (!x, !x) -> !x
    %t = aten.call "sum.default"(%n, none) bwd in "" : (!x) -> !s
    %u = aten.call "sum.default"(%c#0, none) bwd in "" : (!x) -> !s
    fsdp.grad @a.w, %q : !w
    fsdp.update @a.w step %step lr %lr
    return %loss : !s
  }
}
