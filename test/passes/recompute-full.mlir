// RUN: fsdp-opt %s --fsdp-recompute="policy=full min-bytes=0" -split-input-file | FileCheck %s

// Dropout draws the same numbers again; of a batch normalisation that is repeated the buffer's new value
// is not used, and what is written stays that of the forward.
// CHECK-LABEL: module @effects
// CHECK: %[[BN:.+]]:5 = aten.call "_native_batch_norm_legit_functional.default"({{.+}}) fwd in "l"
// CHECK: aten.call "native_dropout.default"(%[[BN]]#0, 1.000000e-01, true) fwd in "l" rng 3
// CHECK: %[[BN2:.+]]:5 = aten.call "_native_batch_norm_legit_functional.default"({{.+}}) bwd in "l"
// CHECK-NEXT: %[[D:.+]]:2 = aten.call "native_dropout.default"(%[[BN2]]#0, 1.000000e-01, true) bwd in "l" rng 3
// CHECK-NEXT: aten.call "mul.Tensor"(%[[D]]#0, %[[D]]#0) bwd in "l"
// CHECK: fsdp.write @mean, %[[BN]]#3
!m = tensor<4x4xf32>
!v = tensor<4xf32>
module @effects {
  fsdp.mesh @mesh <dp = 2>
  fsdp.param @l.w : !v
  fsdp.buffer @mean : !v
  fsdp.buffer @var : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.group @g [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @l.w : !v
    %mean = fsdp.read @mean : !v
    %var = fsdp.read @var : !v
    %bn:5 = aten.call "_native_batch_norm_legit_functional.default"(%x, %w, none, %mean, %var, true, 0.1, 1.0e-05) fwd in "l"
        : (!m, !v, !v, !v) -> (!m, !v, !v, !v, !v)
    %d:2 = aten.call "native_dropout.default"(%bn#0, 0.1, true) fwd in "l" rng 3 : (!m) -> (!m, tensor<4x4xi1>)
    %loss = aten.call "sum.default"(%d#0, none) fwd in "" : (!m) -> tensor<f32>
    %g = aten.call "mul.Tensor"(%d#0, %d#0) bwd in "l" : (!m, !m) -> !m
    %dw = aten.call "sum.dim_IntList"(%g, [0], false, none) bwd in "l" : (!m) -> !v
    fsdp.grad @l.w, %dw : !v
    fsdp.update @l.w step %step lr %lr
    fsdp.write @mean, %bn#3 : !v
    fsdp.write @var, %bn#4 : !v
    return %loss : tensor<f32>
  }
}

// -----

// Views are made again where the backward needs them, and only those; parameters are those of the step, so
// that the backward's gather brings them again.
// CHECK-LABEL: module @views
// CHECK: %[[WT:.+]] = aten.call "t.default"(%{{.+}}) fwd
// CHECK: aten.call "sum.default"
// CHECK-NEXT: %[[M:.+]] = aten.call "mm.default"(%{{.+}}, %[[WT]]) bwd in "l"
// CHECK-NEXT: %[[V:.+]] = aten.call "view.default"(%[[M]], [16]) bwd in "l"
// CHECK-NEXT: %[[R:.+]] = aten.call "relu.default"(%[[V]]) bwd in "l"
// CHECK-NEXT: aten.call "mul.Tensor"(%[[R]], %[[R]]) bwd
!m = tensor<4x4xf32>
!t = tensor<4x4xf32, #aten.strides<[1, 4]>>
!f = tensor<16xf32>
module @views {
  fsdp.mesh @mesh <dp = 2>
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.group @g [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @l.w : !m
    %wt = aten.call "t.default"(%w) fwd in "l" : (!m) -> !t
    %m = aten.call "mm.default"(%x, %wt) fwd in "l" : (!m, !t) -> !m
    %v = aten.call "view.default"(%m, [16]) fwd in "l" : (!m) -> !f
    %r = aten.call "relu.default"(%v) fwd in "l" : (!f) -> !f
    %u = aten.call "view.default"(%r, [4, 4]) fwd in "l" : (!f) -> !m
    %loss = aten.call "sum.default"(%u, none) fwd in "" : (!m) -> tensor<f32>
    %g = aten.call "mul.Tensor"(%r, %r) bwd in "l" : (!f, !f) -> !f
    %dw = aten.call "view.default"(%g, [4, 4]) bwd in "l" : (!f) -> !m
    fsdp.grad @l.w, %dw : !m
    fsdp.update @l.w step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// What enters a block is kept for it, although only the block that made it uses it in the backward as
// captured: computed again there, it would begin that block's backward early.
// CHECK-LABEL: module @between
// CHECK: %[[Y:.+]] = aten.call "relu.default"({{.+}}) fwd in "l.0"
// CHECK: %[[S:.+]] = aten.call "sigmoid.default"(%[[Y]]) bwd in "l.1"
// CHECK-NEXT: aten.call "mul.Tensor"(%{{.+}}, %[[S]]) bwd in "l.1"
// CHECK: aten.call "mul.Tensor"(%{{.+}}, %[[Y]]) bwd in "l.0"
// CHECK-NOT: aten.call "relu.default"
// CHECK: return
!m = tensor<8x8xf32>
module @between {
  fsdp.mesh @mesh <dp = 2>
  fsdp.param @l.0.w : !m
  fsdp.param @l.1.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.group @g0 [@l.0.w] of ["l.0"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @g1 [@l.1.w] of ["l.1"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w0 = fsdp.read @l.0.w : !m
    %w1 = fsdp.read @l.1.w : !m
    %m0 = aten.call "mm.default"(%x, %w0) fwd in "l.0" : (!m, !m) -> !m
    %y = aten.call "relu.default"(%m0) fwd in "l.0" : (!m) -> !m
    %s = aten.call "sigmoid.default"(%y) fwd in "l.1" : (!m) -> !m
    %m1 = aten.call "mm.default"(%s, %w1) fwd in "l.1" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%m1, none) fwd in "" : (!m) -> tensor<f32>
    %d1 = aten.call "mul.Tensor"(%w1, %s) bwd in "l.1" : (!m, !m) -> !m
    fsdp.grad @l.1.w, %d1 : !m
    %d0 = aten.call "mul.Tensor"(%d1, %y) bwd in "l.0" : (!m, !m) -> !m
    fsdp.grad @l.0.w, %d0 : !m
    fsdp.update @l.0.w step %step lr %lr
    fsdp.update @l.1.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
