// RUN: fsdp-opt %s --split-input-file --fsdp-accumulate-gradients --fsdp-verify-captured | FileCheck %s
// RUN: fsdp-opt %s --split-input-file --fsdp-accumulate-gradients --fsdp-insert-collectives --fsdp-verify-sharded | FileCheck %s --check-prefix=SHARDED
// RUN: fsdp-opt %s --split-input-file --fsdp-accumulate-gradients --fsdp-insert-collectives --fsdp-schedule --fsdp-assign-streams --fsdp-verify-scheduled | FileCheck %s --check-prefix=SCHEDULED
// RUN: fsdp-opt %s --split-input-file --fsdp-accumulate-gradients --fsdp-insert-collectives --fsdp-schedule --fsdp-assign-streams --fsdp-verify-scheduled --fsdp-plan-memory --fsdp-verify-planned -o /dev/null

// Two stages and three microbatches: F a.0, then F b.0 B b.0, F a.1 B a.0, F b.1 B b.1, F a.2 B a.1, F b.2
// B b.2, then B a.2. The loss, its gradient and its sum belong to the last stage.
// CHECK-LABEL: stages = ["a", "b"]
// CHECK: %[[A0:.+]] = aten.call "mul.Tensor"({{.+}}) fwd in "a" :
// CHECK-NEXT: aten.call "mul.Tensor"(%[[A0]], {{.+}}) fwd in "b" :
// CHECK-NEXT: %[[LOSS0:.+]] = aten.call "sum.default"
// CHECK-NEXT: aten.call "ones_like.default"({{.+}}) bwd in "" :
// CHECK-NEXT: aten.call "mul.Tensor"({{.+}}) bwd in "" :
// CHECK-NEXT: aten.call "mul.Tensor"({{.+}}) bwd in "b" :
// CHECK-NEXT: fsdp.grad @b.w, {{.+}} : tensor<4xf32>
// CHECK-NEXT: %[[G0:.+]] = aten.call "mul.Tensor"({{.+}}) bwd in "b" :
// CHECK-NEXT: %[[X1:.+]] = fsdp.input "x" microbatch 1
// CHECK-NEXT: %[[A1:.+]] = aten.call "mul.Tensor"(%[[X1]], {{.+}}) fwd in "a" microbatch 1 :
// CHECK-NEXT: aten.call "mul.Tensor"(%[[G0]], {{.+}}) bwd in "a" :
// CHECK-NEXT: fsdp.grad @a.w, {{.+}} : tensor<4xf32>
// CHECK-NEXT: aten.call "mul.Tensor"(%[[A1]], {{.+}}) fwd in "b" microbatch 1 :
// CHECK-NEXT: %[[LOSS1:.+]] = aten.call "sum.default"({{.+}}) fwd in "" microbatch 1
// CHECK-NEXT: aten.call "add.Tensor"(%[[LOSS0]], %[[LOSS1]], 1) fwd in "" microbatch 1
// CHECK: fsdp.grad @b.w, {{.+}} microbatch 1 :
// CHECK: aten.call "mul.Tensor"({{.+}}) fwd in "a" microbatch 2 :
// CHECK: fsdp.grad @a.w, {{.+}} microbatch 1 :
// CHECK: aten.call "mul.Tensor"({{.+}}) fwd in "b" microbatch 2 :
// CHECK: fsdp.grad @b.w, {{.+}} microbatch 2 :
// CHECK-NOT: fwd in
// CHECK: fsdp.grad @a.w, {{.+}} microbatch 2 :
// CHECK-NEXT: fsdp.update @a.w

// Group a is gathered for its second forward between the backward of b and its own first backward.
// SHARDED-LABEL: stages = ["a", "b"]
// SHARDED: aten.call {{.+}} bwd in "b" :
// SHARDED: fsdp.reduce_scatter.start @b(
// SHARDED: fsdp.all_gather.start {{.+}}!fsdp.shard<@a, f32>
// SHARDED: aten.call {{.+}} fwd in "a" microbatch 1 :
// SHARDED-NEXT: fsdp.reshard {{.+}} fwd
// SHARDED-NEXT: %[[START:.+]] = fsdp.all_gather.start {{.+}} bwd {{.*}}!fsdp.shard<@a, f32>
// SHARDED: aten.call {{.+}} bwd in "a" :
// SHARDED-NEXT: fsdp.reshard %[[START]] bwd
// SHARDED-NEXT: fsdp.reduce_scatter.start @a(
// SHARDED: aten.call {{.+}} fwd in "b" microbatch 1 :

// FSDP2 prefetches by one order of all stages: at the backward of a for microbatch 0 the newest forward
// of a is that of microbatch 1, which followed that of b. The gather of b serves its next forward.
// SCHEDULED-LABEL: stages = ["a", "b"]
// SCHEDULED: aten.call {{.+}} fwd in "a" microbatch 1 :
// SCHEDULED: fsdp.all_gather.start {{.+}} bwd {{.*}}!fsdp.shard<@a, f32>
// SCHEDULED: fsdp.all_gather.start {{.+}} bwd {{.*}}!fsdp.shard<@b, f32>
// SCHEDULED: aten.call {{.+}} bwd in "a" :
// SCHEDULED: fsdp.all_gather.wait
// SCHEDULED: aten.call {{.+}} fwd in "b" microbatch 1 :
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.accumulation = #fsdp.accumulation<3, loss = sum, stages = ["a", "b"]>} {
  fsdp.param @a.w : !v
  fsdp.param @b.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %b.w = fsdp.read @b.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%b, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %b) bwd in "" : (!s, !v) -> !v
    %b.d = aten.call "mul.Tensor"(%e, %a) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%e, %b.w) bwd in "b" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%b.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// Three stages: two forwards first, and two backwards last. Operations before the second stage's module
// belong to the first stage, whichever module they are of.
// CHECK-LABEL: stages = ["a", "b", "c"]
// CHECK: fwd in "a" :
// CHECK: fwd in "first" :
// CHECK: fwd in "b" :
// CHECK: fwd in "c" :
// CHECK: bwd in "c" :
// CHECK: fwd in "a" microbatch 1 :
// CHECK: fwd in "first" microbatch 1 :
// CHECK: bwd in "b" :
// CHECK: fwd in "b" microbatch 1 :
// CHECK: bwd in "first" :
// CHECK: bwd in "a" :
// CHECK: fwd in "c" microbatch 1 :
// CHECK: bwd in "c" microbatch 1 :
// CHECK: bwd in "b" microbatch 1 :
// CHECK: bwd in "first" microbatch 1 :
// CHECK: bwd in "a" microbatch 1 :
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a", "b", "c"]>} {
  fsdp.param @a.w : !v
  fsdp.param @first.w : !v
  fsdp.param @b.w : !v
  fsdp.param @c.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @first [@first.w] of ["first"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @c [@c.w] of ["c"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %first.w = fsdp.read @first.w : !v
    %b.w = fsdp.read @b.w : !v
    %c.w = fsdp.read @c.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    %first = aten.call "mul.Tensor"(%a, %first.w) fwd in "first" : (!v, !v) -> !v
    %b = aten.call "mul.Tensor"(%first, %b.w) fwd in "b" : (!v, !v) -> !v
    %c = aten.call "mul.Tensor"(%b, %c.w) fwd in "c" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%c, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %c) bwd in "" : (!s, !v) -> !v
    %c.d = aten.call "mul.Tensor"(%e, %b) bwd in "c" : (!v, !v) -> !v
    fsdp.grad @c.w, %c.d : !v
    %c.g = aten.call "mul.Tensor"(%e, %c.w) bwd in "c" : (!v, !v) -> !v
    %b.d = aten.call "mul.Tensor"(%c.g, %first) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%c.g, %b.w) bwd in "b" : (!v, !v) -> !v
    %first.d = aten.call "mul.Tensor"(%b.g, %a) bwd in "first" : (!v, !v) -> !v
    fsdp.grad @first.w, %first.d : !v
    %first.g = aten.call "mul.Tensor"(%b.g, %first.w) bwd in "first" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%first.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @first.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    fsdp.update @c.w step %step lr %lr
    return %loss : !s
  }
}
