// RUN: fsdp-opt %s --split-input-file --fsdp-schedule | FileCheck %s
// RUN: sed 's/#fsdp.target<cuda>/"cuda"/' %s | not fsdp-opt --split-input-file 2>&1 | FileCheck %s --check-prefix=TARGET

// With CUDA the host runs ahead of the device. In the forward, torch's stream of gathers waits before the
// gather of a group only for the work that precedes the last group but one: the gather of b3 starts before
// the computation of b1. A group that is used twice is gathered again behind its reshard.
// CHECK-LABEL: fsdp.model = "ahead"
// CHECK: %[[U0:.+]] = fsdp.all_gather.start {{.*}} : !fsdp.shard<@b0, f32>
// CHECK-NEXT: %[[U1:.+]] = fsdp.all_gather.start {{.*}} : !fsdp.shard<@b1, f32>
// CHECK-NEXT: %[[U2:.+]] = fsdp.all_gather.start {{.*}} : !fsdp.shard<@b2, f32>
// CHECK-NEXT: fsdp.all_gather.wait %[[U0]]
// CHECK-NEXT: aten.call "mm.default"
// CHECK-NEXT: fsdp.reshard %[[U0]] fwd
// CHECK-NEXT: fsdp.all_gather.wait %[[U1]]
// CHECK-NEXT: %[[U3:.+]] = fsdp.all_gather.start {{.*}} : !fsdp.shard<@b3, f32>
// CHECK-NEXT: aten.call "mm.default"
// CHECK-NEXT: fsdp.reshard %[[U1]] fwd
// CHECK-NEXT: fsdp.all_gather.wait %[[U2]]
// CHECK-NEXT: %[[V2:.+]] = fsdp.all_gather.start {{.*}} : !fsdp.shard<@b1, f32>
// CHECK-NEXT: aten.call "mm.default"
// CHECK-NEXT: fsdp.reshard %[[U2]] fwd
// CHECK-NEXT: fsdp.all_gather.wait %[[U3]]
// CHECK-NEXT: aten.call "mm.default"
// TARGET: error: attribute 'fsdp.target' must be a #fsdp.target on the module
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "ahead", fsdp.phase = #fsdp.module_phase<sharded>, fsdp.target = #fsdp.target<cuda>} {
  fsdp.param @b0.w : !m
  fsdp.param @b1.w : !m
  fsdp.param @b2.w : !m
  fsdp.param @b3.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @b0 [@b0.w] of ["b0"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b1 [@b1.w] of ["b1"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b2 [@b2.w] of ["b2"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b3 [@b3.w] of ["b3"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s0 = fsdp.shard @b0 : !fsdp.shard<@b0, f32>
    %s1 = fsdp.shard @b1 : !fsdp.shard<@b1, f32>
    %s2 = fsdp.shard @b2 : !fsdp.shard<@b2, f32>
    %s3 = fsdp.shard @b3 : !fsdp.shard<@b3, f32>
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start %s0 over ["dp"] fwd on compute : !fsdp.shard<@b0, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %y0 = aten.call "mm.default"(%x, %w0) fwd in "b0" : (!m, !m) -> !m
    fsdp.reshard %u0 fwd
    %u1 = fsdp.all_gather.start %s1 over ["dp"] fwd on compute : !fsdp.shard<@b1, f32>
    %w1 = fsdp.all_gather.wait %u1 : !m
    %y1 = aten.call "mm.default"(%y0, %w1) fwd in "b1" : (!m, !m) -> !m
    fsdp.reshard %u1 fwd
    %u2 = fsdp.all_gather.start %s2 over ["dp"] fwd on compute : !fsdp.shard<@b2, f32>
    %w2 = fsdp.all_gather.wait %u2 : !m
    %y2 = aten.call "mm.default"(%y1, %w2) fwd in "b2" : (!m, !m) -> !m
    fsdp.reshard %u2 fwd
    %u3 = fsdp.all_gather.start %s3 over ["dp"] fwd on compute : !fsdp.shard<@b3, f32>
    %w3 = fsdp.all_gather.wait %u3 : !m
    %y3 = aten.call "mm.default"(%y2, %w3) fwd in "b3" : (!m, !m) -> !m
    fsdp.reshard %u3 fwd
    %u4 = fsdp.all_gather.start %s1 over ["dp"] fwd on compute : !fsdp.shard<@b1, f32>
    %w4 = fsdp.all_gather.wait %u4 : !m
    %y4 = aten.call "mm.default"(%y3, %w4) fwd in "b1" : (!m, !m) -> !m
    fsdp.reshard %u4 fwd
    %loss = aten.call "sum.default"(%y4, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}

// -----

// The gathers that b1's list names start one group earlier, before the computation of b0.
// CHECK-LABEL: fsdp.model = "list"
// CHECK: %[[U0:.+]] = fsdp.all_gather.start {{.*}} : !fsdp.shard<@b0, f32>
// CHECK-NEXT: fsdp.all_gather.start {{.*}} : !fsdp.shard<@b1, f32>
// CHECK-NEXT: fsdp.all_gather.start {{.*}} : !fsdp.shard<@b3, f32>
// CHECK-NEXT: fsdp.all_gather.start {{.*}} : !fsdp.shard<@b2, f32>
// CHECK-NEXT: fsdp.all_gather.wait %[[U0]]
// CHECK-NEXT: aten.call "mm.default"
// CHECK-NOT: fsdp.all_gather.start
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "list", fsdp.phase = #fsdp.module_phase<sharded>, fsdp.target = #fsdp.target<cuda>} {
  fsdp.param @b0.w : !m
  fsdp.param @b1.w : !m
  fsdp.param @b2.w : !m
  fsdp.param @b3.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @b0 [@b0.w] of ["b0"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b1 [@b1.w] of ["b1"] over @mesh "dp" flat reshard_after_forward true forward_prefetch [@b3, @b2]
  fsdp.group @b2 [@b2.w] of ["b2"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b3 [@b3.w] of ["b3"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s0 = fsdp.shard @b0 : !fsdp.shard<@b0, f32>
    %s1 = fsdp.shard @b1 : !fsdp.shard<@b1, f32>
    %s2 = fsdp.shard @b2 : !fsdp.shard<@b2, f32>
    %s3 = fsdp.shard @b3 : !fsdp.shard<@b3, f32>
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start %s0 over ["dp"] fwd on compute : !fsdp.shard<@b0, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %y0 = aten.call "mm.default"(%x, %w0) fwd in "b0" : (!m, !m) -> !m
    fsdp.reshard %u0 fwd
    %u1 = fsdp.all_gather.start %s1 over ["dp"] fwd on compute : !fsdp.shard<@b1, f32>
    %w1 = fsdp.all_gather.wait %u1 : !m
    %y1 = aten.call "mm.default"(%y0, %w1) fwd in "b1" : (!m, !m) -> !m
    fsdp.reshard %u1 fwd
    %u2 = fsdp.all_gather.start %s2 over ["dp"] fwd on compute : !fsdp.shard<@b2, f32>
    %w2 = fsdp.all_gather.wait %u2 : !m
    %y2 = aten.call "mm.default"(%y1, %w2) fwd in "b2" : (!m, !m) -> !m
    fsdp.reshard %u2 fwd
    %u3 = fsdp.all_gather.start %s3 over ["dp"] fwd on compute : !fsdp.shard<@b3, f32>
    %w3 = fsdp.all_gather.wait %u3 : !m
    %y3 = aten.call "mm.default"(%y2, %w3) fwd in "b3" : (!m, !m) -> !m
    fsdp.reshard %u3 fwd
    %loss = aten.call "sum.default"(%y3, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}

// -----

// The trained and the frozen parameters of a module are two groups here, and one group in FSDP2. So the gather of
// b2 starts two modules ahead, before the computation of b0, and not two groups ahead.
// CHECK-LABEL: fsdp.model = "frozen"
// CHECK: fsdp.all_gather.start {{.*}} : !fsdp.shard<@b0, f32>
// CHECK: fsdp.all_gather.start {{.*}} : !fsdp.shard<@f0, f32>
// CHECK-NEXT: fsdp.all_gather.start {{.*}} : !fsdp.shard<@b1, f32>
// CHECK-NEXT: fsdp.all_gather.start {{.*}} : !fsdp.shard<@f1, f32>
// CHECK-NEXT: fsdp.all_gather.start {{.*}} : !fsdp.shard<@b2, f32>
// CHECK-NOT: fsdp.all_gather.start
// CHECK: aten.call "addmm.default"({{.*}} in "b2"
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "frozen", fsdp.phase = #fsdp.module_phase<sharded>, fsdp.target = #fsdp.target<cuda>} {
  fsdp.param @b0.w : !m
  fsdp.param @f0.w : !m frozen
  fsdp.param @b1.w : !m
  fsdp.param @f1.w : !m frozen
  fsdp.param @b2.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @b0 [@b0.w] of ["b0"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @f0 [@f0.w] of ["b0"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b1 [@b1.w] of ["b1"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @f1 [@f1.w] of ["b1"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b2 [@b2.w] of ["b2"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s0 = fsdp.shard @b0 : !fsdp.shard<@b0, f32>
    %t0 = fsdp.shard @f0 : !fsdp.shard<@f0, f32>
    %s1 = fsdp.shard @b1 : !fsdp.shard<@b1, f32>
    %t1 = fsdp.shard @f1 : !fsdp.shard<@f1, f32>
    %s2 = fsdp.shard @b2 : !fsdp.shard<@b2, f32>
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start %s0 over ["dp"] fwd on compute : !fsdp.shard<@b0, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %v0 = fsdp.all_gather.start %t0 over ["dp"] fwd on compute : !fsdp.shard<@f0, f32>
    %f0 = fsdp.all_gather.wait %v0 : !m
    %y0 = aten.call "addmm.default"(%f0, %x, %w0) fwd in "b0" : (!m, !m, !m) -> !m
    fsdp.reshard %u0 fwd
    fsdp.reshard %v0 fwd
    %u1 = fsdp.all_gather.start %s1 over ["dp"] fwd on compute : !fsdp.shard<@b1, f32>
    %w1 = fsdp.all_gather.wait %u1 : !m
    %v1 = fsdp.all_gather.start %t1 over ["dp"] fwd on compute : !fsdp.shard<@f1, f32>
    %f1 = fsdp.all_gather.wait %v1 : !m
    %y1 = aten.call "addmm.default"(%f1, %y0, %w1) fwd in "b1" : (!m, !m, !m) -> !m
    fsdp.reshard %u1 fwd
    fsdp.reshard %v1 fwd
    %u2 = fsdp.all_gather.start %s2 over ["dp"] fwd on compute : !fsdp.shard<@b2, f32>
    %w2 = fsdp.all_gather.wait %u2 : !m
    %y2 = aten.call "addmm.default"(%x, %y1, %w2) fwd in "b2" : (!m, !m, !m) -> !m
    fsdp.reshard %u2 fwd
    %loss = aten.call "sum.default"(%y2, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}
