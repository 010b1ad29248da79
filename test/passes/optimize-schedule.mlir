// RUN: fsdp-opt %s --split-input-file --fsdp-optimize-schedule=network=dgx-h100 --fsdp-verify-scheduled | FileCheck %s --check-prefixes=CHECK,BUCKETS
// Where one launch has no common latency, as in shared memory, there is nothing to gain.
// RUN: fsdp-opt %s --split-input-file --fsdp-optimize-schedule --fsdp-verify-scheduled | FileCheck %s --check-prefixes=CHECK,SINGLE
// RUN: fsdp-opt %s --split-input-file --fsdp-optimize-schedule=buckets=false --fsdp-verify-scheduled | FileCheck %s --check-prefixes=CHECK,SINGLE

// A copy that a group may keep and that fits is kept: the reshard, the second gather and the view
// that was made again from it are gone. Where memory is there, gathers start at once, as one launch if
// that is allowed and saves something.
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

// In the per-param layout gradients are copied when their reduction starts, and may be read later:
// nothing is cloned. What is kept is not copied out again.
// CHECK-LABEL: fsdp.model = "per_param"
// CHECK-DAG: %[[S_A:.+]] = fsdp.shard @a :
// CHECK-DAG: %[[S_B:.+]] = fsdp.shard @b :
// CHECK: %[[UA:.+]] = fsdp.all_gather.start %[[S_A]] over ["dp"] fwd on gather
// CHECK: %[[WA:.+]] = fsdp.all_gather.wait %[[UA]]
// CHECK: fsdp.all_gather.start %[[S_B]] over ["dp"] bwd on gather
// CHECK-NOT: fsdp.all_gather.start
// CHECK-NOT: clone.default
// CHECK: aten.call "mm.default"(%[[WA]], {{.*}}) bwd in "a"
// CHECK: fsdp.reshard %[[UA]] bwd
!m = tensor<64x64xf32>
!s = tensor<f32>
module attributes {fsdp.model = "per_param", fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @a.w : !m
  fsdp.param @b.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" per_param reshard_after_forward auto
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" per_param reshard_after_forward true
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
    fsdp.reshard %u1 fwd
    %loss = aten.call "sum.default"(%y1, none) fwd in "" : (!m) -> !s
    %v1 = fsdp.all_gather.start %sb over ["dp"] bwd on compute : !fsdp.shard<@b, f32>
    %z1 = fsdp.all_gather.wait %v1 : !m
    %g1 = aten.call "mm.default"(%y0, %y1) bwd in "b" : (!m, !m) -> !m
    %dy1 = aten.call "mm.default"(%z1, %y0) bwd in "b" : (!m, !m) -> !m
    fsdp.reshard %v1 bwd
    %r1 = fsdp.reduce_scatter.start @b(%g1) over ["dp"] avg bwd on compute : !m
    %d1 = fsdp.reduce_scatter.wait %r1 : !fsdp.shard<@b, f32>
    fsdp.update @b with %d1 step %step lr %lr : !fsdp.shard<@b, f32>
    %v0 = fsdp.all_gather.start %sa over ["dp"] bwd on compute : !fsdp.shard<@a, f32>
    %z0 = fsdp.all_gather.wait %v0 : !m
    %g0 = aten.call "mm.default"(%z0, %dy1) bwd in "a" : (!m, !m) -> !m
    fsdp.reshard %v0 bwd
    %r0 = fsdp.reduce_scatter.start @a(%g0) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@a, f32>
    fsdp.update @a with %d0 step %step lr %lr : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// With several microbatches a group may stay gathered from one to the next. What they reduce is added
// up behind the waits, in their order.
// CHECK-LABEL: fsdp.model = "microbatches"
// CHECK: %[[S_L:.+]] = fsdp.shard @l :
// CHECK-NEXT: %[[S_R:.+]] = fsdp.shard @root :
// CHECK-DAG: %[[UL:.+]] = fsdp.all_gather.start %[[S_L]] over ["dp"] fwd
// CHECK-DAG: fsdp.all_gather.start %[[S_R]] over ["dp"] fwd
// CHECK-DAG: fsdp.all_gather.start %[[S_R]] over ["dp"] fwd
// CHECK-DAG: %[[D:.+]] = fsdp.reduce_scatter.wait %{{.+}} : !fsdp.shard<@l, f32>
// CHECK-NOT: fsdp.all_gather.start
// CHECK: fsdp.reshard %[[UL]] bwd
// CHECK: %[[E:.+]] = fsdp.accumulate %[[D]], %{{.+}} : !fsdp.shard<@l, f32>, !fsdp.shard<@l, f32>
// CHECK: fsdp.update @l with %[[E]]
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum>, fsdp.model = "microbatches", fsdp.phase = #fsdp.module_phase<sharded>, fsdp.provenance = "12b4d6f35e9bd5f7e26f2550f29b0d48"} {
  fsdp.param @e.w : tensor<4xf32>
  fsdp.param @l.w : tensor<4xf32>
  fsdp.optimizer sgd lr = 1.000000e-01 weight_decay = 0.000000e+00 momentum = 0.000000e+00
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward auto
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<4xf32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x_0 = fsdp.input "x" microbatch 1 : tensor<4xf32>
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %s_1 = fsdp.shard @root : !fsdp.shard<@root, f32>
    %u = fsdp.all_gather.start %s_1 over ["dp"] fwd on compute : !fsdp.shard<@root, f32>
    %w = fsdp.all_gather.wait %u : tensor<4xf32>
    %mul = aten.call "mul.Tensor"(%x, %w) fwd in "e" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %u_2 = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w_3 = fsdp.all_gather.wait %u_2 : tensor<4xf32>
    %mul_4 = aten.call "mul.Tensor"(%mul, %w_3) fwd in "l" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u_2 fwd
    %u_5 = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w_6 = fsdp.all_gather.wait %u_5 : tensor<4xf32>
    %mul_7 = aten.call "mul.Tensor"(%mul_4, %w_6) fwd in "l@1" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u_5 fwd
    %sum = aten.call "sum.default"(%mul_7, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %ones_like = aten.call "ones_like.default"(%sum, none, none, none, none, none) bwd in "" : (tensor<f32>) -> tensor<f32>
    %u_8 = fsdp.all_gather.start %s over ["dp"] bwd on compute : !fsdp.shard<@l, f32>
    %w_9 = fsdp.all_gather.wait %u_8 : tensor<4xf32>
    %mul_10 = aten.call "mul.Tensor"(%ones_like, %mul_4) bwd in "l@1" : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
    %mul_11 = aten.call "mul.Tensor"(%ones_like, %w_9) bwd in "l@1" : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u_8 bwd
    %u_12 = fsdp.all_gather.start %s over ["dp"] bwd on compute : !fsdp.shard<@l, f32>
    %w_13 = fsdp.all_gather.wait %u_12 : tensor<4xf32>
    %mul_14 = aten.call "mul.Tensor"(%mul_11, %mul) bwd in "l" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %add = aten.call "add.Tensor"(%mul_10, %mul_14, 1) bwd in "l" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %mul_15 = aten.call "mul.Tensor"(%mul_11, %w_13) bwd in "l" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u_12 bwd
    %r = fsdp.reduce_scatter.start @l(%add) over ["dp"] avg bwd on compute : tensor<4xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %mul_16 = aten.call "mul.Tensor"(%mul_15, %x) bwd in "e" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u bwd
    %r_17 = fsdp.reduce_scatter.start @root(%mul_16) over ["dp"] avg bwd on compute : tensor<4xf32>
    %d_18 = fsdp.reduce_scatter.wait %r_17 : !fsdp.shard<@root, f32>
    %u_19 = fsdp.all_gather.start %s_1 over ["dp"] fwd on compute : !fsdp.shard<@root, f32>
    %w_20 = fsdp.all_gather.wait %u_19 : tensor<4xf32>
    %mul_21 = aten.call "mul.Tensor"(%x_0, %w_20) fwd in "e" microbatch 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %u_22 = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w_23 = fsdp.all_gather.wait %u_22 : tensor<4xf32>
    %mul_24 = aten.call "mul.Tensor"(%mul_21, %w_23) fwd in "l" microbatch 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u_22 fwd
    %u_25 = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w_26 = fsdp.all_gather.wait %u_25 : tensor<4xf32>
    %mul_27 = aten.call "mul.Tensor"(%mul_24, %w_26) fwd in "l@1" microbatch 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u_25 fwd
    %sum_28 = aten.call "sum.default"(%mul_27, none) fwd in "" microbatch 1 : (tensor<4xf32>) -> tensor<f32>
    %add_29 = aten.call "add.Tensor"(%sum, %sum_28, 1) fwd in "" microbatch 1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %ones_like_30 = aten.call "ones_like.default"(%sum_28, none, none, none, none, none) bwd in "" microbatch 1 : (tensor<f32>) -> tensor<f32>
    %u_31 = fsdp.all_gather.start %s over ["dp"] bwd on compute : !fsdp.shard<@l, f32>
    %w_32 = fsdp.all_gather.wait %u_31 : tensor<4xf32>
    %mul_33 = aten.call "mul.Tensor"(%ones_like_30, %mul_24) bwd in "l@1" microbatch 1 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
    %mul_34 = aten.call "mul.Tensor"(%ones_like_30, %w_32) bwd in "l@1" microbatch 1 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u_31 bwd
    %u_35 = fsdp.all_gather.start %s over ["dp"] bwd on compute : !fsdp.shard<@l, f32>
    %w_36 = fsdp.all_gather.wait %u_35 : tensor<4xf32>
    %mul_37 = aten.call "mul.Tensor"(%mul_34, %mul_21) bwd in "l" microbatch 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %add_38 = aten.call "add.Tensor"(%mul_33, %mul_37, 1) bwd in "l" microbatch 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %mul_39 = aten.call "mul.Tensor"(%mul_34, %w_36) bwd in "l" microbatch 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u_35 bwd
    %r_40 = fsdp.reduce_scatter.start @l(%add_38) over ["dp"] avg bwd on compute : tensor<4xf32>
    %d_41 = fsdp.reduce_scatter.wait %r_40 : !fsdp.shard<@l, f32>
    %e = fsdp.accumulate %d, %d_41 : !fsdp.shard<@l, f32>, !fsdp.shard<@l, f32>
    fsdp.update @l with %e step %step lr %lr : !fsdp.shard<@l, f32>
    %mul_42 = aten.call "mul.Tensor"(%mul_39, %x_0) bwd in "e" microbatch 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u_19 bwd
    %r_43 = fsdp.reduce_scatter.start @root(%mul_42) over ["dp"] avg bwd on compute : tensor<4xf32>
    %d_44 = fsdp.reduce_scatter.wait %r_43 : !fsdp.shard<@root, f32>
    %e_45 = fsdp.accumulate %d_18, %d_44 : !fsdp.shard<@root, f32>, !fsdp.shard<@root, f32>
    fsdp.update @root with %e_45 step %step lr %lr : !fsdp.shard<@root, f32>
    return %add_29 : tensor<f32>
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
