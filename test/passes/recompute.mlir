// RUN: fsdp-opt %s --fsdp-recompute=min-bytes=0 -split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-recompute=min-bytes=65 -split-input-file | FileCheck %s --check-prefix=LARGE
// RUN: fsdp-opt %s --fsdp-recompute=min-bytes=0 -split-input-file --remarks-filter-analyse=fsdp-recompute -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// A product whose operands the backward uses anyway is computed again before its first use there;
// its view is made again as well. The matrix product is not cheap and is kept.
// EXAMPLE: fsdp-recompute
// CHECK-LABEL: module @product
// CHECK: %[[MM:.+]] = aten.call "mm.default"
// CHECK: %[[ACT:.+]] = aten.call "silu.default"(%[[MM]]) fwd
// CHECK: aten.call "mul.Tensor"(%[[ACT]], %[[MM]]) fwd
// CHECK: %[[AGAIN:.+]] = aten.call "mul.Tensor"(%[[ACT]], %[[MM]]) bwd in "l"
// CHECK-NEXT: %[[VIEW:.+]] = aten.call "t.default"(%[[AGAIN]]) bwd in "l"
// CHECK: aten.call "mm.default"(%[[VIEW]], %{{.+}}) bwd
// Smaller results are kept.
// LARGE-LABEL: module @product
// LARGE-NOT: aten.call "mul.Tensor"({{.*}}) bwd in "l" :
// LARGE: aten.call "t.default"({{.*}}) fwd
// REMARK: BytesNotKept=64, Recomputed=1
!m = tensor<4x4xf32>
!t = tensor<4x4xf32, #aten.strides<[1, 4]>>
module @product {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @l.w : !m
    %mm = aten.call "mm.default"(%x, %w) fwd in "l" : (!m, !m) -> !m
    %act = aten.call "silu.default"(%mm) fwd in "l" : (!m) -> !m
    %h = aten.call "mul.Tensor"(%act, %mm) fwd in "l" : (!m, !m) -> !m
    %ht = aten.call "t.default"(%h) fwd in "l" : (!m) -> !t
    %loss = aten.call "sum.default"(%h, none) fwd in "l" : (!m) -> tensor<f32>
    %g0 = aten.call "mm.default"(%ht, %x) bwd in "l" : (!t, !m) -> !m
    %g1 = aten.call "mul.Tensor"(%g0, %act) bwd in "l" : (!m, !m) -> !m
    %g2 = aten.call "mm.default"(%g1, %mm) bwd in "l" : (!m, !m) -> !m
    fsdp.grad @l.w, %g2 : !m
    fsdp.update @l.w step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// A sum whose operand the backward does not use is kept: keeping the operand instead saves nothing.
// CHECK-LABEL: module @operand_not_there
// CHECK-NOT: aten.call "add.Tensor"({{.*}}) bwd
// CHECK: return
!m = tensor<4x4xf32>
module @operand_not_there {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @l.w : !m
    %mm = aten.call "mm.default"(%x, %w) fwd in "l" : (!m, !m) -> !m
    %h = aten.call "add.Tensor"(%mm, %x, 1) fwd in "l" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%h, none) fwd in "l" : (!m) -> tensor<f32>
    %g = aten.call "mm.default"(%x, %h) bwd in "l" : (!m, !m) -> !m
    fsdp.grad @l.w, %g : !m
    fsdp.update @l.w step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// What is recomputed may be an operand of what is recomputed: it comes first.
// CHECK-LABEL: module @chain
// CHECK: %[[B:.+]] = fsdp.read @b
// CHECK: %[[H0:.+]] = aten.call "mul.Tensor"(%{{.+}}, %[[B]]) bwd in "l"
// CHECK-NEXT: %[[H1:.+]] = aten.call "neg.default"(%[[H0]]) bwd in "l"
// CHECK-NEXT: %[[G:.+]] = aten.call "mm.default"(%{{.+}}, %[[H1]]) bwd
// CHECK-NEXT: aten.call "mm.default"(%[[G]], %[[H0]]) bwd
!m = tensor<4x4xf32>
module @chain {
  fsdp.param @l.w : !m
  fsdp.buffer @b : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @l.w : !m
    %b = fsdp.read @b : !m
    %h0 = aten.call "mul.Tensor"(%w, %b) fwd in "l" : (!m, !m) -> !m
    %h1 = aten.call "neg.default"(%h0) fwd in "l" : (!m) -> !m
    %loss = aten.call "sum.default"(%h1, none) fwd in "l" : (!m) -> tensor<f32>
    %g0 = aten.call "mm.default"(%b, %h1) bwd in "l" : (!m, !m) -> !m
    %g1 = aten.call "mm.default"(%g0, %h0) bwd in "l" : (!m, !m) -> !m
    fsdp.grad @l.w, %g1 : !m
    fsdp.update @l.w step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// A result that another group's backward uses is kept: recomputing it there would begin its own
// group's backward early. A buffer's new value is needed anyway.
// CHECK-LABEL: module @kept
// CHECK-NOT: aten.call "mul.Tensor"({{.*}}) bwd
// CHECK-NOT: aten.call "neg.default"({{.*}}) bwd
// CHECK: return
!m = tensor<4x4xf32>
module @kept {
  fsdp.mesh @mesh <dp = 2>
  fsdp.param @a.w : !m
  fsdp.param @b.w : !m
  fsdp.buffer @n : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %wa = fsdp.read @a.w : !m
    %wb = fsdp.read @b.w : !m
    %h = aten.call "mul.Tensor"(%wa, %x) fwd in "a" : (!m, !m) -> !m
    %n = aten.call "neg.default"(%x) fwd in "b" : (!m) -> !m
    %y = aten.call "mm.default"(%h, %wb) fwd in "b" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y, none) fwd in "b" : (!m) -> tensor<f32>
    %gb = aten.call "mm.default"(%h, %n) bwd in "b" : (!m, !m) -> !m
    fsdp.grad @b.w, %gb : !m
    %ga = aten.call "mm.default"(%x, %gb) bwd in "a" : (!m, !m) -> !m
    fsdp.grad @a.w, %ga : !m
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    fsdp.write @n, %n : !m
    return %loss : tensor<f32>
  }
}
