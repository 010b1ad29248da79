// RUN: fsdp-compile %s --emit=plan | FileCheck %s

// A parameter that is cut on another dimension than 0 is put together by one copy: of the ranks' chunks,
// each of which is consecutive, into that dimension. Its gradient goes the same way back, from whatever
// strides it has. Nothing of it is padding.
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  // CHECK: group @g per_param f32, 35 elements per rank
  // CHECK-NEXT: parameter columns f32[4, 4] cut on dimension 1, rank 0 holds 0 + 8 at 0, rank 1 holds 2 + 8 at 0
  // CHECK-NEXT: parameter odd f32[5], rank 0 holds 0 + 3 at 8, rank 1 holds 3 + 2 at 8
  // CHECK-NEXT: parameter middle f32[3, 4, 4] cut on dimension 1, rank 0 holds 0 + 24 at 11, rank 1 holds 8 + 24 at 11
  fsdp.param @columns : tensor<4x4xf32>
  fsdp.param @odd : tensor<5xf32>
  fsdp.param @middle : tensor<3x4x4xf32>
  fsdp.group @g [@columns, @odd, @middle] of [""] over @mesh "dp" per_param shard_dims [1, 0, 1] reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %shard = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    // CHECK: all_gather.start @g on gather, handle 0: 140 bytes per rank
    %u = fsdp.all_gather.start %shard over ["dp"] fwd on gather : !fsdp.shard<@g, f32>
    // CHECK-NEXT: wait for handle 0
    // CHECK-NEXT: fwd copy columns f32[2, 4, 2] strides [35, 2, 1] at {{[0-9]+}} to columns f32[2, 4, 2] strides [2, 4, 1] at
    // CHECK-NEXT: fwd copy odd
    // CHECK-NEXT: fwd copy odd
    // CHECK-NEXT: fwd copy middle f32[2, 3, 2, 4] strides [35, 8, 4, 1] at {{[0-9]+}} to middle f32[2, 3, 2, 4] strides [8, 16, 4, 1] at
    %w:3 = fsdp.all_gather.wait %u : tensor<4x4xf32>, tensor<5xf32>, tensor<3x4x4xf32>
    %s = aten.call "sum.default"(%w#1, none) fwd in "" : (tensor<5xf32>) -> tensor<f32>
    %g0 = aten.call "t.default"(%w#0) bwd in "" : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<[1, 4]>>
    %g1 = aten.call "neg.default"(%w#1) bwd in "" : (tensor<5xf32>) -> tensor<5xf32>
    %g2 = aten.call "neg.default"(%w#2) bwd in "" : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
    // CHECK: bwd copy columns f32[2, 4, 2] strides [8, 1, 4] at {{[0-9]+}} to columns f32[2, 4, 2] strides [35, 2, 1] at
    // CHECK-NEXT: bwd copy odd
    // CHECK-NEXT: bwd copy odd
    // CHECK-NEXT: bwd copy middle f32[2, 3, 2, 4] strides [8, 16, 4, 1] at {{[0-9]+}} to middle f32[2, 3, 2, 4] strides [35, 8, 4, 1] at
    // CHECK-NEXT: bwd zero 4 bytes at
    // CHECK-NEXT: bwd reduce_scatter.start @g on reduce, handle 1: 35 f32 per rank
    %r = fsdp.reduce_scatter.start @g(%g0, %g1, %g2) over ["dp"] avg bwd on reduce : tensor<4x4xf32, #aten.strides<[1, 4]>>, tensor<5xf32>, tensor<3x4x4xf32>
    fsdp.reshard %u bwd
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}
