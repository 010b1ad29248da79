// RUN: fsdp-opt %s --split-input-file --fsdp-optimize-schedule --fsdp-verify-scheduled | FileCheck %s --check-prefixes=CHECK,BUCKETS
// RUN: fsdp-opt %s --split-input-file --fsdp-optimize-schedule=buckets=false --fsdp-verify-scheduled | FileCheck %s --check-prefixes=CHECK,SINGLE

// A copy that a group may keep and that fits is kept: the release, the second gather and the view
// that was made again from it are gone. Where memory is there, gathers start at once, as one launch if
// that is allowed.
// CHECK-LABEL: fsdp.model = "kept"
// CHECK-SAME: fsdp.phase = #fsdp.module_phase<scheduled>
// CHECK: %[[UA:.+]] = fsdp.all_gather.start @a fwd on gather
// BUCKETS-NEXT: %[[UB:.+]] = fsdp.all_gather.start @b fwd on gather coalesced
// SINGLE-NEXT: %[[UB:.+]] = fsdp.all_gather.start @b fwd on gather{{$}}
// CHECK-NEXT: %[[WA:.+]] = fsdp.all_gather.wait %[[UA]]
// CHECK-NEXT: %[[VA:.+]] = aten.call "t.default"(%[[WA]]) fwd in "a"
// CHECK-NEXT: %[[Y:.+]] = aten.call "mm.default"(%{{.+}}, %[[VA]]) fwd in "a"
// CHECK-NEXT: %[[WB:.+]] = fsdp.all_gather.wait %[[UB]]
// CHECK-NOT: fsdp.all_gather
// CHECK: aten.call "mm.default"(%[[WB]], {{.*}}) bwd in "b"
// CHECK-NOT: fsdp.all_gather
// CHECK: fsdp.release %[[UB]] bwd
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
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start @a fwd on compute
    %w0 = fsdp.all_gather.wait %u0 : !m
    %t0 = aten.call "t.default"(%w0) fwd in "a" : (!m) -> !t
    %y0 = aten.call "mm.default"(%x, %t0) fwd in "a" : (!m, !t) -> !m
    fsdp.release %u0 fwd
    %u1 = fsdp.all_gather.start @b fwd on compute
    %w1 = fsdp.all_gather.wait %u1 : !m
    %y1 = aten.call "mm.default"(%y0, %w1) fwd in "b" : (!m, !m) -> !m
    fsdp.release %u1 fwd
    %loss = aten.call "sum.default"(%y1, none) fwd in "" : (!m) -> !s
    %v1 = fsdp.all_gather.start @b bwd on compute
    %z1 = fsdp.all_gather.wait %v1 : !m
    %d1 = aten.call "mm.default"(%z1, %y0) bwd in "b" : (!m, !m) -> !m
    %g1 = aten.call "mm.default"(%d1, %d1) bwd in "b" : (!m, !m) -> !m
    fsdp.release %v1 bwd
    %r1 = fsdp.reduce_scatter.start @b(%g1) bwd on compute : !m
    fsdp.reduce_scatter.wait %r1
    fsdp.update @b step %step lr %lr
    %v0 = fsdp.all_gather.start @a bwd on compute
    %z0 = fsdp.all_gather.wait %v0 : !m
    %tz0 = aten.call "t.default"(%z0) bwd in "a" : (!m) -> !t
    %d0 = aten.call "mm.default"(%tz0, %d1) bwd in "a" : (!t, !m) -> !m
    fsdp.release %v0 bwd
    %r0 = fsdp.reduce_scatter.start @a(%d0) bwd on compute : !m
    fsdp.reduce_scatter.wait %r0
    fsdp.update @a step %step lr %lr
    return %loss : !s
  }
}

// -----

// Groups that say what they want get it: @a is gathered again, @b is not. A gradient that is transposed,
// or read after its reduction's start, is copied before.
// CHECK-LABEL: fsdp.model = "said"
// CHECK: fsdp.all_gather.start @a fwd
// CHECK: fsdp.release %{{.+}} fwd
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
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start @a fwd on compute
    %w0 = fsdp.all_gather.wait %u0 : !m
    %y0 = aten.call "mm.default"(%x, %w0) fwd in "a" : (!m, !m) -> !m
    fsdp.release %u0 fwd
    %u1 = fsdp.all_gather.start @b fwd on compute
    %w1 = fsdp.all_gather.wait %u1 : !m
    %y1 = aten.call "mm.default"(%y0, %w1) fwd in "b" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y1, none) fwd in "" : (!m) -> !s
    %d1 = aten.call "mm.default"(%w1, %y0) bwd in "b" : (!m, !m) -> !m
    fsdp.release %u1 bwd
    %r1 = fsdp.reduce_scatter.start @b(%d1) bwd on compute : !m
    fsdp.reduce_scatter.wait %r1
    fsdp.update @b step %step lr %lr
    %v0 = fsdp.all_gather.start @a bwd on compute
    %z0 = fsdp.all_gather.wait %v0 : !m
    %d0 = aten.call "mm.default"(%z0, %d1) bwd in "a" : (!m, !m) -> !m
    %g0 = aten.call "t.default"(%d0) bwd in "a" : (!m) -> !t
    fsdp.release %v0 bwd
    %r0 = fsdp.reduce_scatter.start @a(%g0) bwd on compute : !t
    fsdp.reduce_scatter.wait %r0
    fsdp.update @a step %step lr %lr
    return %loss : !s
  }
}

// -----

// On one rank there is nothing to decide, the layout does not matter, and the step is scheduled as it
// is.
// CHECK-LABEL: fsdp.model = "one_rank"
// CHECK-SAME: fsdp.phase = #fsdp.module_phase<scheduled>
// CHECK: fsdp.grad @w
// CHECK-NEXT: fsdp.update @g
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
    fsdp.grad @w, %g : !m
    fsdp.update @g step %step lr %lr
    return %loss : !s
  }
}
