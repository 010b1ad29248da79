// RUN: fsdp-opt %s --split-input-file --fsdp-optimize-schedule --fsdp-verify-scheduled | FileCheck %s --check-prefixes=CHECK,BUCKETS
// RUN: fsdp-opt %s --split-input-file --fsdp-optimize-schedule=buckets=false --fsdp-verify-scheduled | FileCheck %s --check-prefixes=CHECK,SINGLE

// A copy that a group may keep and that fits is kept: the reshard, the second gather and the view
// that was made again from it are gone. Where memory is there, gathers start at once, as one launch if
// that is allowed.
// EXAMPLE: fsdp-optimize-schedule
// CHECK-LABEL: fsdp.model = "kept"
// CHECK-SAME: fsdp.phase = #fsdp.module_phase<scheduled>
// CHECK: %[[S_A:.+]] = fsdp.shard @a :
// CHECK: %[[S_B:.+]] = fsdp.shard @b :
// CHECK: %[[UA:.+]] = fsdp.all_gather.start %[[S_A]] over ["dp"] fwd on gather
// BUCKETS-NEXT: %[[UB:.+]] = fsdp.all_gather.start %[[S_B]] over ["dp"] fwd on gather coalesced
// SINGLE-NEXT: %[[UB:.+]] = fsdp.all_gather.start %[[S_B]] over ["dp"] fwd on gather :
// CHECK-NEXT: %[[WA:.+]] = fsdp.all_gather.wait %[[UA]]
// CHECK-NEXT: %[[VA:.+]] = aten.call "t.default"(%[[WA]]) fwd in "a"
// CHECK-NEXT: %[[Y:.+]] = aten.call "mm.default"(%{{.+}}, %[[VA]]) fwd in "a"
// CHECK-NEXT: %[[WB:.+]] = fsdp.all_gather.wait %[[UB]]
// CHECK-NOT: fsdp.all_gather
// CHECK: aten.call "mm.default"(%[[WB]], {{.*}}) bwd in "b"
// CHECK-NOT: fsdp.all_gather
// CHECK: fsdp.reshard %[[UB]] bwd
// CHECK-NOT: "t.default"
// CHECK: aten.call "mm.default"(%[[VA]], {{.*}}) bwd in "a"
!m = tensor<64x64xf32>
!t = tensor<64x64xf32, #aten.strides<[1, 64]>>
!s = tensor<f32>
module attributes {fsdp.model = "kept", fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @a.w : !m
  fsdp.param @b.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward auto
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward auto
  func.func @step() -> !s {
    %sa = fsdp.shard @a : !fsdp.shard<@a, f32>
    %sb = fsdp.shard @b : !fsdp.shard<@b, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start %sa over ["dp"] fwd on compute : !fsdp.shard<@a, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %t0 = aten.call "t.default"(%w0) fwd in "a" : (!m) -> !t
    %y0 = aten.call "mm.default"(%x, %t0) fwd in "a" : (!m, !t) -> !m
    fsdp.reshard %u0 fwd
    %u1 = fsdp.all_gather.start %sb over ["dp"] fwd on compute : !fsdp.shard<@b, f32>
    %w1 = fsdp.all_gather.wait %u1 : !m
    %y1 = aten.call "mm.default"(%y0, %w1) fwd in "b" : (!m, !m) -> !m
    fsdp.reshard %u1 fwd
    %loss = aten.call "sum.default"(%y1, none) fwd in "" : (!m) -> !s
    %v1 = fsdp.all_gather.start %sb over ["dp"] bwd on compute : !fsdp.shard<@b, f32>
    %z1 = fsdp.all_gather.wait %v1 : !m
    %dy1 = aten.call "mm.default"(%z1, %y0) bwd in "b" : (!m, !m) -> !m
    %g1 = aten.call "mm.default"(%dy1, %dy1) bwd in "b" : (!m, !m) -> !m
    fsdp.reshard %v1 bwd
    %r1 = fsdp.reduce_scatter.start @b(%g1) over ["dp"] avg bwd on compute : !m
    %d1 = fsdp.reduce_scatter.wait %r1 : !fsdp.shard<@b, f32>
    fsdp.update @b with %d1 step %step lr %lr : !fsdp.shard<@b, f32>
    %v0 = fsdp.all_gather.start %sa over ["dp"] bwd on compute : !fsdp.shard<@a, f32>
    %z0 = fsdp.all_gather.wait %v0 : !m
    %tz0 = aten.call "t.default"(%z0) bwd in "a" : (!m) -> !t
    %g0 = aten.call "mm.default"(%tz0, %dy1) bwd in "a" : (!t, !m) -> !m
    fsdp.reshard %v0 bwd
    %r0 = fsdp.reduce_scatter.start @a(%g0) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@a, f32>
    fsdp.update @a with %d0 step %step lr %lr : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// Groups that say what they want get it: @a is gathered again, @b is not. A gradient that is transposed,
// or read after its reduction's start, is copied before.
// CHECK-LABEL: fsdp.model = "said"
// CHECK: %[[S:.+]] = fsdp.shard @a :
// CHECK: fsdp.all_gather.start %[[S]] over ["dp"] fwd
// CHECK: fsdp.reshard %{{.+}} fwd
// CHECK: %[[D1:.+]] = aten.call "mm.default"({{.*}}) bwd in "b"
// CHECK-DAG: %[[B:.+]] = aten.call "clone.default"(%[[D1]], #aten.memory_format<contiguous>) bwd in "b"
// CHECK-DAG: fsdp.reduce_scatter.start @b(%[[B]])
// CHECK-DAG: aten.call "mm.default"({{.*}}, %[[D1]]) bwd in "a"
// CHECK-DAG: %[[A:.+]] = aten.call "clone.default"({{.*}}, #aten.memory_format<contiguous>) bwd in "a" : (tensor<64x64xf32, #aten.strides<[1, 64]>>) -> tensor<64x64xf32>
// CHECK-DAG: fsdp.reduce_scatter.start @a(%[[A]])
!m = tensor<64x64xf32>
!t = tensor<64x64xf32, #aten.strides<[1, 64]>>
!s = tensor<f32>
module attributes {fsdp.model = "said", fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @a.w : !m
  fsdp.param @b.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %sa = fsdp.shard @a : !fsdp.shard<@a, f32>
    %sb = fsdp.shard @b : !fsdp.shard<@b, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start %sa over ["dp"] fwd on compute : !fsdp.shard<@a, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %y0 = aten.call "mm.default"(%x, %w0) fwd in "a" : (!m, !m) -> !m
    fsdp.reshard %u0 fwd
    %u1 = fsdp.all_gather.start %sb over ["dp"] fwd on compute : !fsdp.shard<@b, f32>
    %w1 = fsdp.all_gather.wait %u1 : !m
    %y1 = aten.call "mm.default"(%y0, %w1) fwd in "b" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y1, none) fwd in "" : (!m) -> !s
    %g1 = aten.call "mm.default"(%w1, %y0) bwd in "b" : (!m, !m) -> !m
    fsdp.reshard %u1 bwd
    %r1 = fsdp.reduce_scatter.start @b(%g1) over ["dp"] avg bwd on compute : !m
    %d1 = fsdp.reduce_scatter.wait %r1 : !fsdp.shard<@b, f32>
    fsdp.update @b with %d1 step %step lr %lr : !fsdp.shard<@b, f32>
    %v0 = fsdp.all_gather.start %sa over ["dp"] bwd on compute : !fsdp.shard<@a, f32>
    %z0 = fsdp.all_gather.wait %v0 : !m
    %t0 = aten.call "mm.default"(%z0, %g1) bwd in "a" : (!m, !m) -> !m
    %g0 = aten.call "t.default"(%t0) bwd in "a" : (!m) -> !t
    fsdp.reshard %v0 bwd
    %r0 = fsdp.reduce_scatter.start @a(%g0) over ["dp"] avg bwd on compute : !t
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@a, f32>
    fsdp.update @a with %d0 step %step lr %lr : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// On one rank there is nothing to decide, the layout does not matter, and the step is scheduled as it
// is.
// CHECK-LABEL: fsdp.model = "one_rank"
// CHECK-SAME: fsdp.phase = #fsdp.module_phase<scheduled>
// CHECK: %[[D:.+]] = fsdp.pack @g(
// CHECK-NEXT: fsdp.update @g with %[[D]]
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "one_rank", fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward auto
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (!m) -> !s
    %g = aten.call "neg.default"(%w) bwd in "" : (!m) -> !m
    %d = fsdp.pack @g(%g) : (!m) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : !s
  }
}
