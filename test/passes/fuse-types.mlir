// RUN: fsdp-opt %s --fsdp-pipeline="fusion=exact" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-pipeline="fusion=fast" | FileCheck %s

// Kernels hold calls whose results have the dtypes and sizes that torch gives them. What the text says otherwise is left
// to the run, which compares: comparisons that yield numbers, other operators that yield bools, sums of bf16 in f32,
// casts to another dtype, more columns than a slice has, and parts of a negative size.
// CHECK-LABEL: func.func @step
// CHECK-DAG: aten.call "eq.Tensor"
// CHECK-DAG: aten.call "neg.default"({{.*}}) fwd in "bools"
// CHECK-DAG: aten.call "add.Tensor"({{.*}}) fwd in "wide"
// CHECK-DAG: aten.call "_to_copy.default"
// CHECK-DAG: aten.call "slice.Tensor"
// CHECK-DAG: aten.call "split.Tensor"
// CHECK-DAG: fsdp.launch
!f = tensor<4x64xf32>
!h = tensor<4x64xbf16>
!b = tensor<4x64xi1>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !f
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !f
    %y = fsdp.input "y" : !h
    %w = fsdp.read @w : !f
    %m = aten.call "mul.Tensor"(%x, %w) fwd in "" : (!f, !f) -> !f
    %eq = aten.call "eq.Tensor"(%m, %x) fwd in "numbers" : (!f, !f) -> !f
    %bools = aten.call "neg.default"(%m) fwd in "bools" : (!f) -> !b
    %wide = aten.call "add.Tensor"(%y, %y, 1) fwd in "wide" : (!h, !h) -> !f
    %cast = aten.call "_to_copy.default"(%m, bf16, none, none, none, false, none) fwd in "" : (!f) -> !f
    %p = aten.call "mul.Tensor"(%cast, %eq) fwd in "" : (!f, !f) -> !f
    %q = aten.call "mul.Tensor"(%p, %bools) fwd in "" : (!f, !b) -> !f
    %r = aten.call "mul.Tensor"(%q, %wide) fwd in "" : (!f, !f) -> !f
    %slice = aten.call "slice.Tensor"(%m, 1, 0, 16, 1) fwd in "" : (!f) -> tensor<4x32xf32, #aten.strides<[64, 1]>>
    %split:2 = aten.call "split.Tensor"(%m, -32, 1) fwd in "" : (!f) -> (tensor<4x32xf32, #aten.strides<[64, 1]>>, tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>)
    %t = aten.call "mul.Tensor"(%slice, %split#1) fwd in "" : (tensor<4x32xf32, #aten.strides<[64, 1]>>, tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>) -> tensor<4x32xf32>
    %u = aten.call "cat.default"([%t, %t], 1) fwd in "" : (tensor<4x32xf32>, tensor<4x32xf32>) -> !f
    %v = aten.call "mul.Tensor"(%r, %u) fwd in "" : (!f, !f) -> !f
    %loss = aten.call "sum.default"(%v, none) fwd in "" : (!f) -> !s
    %g = aten.call "neg.default"(%x) bwd in "" : (!f) -> !f
    fsdp.grad @w, %g : !f
    fsdp.update @w step %step lr %lr
    return %loss : !s
  }
}
