// RUN: fsdp-opt %s --fsdp-recompute="policy=full min-bytes=0" -split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-recompute="policy=none min-bytes=0" -split-input-file | FileCheck %s --check-prefix=NONE

// Groups follow what they say themselves; the others the policy, which the module names. What is left
// to a search is cheap where nobody searches.
// CHECK-LABEL: module @own attributes {fsdp.recompute = #fsdp.recompute<full, blocks = 1, for = asked>}
// CHECK: "sum.default"
// CHECK-NOT: "sigmoid.default"{{.*}} in "auto"
// CHECK: "mul.Tensor"({{.*}}) bwd in "auto"
// CHECK: "sigmoid.default"{{.*}} bwd in "unsaid"
// CHECK-NEXT: "mul.Tensor"({{.*}}) bwd in "unsaid"
// CHECK-NOT: "sigmoid.default"{{.*}} in "nothing"
// CHECK: aten.call "add.Tensor"({{.*}}) bwd in "nothing"
// CHECK-NEXT: fsdp.grad
// NONE-LABEL: module @own attributes {fsdp.recompute = #fsdp.recompute<none, blocks = 0, for = asked>}
// NONE: "sum.default"
// NONE: "mul.Tensor"({{.*}}) bwd in "auto"
// NONE-NEXT: "add.Tensor"({{.*}}) bwd in "auto"
// NONE-NOT: "mul.Tensor"{{.*}} bwd
// NONE: return
!m = tensor<4x4xf32>
module @own {
  fsdp.mesh @mesh <dp = 2>
  fsdp.param @p : !m
  fsdp.param @q : !m
  fsdp.param @r : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.group @nothing [@p] of ["nothing"] over @mesh "dp" flat reshard_after_forward true recompute none
  fsdp.group @unsaid [@q] of ["unsaid"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @auto [@r] of ["auto"] over @mesh "dp" flat reshard_after_forward true recompute auto
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %p = fsdp.read @p : !m
    %q = fsdp.read @q : !m
    %r = fsdp.read @r : !m
    %a0 = aten.call "sigmoid.default"(%p) fwd in "nothing" : (!m) -> !m
    %a1 = aten.call "mul.Tensor"(%a0, %x) fwd in "nothing" : (!m, !m) -> !m
    %b0 = aten.call "sigmoid.default"(%q) fwd in "unsaid" : (!m) -> !m
    %b1 = aten.call "mul.Tensor"(%b0, %x) fwd in "unsaid" : (!m, !m) -> !m
    %c0 = aten.call "sigmoid.default"(%r) fwd in "auto" : (!m) -> !m
    %c1 = aten.call "mul.Tensor"(%c0, %x) fwd in "auto" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%c1, none) fwd in "" : (!m) -> tensor<f32>
    %dc = aten.call "add.Tensor"(%c1, %c0, 1) bwd in "auto" : (!m, !m) -> !m
    fsdp.grad @r, %dc : !m
    %db = aten.call "add.Tensor"(%b1, %b0, 1) bwd in "unsaid" : (!m, !m) -> !m
    fsdp.grad @q, %db : !m
    %da = aten.call "add.Tensor"(%a1, %a0, 1) bwd in "nothing" : (!m, !m) -> !m
    fsdp.grad @p, %da : !m
    fsdp.update @p step %step lr %lr
    fsdp.update @q step %step lr %lr
    fsdp.update @r step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// A group of two modules, each inside one of another group: what is computed again for the backward of
// one of them belongs to that one. Named after the other it would let the backward of the group around
// that begin early.
// CHECK-LABEL: module @several
// CHECK: "sum.default"
// CHECK-NEXT: aten.call "sigmoid.default"({{.*}}) bwd in "b.y"
// CHECK-NEXT: aten.call "mul.Tensor"({{.*}}) bwd in "b.y"
// CHECK-NOT: "sigmoid.default"
!m = tensor<4x4xf32>
module @several {
  fsdp.mesh @mesh <dp = 2>
  fsdp.param @a.w : !m
  fsdp.param @a.x.w : !m
  fsdp.param @b.w : !m
  fsdp.param @b.y.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.group @both [@a.x.w, @b.y.w] of ["a.x", "b.y"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %aw = fsdp.read @a.w : !m
    %xw = fsdp.read @a.x.w : !m
    %bw = fsdp.read @b.w : !m
    %yw = fsdp.read @b.y.w : !m
    %s = aten.call "sigmoid.default"(%xw) fwd in "a.x" : (!m) -> !m
    %p = aten.call "mm.default"(%s, %aw) fwd in "a" : (!m, !m) -> !m
    %y = aten.call "mm.default"(%s, %yw) fwd in "b.y" : (!m, !m) -> !m
    %q = aten.call "mm.default"(%y, %bw) fwd in "b" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%q, none) fwd in "" : (!m) -> tensor<f32>
    %dy = aten.call "mul.Tensor"(%s, %s) bwd in "b.y" : (!m, !m) -> !m
    fsdp.grad @b.y.w, %dy : !m
    %db = aten.call "neg.default"(%dy) bwd in "b" : (!m) -> !m
    fsdp.grad @b.w, %db : !m
    %da = aten.call "neg.default"(%db) bwd in "a" : (!m) -> !m
    fsdp.grad @a.w, %da : !m
    %dx = aten.call "mul.Tensor"(%s, %da) bwd in "a.x" : (!m, !m) -> !m
    fsdp.grad @a.x.w, %dx : !m
    fsdp.update @a.w step %step lr %lr
    fsdp.update @a.x.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    fsdp.update @b.y.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
