// RUN: fsdp-opt %s -split-input-file --fsdp-sum-gradients-by-module | FileCheck %s
// RUN: fsdp-opt %s -split-input-file --fsdp-sum-gradients-by-module --remarks-filter-analyse=fsdp-sum-gradients-by-module --remark-policy=all -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Both blocks take the memory. What comes out of one of them is added up first.
// EXAMPLE: fsdp-sum-gradients-by-module
// CHECK-LABEL: module @memory
// CHECK: %[[G1:.+]] = aten.call "sin.default"
// CHECK: %[[G2:.+]] = aten.call "cos.default"
// CHECK: %[[SECOND:.+]] = aten.call "add.Tensor"(%[[G1]], %[[G2]], 1) bwd in "blocks.1"
// CHECK: %[[G3:.+]] = aten.call "tan.default"
// CHECK: %[[G4:.+]] = aten.call "exp.default"
// CHECK: %[[FIRST:.+]] = aten.call "add.Tensor"(%[[G3]], %[[G4]], 1) bwd in "blocks.0"
// CHECK-NEXT: %[[ALL:.+]] = aten.call "add.Tensor"(%[[SECOND]], %[[FIRST]], 1) bwd in "blocks.0"
// CHECK-SAME: -> tensor<4xf32>
// CHECK-NEXT: fsdp.grad @w, %[[ALL]]
// REMARK: Reordered=1
!t = tensor<4xf32>
module @memory {
  fsdp.param @blocks.0.w : !t
  fsdp.param @blocks.1.w : !t
  fsdp.param @w : !t
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @blocks.0 [@blocks.0.w] of ["blocks.0"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @blocks.1 [@blocks.1.w] of ["blocks.1"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !t
    %w0 = fsdp.read @blocks.0.w : !t
    %w1 = fsdp.read @blocks.1.w : !t
    %y = aten.call "mul.Tensor"(%w0, %w1) fwd in "blocks.0" : (!t, !t) -> !t
    %loss = aten.call "sum.default"(%y, f32) fwd in "" : (!t) -> tensor<f32>
    %g1 = aten.call "sin.default"(%w) bwd in "blocks.1" : (!t) -> !t
    fsdp.grad @blocks.1.w, %g1 : !t
    %g2 = aten.call "cos.default"(%w) bwd in "blocks.1" : (!t) -> !t
    %s1 = aten.call "add.Tensor"(%g1, %g2, 1) bwd in "blocks.1" : (!t, !t) -> !t
    %g3 = aten.call "tan.default"(%w) bwd in "blocks.0" : (!t) -> !t
    fsdp.grad @blocks.0.w, %g3 : !t
    %s2 = aten.call "add.Tensor"(%s1, %g3, 1) bwd in "blocks.0" : (!t, !t) -> !t
    %g4 = aten.call "exp.default"(%w) bwd in "blocks.0" : (!t) -> !t
    %s3 = aten.call "add.Tensor"(%s2, %g4, 1) bwd in "blocks.0"
        {aten.sum = [#aten.scope<"">, #aten.scope<"blocks.1.k">, #aten.scope<"blocks.1.q">, #aten.scope<"blocks.0.k">, #aten.scope<"blocks.0.q">]} : (!t, !t) -> !t
    fsdp.grad @w, %s3 : !t
    fsdp.update @blocks.0.w step %step lr %lr
    fsdp.update @blocks.1.w step %step lr %lr
    fsdp.update @w step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// A block that makes the value has it as no input; the order stays, and the attribute goes.
// CHECK-LABEL: module @inside
// CHECK: %[[S1:.+]] = aten.call "add.Tensor"(%{{.+}}, %{{.+}}, 1) bwd in "blocks.0"
// CHECK-NEXT: %[[S2:.+]] = aten.call "add.Tensor"(%[[S1]], %{{.+}}, 1) bwd in "blocks.0"
// CHECK-NOT: aten.sum
// CHECK: fsdp.grad @w, %[[S2]]
// REMARK: Reordered=0
!t = tensor<4xf32>
module @inside {
  fsdp.param @blocks.0.w : !t
  fsdp.param @w : !t
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @blocks.0 [@blocks.0.w] of ["blocks.0"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !t
    %w0 = fsdp.read @blocks.0.w : !t
    %y = aten.call "mul.Tensor"(%w0, %w) fwd in "blocks.0" : (!t, !t) -> !t
    %loss = aten.call "sum.default"(%y, f32) fwd in "" : (!t) -> tensor<f32>
    %g1 = aten.call "sin.default"(%w) bwd in "" : (!t) -> !t
    %g2 = aten.call "cos.default"(%w) bwd in "blocks.0" : (!t) -> !t
    %g3 = aten.call "tan.default"(%w) bwd in "blocks.0" : (!t) -> !t
    fsdp.grad @blocks.0.w, %g3 : !t
    %s1 = aten.call "add.Tensor"(%g1, %g2, 1) bwd in "blocks.0" : (!t, !t) -> !t
    %s2 = aten.call "add.Tensor"(%s1, %g3, 1) bwd in "blocks.0"
        {aten.sum = [#aten.scope<"blocks.0">, #aten.scope<"">, #aten.scope<"blocks.0.k">, #aten.scope<"blocks.0.q">]} : (!t, !t) -> !t
    fsdp.grad @w, %s2 : !t
    fsdp.update @blocks.0.w step %step lr %lr
    fsdp.update @w step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// Two calls of one block are two: the sum of the first call, which is last, is made apart.
// CHECK-LABEL: module @calls
// CHECK: %[[S1:.+]] = aten.call "add.Tensor"(%{{.+}}, %{{.+}}, 1) bwd in "block@1"
// CHECK-NEXT: %[[INNER:.+]] = aten.call "add.Tensor"(%[[G3:.+]], %[[G4:.+]], 1) bwd in "block"
// CHECK-NEXT: aten.call "add.Tensor"(%[[S1]], %[[INNER]], 1) bwd in "block"
// REMARK: Reordered=1
!t = tensor<4xf32>
module @calls {
  fsdp.param @block.w : !t
  fsdp.param @w : !t
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @block [@block.w] of ["block"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !t
    %w0 = fsdp.read @block.w : !t
    %y = aten.call "mul.Tensor"(%w0, %w) fwd in "block" : (!t, !t) -> !t
    %loss = aten.call "sum.default"(%y, f32) fwd in "" : (!t) -> tensor<f32>
    %g1 = aten.call "sin.default"(%w) bwd in "block@1" : (!t) -> !t
    %g2 = aten.call "cos.default"(%w) bwd in "block@1" : (!t) -> !t
    %g3 = aten.call "tan.default"(%w) bwd in "block" : (!t) -> !t
    %g4 = aten.call "exp.default"(%w) bwd in "block" : (!t) -> !t
    fsdp.grad @block.w, %g4 : !t
    %s1 = aten.call "add.Tensor"(%g1, %g2, 1) bwd in "block@1" : (!t, !t) -> !t
    %s2 = aten.call "add.Tensor"(%s1, %g3, 1) bwd in "block" : (!t, !t) -> !t
    %s3 = aten.call "add.Tensor"(%s2, %g4, 1) bwd in "block"
        {aten.sum = [#aten.scope<"">, #aten.scope<"block@1">, #aten.scope<"block@1">, #aten.scope<"block">, #aten.scope<"block">]} : (!t, !t) -> !t
    fsdp.grad @w, %s3 : !t
    fsdp.update @block.w step %step lr %lr
    fsdp.update @w step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// The bf16 copy of a parameter is a parameter of the module that holds it, not an input of its calls.
// CHECK-LABEL: module @copies
// CHECK: %[[S1:.+]] = aten.call "add.Tensor"
// CHECK-NEXT: %[[S2:.+]] = aten.call "add.Tensor"(%[[S1]],
// CHECK-NEXT: %[[S3:.+]] = aten.call "add.Tensor"(%[[S2]],
// CHECK-NEXT: aten.call "_to_copy.default"(%[[S3]], f32
// REMARK: Reordered=0
!t = tensor<4xf32>
!h = tensor<4xbf16>
module @copies {
  fsdp.param @block.w : !t
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @block [@block.w] of ["block"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %r = fsdp.read @block.w : !t
    %w = aten.call "_to_copy.default"(%r, bf16, none, none, none, false, none) fwd in "" : (!t) -> !h
    %y = aten.call "mul.Tensor"(%w, %w) fwd in "block" : (!h, !h) -> !h
    %loss = aten.call "sum.default"(%y, f32) fwd in "" : (!h) -> tensor<f32>
    %g1 = aten.call "sin.default"(%w) bwd in "block@1" : (!h) -> !h
    %g2 = aten.call "cos.default"(%w) bwd in "block@1" : (!h) -> !h
    %g3 = aten.call "tan.default"(%w) bwd in "block" : (!h) -> !h
    %g4 = aten.call "exp.default"(%w) bwd in "block" : (!h) -> !h
    %s1 = aten.call "add.Tensor"(%g1, %g2, 1) bwd in "block@1" : (!h, !h) -> !h
    %s2 = aten.call "add.Tensor"(%s1, %g3, 1) bwd in "block" : (!h, !h) -> !h
    %s3 = aten.call "add.Tensor"(%s2, %g4, 1) bwd in "block"
        {aten.sum = [#aten.scope<"">, #aten.scope<"block@1">, #aten.scope<"block@1">, #aten.scope<"block">, #aten.scope<"block">]} : (!h, !h) -> !h
    %g = aten.call "_to_copy.default"(%s3, f32, none, none, none, false, none) bwd in "" : (!h) -> !t
    fsdp.grad @block.w, %g : !t
    fsdp.update @block.w step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// The captured chain begins with a transposed gradient, whose strides its sums take. The sum of the two
// contiguous ones is contiguous, the whole sum is as it was.
// CHECK-LABEL: module @strides
// CHECK: %[[G1:.+]] = aten.call "t.default"
// CHECK: %[[INNER:.+]] = aten.call "add.Tensor"(%{{.+}}, %{{.+}}, 1) bwd in "blocks.0" : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>{{$}}
// CHECK-NEXT: aten.call "add.Tensor"(%[[G1]], %[[INNER]], 1) bwd in "blocks.0" : (tensor<4x4xf32, #aten.strides<[1, 4]>>, tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<[1, 4]>>
!m = tensor<4x4xf32>
!n = tensor<4x4xf32, #aten.strides<[1, 4]>>
module @strides {
  fsdp.param @blocks.0.w : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @blocks.0 [@blocks.0.w] of ["blocks.0"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %w0 = fsdp.read @blocks.0.w : !m
    %y = aten.call "mul.Tensor"(%w0, %w) fwd in "blocks.0" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y, f32) fwd in "" : (!m) -> tensor<f32>
    %g = aten.call "sin.default"(%w) bwd in "" : (!m) -> !m
    %g1 = aten.call "t.default"(%g) bwd in "" : (!m) -> !n
    %g2 = aten.call "cos.default"(%w) bwd in "blocks.0" : (!m) -> !m
    fsdp.grad @blocks.0.w, %g2 : !m
    %s1 = aten.call "add.Tensor"(%g1, %g2, 1) bwd in "blocks.0" : (!n, !m) -> !n
    %g3 = aten.call "tan.default"(%w) bwd in "blocks.0" : (!m) -> !m
    %s2 = aten.call "add.Tensor"(%s1, %g3, 1) bwd in "blocks.0"
        {aten.sum = [#aten.scope<"">, #aten.scope<"">, #aten.scope<"blocks.0.k">, #aten.scope<"blocks.0.q">]} : (!n, !m) -> !n
    %s = aten.call "clone.default"(%s2, #aten.memory_format<contiguous>) bwd in "" : (!n) -> !m
    fsdp.grad @w, %s : !m
    fsdp.update @blocks.0.w step %step lr %lr
    fsdp.update @w step %step lr %lr
    return %loss : tensor<f32>
  }
}
