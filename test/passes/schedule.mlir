// RUN: fsdp-opt %s --split-input-file --fsdp-schedule | FileCheck %s --check-prefixes=CHECK,FSDP2
// RUN: fsdp-opt %s --split-input-file --fsdp-schedule=prefetch=none | FileCheck %s --check-prefixes=CHECK,NONE

// FSDP2's implicit prefetch: when the backward of a group begins, the gather of the group before it
// in forward order is issued, behind the group's own wait. Without prefetch a gather stays at its
// wait. Each reduction's wait and update stand before the next reduction's start.
// EXAMPLE: fsdp-schedule
// CHECK-LABEL: fsdp.model = "chain"
// CHECK-SAME: fsdp.phase = #fsdp.module_phase<scheduled>
// CHECK: %[[S_B0:.+]] = fsdp.shard @b0 :
// CHECK: %[[S_B1:.+]] = fsdp.shard @b1 :
// CHECK: aten.call "sum.default"
// FSDP2-NEXT: %[[U1:.+]] = fsdp.all_gather.start %[[S_B1]] over ["dp"] bwd
// FSDP2-NEXT: fsdp.all_gather.wait %[[U1]]
// FSDP2-NEXT: %[[U0:.+]] = fsdp.all_gather.start %[[S_B0]] over ["dp"] bwd
// FSDP2-NEXT: aten.call "mul.Tensor"{{.*}} bwd in "b1"
// FSDP2-NEXT: fsdp.reshard %[[U1]] bwd
// FSDP2-NEXT: %[[R1:.+]] = fsdp.reduce_scatter.start @b1
// FSDP2-NEXT: fsdp.all_gather.wait %[[U0]]
// NONE-NEXT: %[[U1:.+]] = fsdp.all_gather.start %[[S_B1]] over ["dp"] bwd
// NONE-NEXT: fsdp.all_gather.wait %[[U1]]
// NONE-NEXT: aten.call "mul.Tensor"{{.*}} bwd in "b1"
// NONE-NEXT: fsdp.reshard %[[U1]] bwd
// NONE-NEXT: %[[R1:.+]] = fsdp.reduce_scatter.start @b1
// NONE-NEXT: %[[U0:.+]] = fsdp.all_gather.start %[[S_B0]] over ["dp"] bwd
// NONE-NEXT: fsdp.all_gather.wait %[[U0]]
// CHECK-NEXT: aten.call "mul.Tensor"{{.*}} bwd in "b0"
// CHECK-NEXT: fsdp.reshard %[[U0]] bwd
// CHECK-NEXT: %[[D1:.+]] = fsdp.reduce_scatter.wait %[[R1]]
// CHECK-NEXT: fsdp.update @b1 with %[[D1]]
// CHECK-NEXT: %[[R0:.+]] = fsdp.reduce_scatter.start @b0
// CHECK-NEXT: aten.call "mul.Tensor"{{.*}} bwd in "e"
// CHECK-NEXT: %[[D0:.+]] = fsdp.reduce_scatter.wait %[[R0]]
// CHECK-NEXT: fsdp.update @b0 with %[[D0]]
// CHECK-NEXT: return
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "chain", fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @b0.w : !m
  fsdp.param @b1.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @b0 [@b0.w] of ["b0"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b1 [@b1.w] of ["b1"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s0 = fsdp.shard @b0 : !fsdp.shard<@b0, f32>
    %s1 = fsdp.shard @b1 : !fsdp.shard<@b1, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start %s0 over ["dp"] fwd on compute : !fsdp.shard<@b0, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %y0 = aten.call "mm.default"(%x, %w0) fwd in "b0" : (!m, !m) -> !m
    fsdp.reshard %u0 fwd
    %u1 = fsdp.all_gather.start %s1 over ["dp"] fwd on compute : !fsdp.shard<@b1, f32>
    %w1 = fsdp.all_gather.wait %u1 : !m
    %y1 = aten.call "mm.default"(%y0, %w1) fwd in "b1" : (!m, !m) -> !m
    fsdp.reshard %u1 fwd
    %loss = aten.call "sum.default"(%y1, none) fwd in "" : (!m) -> !s
    %v1 = fsdp.all_gather.start %s1 over ["dp"] bwd on compute : !fsdp.shard<@b1, f32>
    %z1 = fsdp.all_gather.wait %v1 : !m
    %g1 = aten.call "mul.Tensor"(%z1, %y0) bwd in "b1" : (!m, !m) -> !m
    fsdp.reshard %v1 bwd
    %r1 = fsdp.reduce_scatter.start @b1(%g1) over ["dp"] avg bwd on compute : !m
    %d1 = fsdp.reduce_scatter.wait %r1 : !fsdp.shard<@b1, f32>
    fsdp.update @b1 with %d1 step %step lr %lr : !fsdp.shard<@b1, f32>
    %v0 = fsdp.all_gather.start %s0 over ["dp"] bwd on compute : !fsdp.shard<@b0, f32>
    %z0 = fsdp.all_gather.wait %v0 : !m
    %g0 = aten.call "mul.Tensor"(%z0, %g1) bwd in "b0" : (!m, !m) -> !m
    fsdp.reshard %v0 bwd
    %r0 = fsdp.reduce_scatter.start @b0(%g0) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@b0, f32>
    fsdp.update @b0 with %d0 step %step lr %lr : !fsdp.shard<@b0, f32>
    %d = aten.call "mul.Tensor"(%g0, %x) bwd in "e" : (!m, !m) -> !m
    return %loss : !s
  }
}

// -----

// A kept root prefetches the last block when the backward begins.
// CHECK-LABEL: fsdp.model = "kept_root"
// CHECK: %[[S:.+]] = fsdp.shard @l :
// CHECK: aten.call "sum.default"
// CHECK-NEXT: aten.call "ones_like.default"
// FSDP2-NEXT: %[[U:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] bwd
// FSDP2-NEXT: aten.call "expand.default"
// FSDP2-NEXT: fsdp.all_gather.wait %[[U]]
// NONE-NEXT: aten.call "expand.default"
// NONE-NEXT: %[[U:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] bwd
// NONE-NEXT: fsdp.all_gather.wait %[[U]]
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "kept_root", fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @e.w : !m
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %s_root = fsdp.shard @root : !fsdp.shard<@root, f32>
    %sl = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %u = fsdp.all_gather.start %s_root over ["dp"] fwd on compute : !fsdp.shard<@root, f32>
    %w = fsdp.all_gather.wait %u : !m
    %x = aten.call "relu.default"(%w) fwd in "e" : (!m) -> !m
    %u0 = fsdp.all_gather.start %sl over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %y0 = aten.call "mm.default"(%x, %w0) fwd in "l" : (!m, !m) -> !m
    fsdp.reshard %u0 fwd
    %loss = aten.call "sum.default"(%y0, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %ge = aten.call "expand.default"(%g, [], false) bwd in "" : (!s) -> !s
    %v0 = fsdp.all_gather.start %sl over ["dp"] bwd on compute : !fsdp.shard<@l, f32>
    %z0 = fsdp.all_gather.wait %v0 : !m
    %g0 = aten.call "mul.Tensor"(%z0, %g) bwd in "l" : (!m, !s) -> !m
    fsdp.reshard %v0 bwd
    %r0 = fsdp.reduce_scatter.start @l(%g0) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    fsdp.update @l with %d0 step %step lr %lr : !fsdp.shard<@l, f32>
    fsdp.reshard %u bwd
    %r = fsdp.reduce_scatter.start @root(%g0) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@root, f32>
    fsdp.update @root with %d step %step lr %lr : !fsdp.shard<@root, f32>
    return %loss : !s
  }
}

// -----

// Gathers that the forward keeps are not prefetched: nothing moves but the reductions' waits.
// CHECK-LABEL: fsdp.model = "kept"
// CHECK: %[[S:.+]] = fsdp.shard @l :
// CHECK: fsdp.all_gather.start %[[S]] over ["dp"] fwd
// CHECK-NOT: fsdp.all_gather.start
// CHECK: fsdp.reduce_scatter.start @l(
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "kept", fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %u0 = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %loss = aten.call "sum.default"(%w0, none) fwd in "l" : (!m) -> !s
    %g0 = aten.call "mul.Tensor"(%w0, %loss) bwd in "l" : (!m, !s) -> !m
    fsdp.reshard %u0 bwd
    %r0 = fsdp.reduce_scatter.start @l(%g0) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    fsdp.update @l with %d0 step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// The module's own choice is taken where the pass is told nothing.
// CHECK-LABEL: fsdp.model = "no_prefetch"
// CHECK: %[[S:.+]] = fsdp.shard @l :
// CHECK: aten.call "ones_like.default"
// CHECK-NEXT: fsdp.all_gather.start %[[S]] over ["dp"] bwd
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "no_prefetch", fsdp.phase = #fsdp.module_phase<sharded>, fsdp.prefetch = #fsdp.prefetch<none>} {
  fsdp.param @e.w : !m
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %s_root = fsdp.shard @root : !fsdp.shard<@root, f32>
    %sl = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %u = fsdp.all_gather.start %s_root over ["dp"] fwd on compute : !fsdp.shard<@root, f32>
    %w = fsdp.all_gather.wait %u : !m
    %u0 = fsdp.all_gather.start %sl over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %y0 = aten.call "mm.default"(%w, %w0) fwd in "l" : (!m, !m) -> !m
    fsdp.reshard %u0 fwd
    %loss = aten.call "sum.default"(%y0, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %v0 = fsdp.all_gather.start %sl over ["dp"] bwd on compute : !fsdp.shard<@l, f32>
    %z0 = fsdp.all_gather.wait %v0 : !m
    %g0 = aten.call "mul.Tensor"(%z0, %g) bwd in "l" : (!m, !s) -> !m
    fsdp.reshard %v0 bwd
    %r0 = fsdp.reduce_scatter.start @l(%g0) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    fsdp.update @l with %d0 step %step lr %lr : !fsdp.shard<@l, f32>
    fsdp.reshard %u bwd
    %r = fsdp.reduce_scatter.start @root(%g0) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@root, f32>
    fsdp.update @root with %d step %step lr %lr : !fsdp.shard<@root, f32>
    return %loss : !s
  }
}

// -----

// A kept module that runs twice is resharded after the backward of its last run, and gathered again
// for the other: this gather is prefetched only when the group is resharded.
// CHECK-LABEL: fsdp.model = "kept_twice"
// CHECK: %[[S:.+]] = fsdp.shard @a :
// CHECK: aten.call "mul.Tensor"({{.*}}) bwd in "a"
// CHECK-NEXT: fsdp.reshard %{{.+}} bwd
// FSDP2-NEXT: fsdp.all_gather.start %[[S]] over ["dp"] bwd
// NONE-NEXT: aten.call "mul.Tensor"({{.*}}) bwd in "b"
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "kept_twice", fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @a.w : !m
  fsdp.param @b.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward false
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %sa = fsdp.shard @a : !fsdp.shard<@a, f32>
    %sb = fsdp.shard @b : !fsdp.shard<@b, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %sa over ["dp"] fwd on compute : !fsdp.shard<@a, f32>
    %w = fsdp.all_gather.wait %u : !m
    %y0 = aten.call "mm.default"(%x, %w) fwd in "a" : (!m, !m) -> !m
    %ub = fsdp.all_gather.start %sb over ["dp"] fwd on compute : !fsdp.shard<@b, f32>
    %wb = fsdp.all_gather.wait %ub : !m
    %y1 = aten.call "mm.default"(%y0, %wb) fwd in "b" : (!m, !m) -> !m
    %y2 = aten.call "mm.default"(%y1, %w) fwd in "a" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y2, none) fwd in "" : (!m) -> !s
    %d2 = aten.call "mul.Tensor"(%w, %y1) bwd in "a" : (!m, !m) -> !m
    fsdp.reshard %u bwd
    %g1 = aten.call "mul.Tensor"(%wb, %d2) bwd in "b" : (!m, !m) -> !m
    fsdp.reshard %ub bwd
    %r1 = fsdp.reduce_scatter.start @b(%g1) over ["dp"] avg bwd on compute : !m
    %d1 = fsdp.reduce_scatter.wait %r1 : !fsdp.shard<@b, f32>
    fsdp.update @b with %d1 step %step lr %lr : !fsdp.shard<@b, f32>
    %u2 = fsdp.all_gather.start %sa over ["dp"] bwd on compute : !fsdp.shard<@a, f32>
    %w2 = fsdp.all_gather.wait %u2 : !m
    %d0 = aten.call "mul.Tensor"(%w2, %g1) bwd in "a" : (!m, !m) -> !m
    fsdp.reshard %u2 bwd
    %r = fsdp.reduce_scatter.start @a(%d0) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@a, f32>
    fsdp.update @a with %d step %step lr %lr : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}
