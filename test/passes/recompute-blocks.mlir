// RUN: fsdp-opt %s --fsdp-recompute="policy=full min-bytes=0" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-recompute="policy=selected min-bytes=0" | FileCheck %s --check-prefix=SELECTED
// RUN: fsdp-opt %s --fsdp-recompute="policy=selected keep=relu min-bytes=0" | FileCheck %s --check-prefix=KEEP
// RUN: fsdp-opt %s --fsdp-recompute="policy=full blocks=*.1 min-bytes=0" | FileCheck %s --check-prefix=NAMED
// RUN: fsdp-opt %s --fsdp-recompute="policy=full min-bytes=257" | FileCheck %s --check-prefix=LARGE
// RUN: fsdp-opt %s --fsdp-recompute="policy=full min-bytes=0" --remarks-filter-analyse=fsdp-recompute -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Of each block only its input is kept: the rest of its forward that its backward uses is computed again
// before its first use there, the last block first. The sum that leaves a block is not computed again, nor
// is anything of the root group that is not cheap.
// CHECK-LABEL: module @blocks
// CHECK: %[[X:.+]] = aten.call "tanh.default"
// CHECK: aten.call "mm.default"(%[[X]], %{{.+}}) fwd in "l.0"
// CHECK: %[[Y:.+]] = aten.call "add.Tensor"({{.+}}) fwd in "l.0"
// CHECK: aten.call "mm.default"(%[[Y]], %{{.+}}) fwd in "l.1"
// CHECK: aten.call "sum.default"
// CHECK-NEXT: aten.call "ones_like.default"
// CHECK-NEXT: %[[M1:.+]] = aten.call "mm.default"(%[[Y]], %{{.+}}) bwd in "l.1"
// CHECK-NEXT: %[[R1:.+]] = aten.call "relu.default"(%[[M1]]) bwd in "l.1"
// CHECK-NEXT: aten.call "mul.Tensor"(%{{.+}}, %[[R1]]) bwd in "l.1"
// CHECK-NEXT: aten.call "mm.default"(%[[Y]],
// CHECK: %[[M0:.+]] = aten.call "mm.default"(%[[X]], %{{.+}}) bwd in "l.0"
// CHECK-NEXT: %[[R0:.+]] = aten.call "relu.default"(%[[M0]]) bwd in "l.0"
// CHECK-NEXT: aten.call "mul.Tensor"(%{{.+}}, %[[R0]]) bwd in "l.0"
// CHECK-NOT: "add.Tensor"
// CHECK: return
// The two results of "relu", of 8 * 8 * 4 bytes each.
// REMARK: BytesNotKept=512, Recomputed=4
// Products are kept.
// SELECTED-LABEL: module @blocks
// SELECTED: %[[M0:.+]] = aten.call "mm.default"({{.+}}) fwd in "l.0"
// SELECTED: %[[M1:.+]] = aten.call "mm.default"({{.+}}) fwd in "l.1"
// SELECTED: aten.call "relu.default"(%[[M1]]) bwd in "l.1"
// SELECTED: aten.call "relu.default"(%[[M0]]) bwd in "l.0"
// What is named is kept; here nothing is left to compute again.
// KEEP-LABEL: module @blocks
// KEEP: aten.call "relu.default"({{.+}}) fwd in "l.0"
// KEEP: aten.call "relu.default"({{.+}}) fwd in "l.1"
// KEEP-NOT: aten.call "relu.default"
// Only the second.
// NAMED-LABEL: module @blocks
// NAMED: aten.call "relu.default"({{.+}}) bwd in "l.1"
// NAMED-NOT: aten.call "relu.default"({{.+}}) bwd in "l.0"
// NAMED: return
// Smaller results are kept.
// LARGE-LABEL: module @blocks
// LARGE-NOT: aten.call "relu.default"({{.+}}) bwd
// LARGE: return
!m = tensor<8x8xf32>
module @blocks {
  fsdp.mesh @mesh <dp = 2>
  fsdp.param @l.0.w : !m
  fsdp.param @l.1.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.group @g0 [@l.0.w] of ["l.0"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @g1 [@l.1.w] of ["l.1"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %in = fsdp.input "x" : !m
    %w0 = fsdp.read @l.0.w : !m
    %w1 = fsdp.read @l.1.w : !m
    %x = aten.call "tanh.default"(%in) fwd in "" : (!m) -> !m
    %m0 = aten.call "mm.default"(%x, %w0) fwd in "l.0" : (!m, !m) -> !m
    %r0 = aten.call "relu.default"(%m0) fwd in "l.0" : (!m) -> !m
    %y = aten.call "add.Tensor"(%r0, %x, 1) fwd in "l.0" : (!m, !m) -> !m
    %m1 = aten.call "mm.default"(%y, %w1) fwd in "l.1" : (!m, !m) -> !m
    %r1 = aten.call "relu.default"(%m1) fwd in "l.1" : (!m) -> !m
    %z = aten.call "add.Tensor"(%r1, %y, 1) fwd in "l.1" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!m) -> tensor<f32>
    %d = aten.call "ones_like.default"(%z, none, none, none, none, none) bwd in "" : (!m) -> !m
    %d1 = aten.call "mul.Tensor"(%d, %r1) bwd in "l.1" : (!m, !m) -> !m
    %dw1 = aten.call "mm.default"(%y, %d1) bwd in "l.1" : (!m, !m) -> !m
    fsdp.grad @l.1.w, %dw1 : !m
    %d0 = aten.call "mul.Tensor"(%d1, %r0) bwd in "l.0" : (!m, !m) -> !m
    %dw0 = aten.call "mm.default"(%x, %d0) bwd in "l.0" : (!m, !m) -> !m
    fsdp.grad @l.0.w, %dw0 : !m
    fsdp.update @l.0.w step %step lr %lr
    fsdp.update @l.1.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
