// RUN: fsdp-compile %s --emit=plan | FileCheck %s

// In the per-param layout every parameter is copied out of the gathered chunks: one copy for the ranks
// that hold a full chunk of rows, one for the last rank, if it holds less. Gradients go the same way
// back, from whatever strides they have, and the chunks' padding is zeroed.
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  // CHECK: group @g per_param f32, 17 elements per rank
  // CHECK-NEXT: parameter even f32[4, 4], rank 0 holds 0 + 8 at 0, rank 1 holds 8 + 8 at 0
  // CHECK-NEXT: parameter odd f32[5, 3], rank 0 holds 0 + 9 at 8, rank 1 holds 9 + 6 at 8
  fsdp.param @even : tensor<4x4xf32>
  fsdp.param @odd : tensor<5x3xf32>
  fsdp.group @g [@even, @odd] of [""] over @mesh "dp" per_param reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %shard = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    // CHECK: all_gather.start @g on gather, handle 0: 68 bytes per rank
    %u = fsdp.all_gather.start %shard over ["dp"] fwd on gather : !fsdp.shard<@g, f32>
    // CHECK-NEXT: wait for handle 0
    // CHECK-NEXT: fwd copy even f32[2, 2, 4] strides [17, 4, 1] at {{[0-9]+}} to even f32[2, 2, 4] at
    // CHECK-NEXT: fwd copy odd f32[1, 3, 3] at {{[0-9]+}} to odd f32[1, 3, 3] at
    // CHECK-NEXT: fwd copy odd f32[2, 3] at {{[0-9]+}} to odd f32[2, 3] at
    %w:2 = fsdp.all_gather.wait %u : tensor<4x4xf32>, tensor<5x3xf32>
    %s = aten.call "sum.default"(%w#1, none) fwd in "" : (tensor<5x3xf32>) -> tensor<f32>
    %g0 = aten.call "t.default"(%w#0) bwd in "" : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<[1, 4]>>
    %g1 = aten.call "neg.default"(%w#1) bwd in "" : (tensor<5x3xf32>) -> tensor<5x3xf32>
    // CHECK: bwd copy even f32[2, 2, 4] strides [2, 1, 4] at {{[0-9]+}} to even f32[2, 2, 4] strides [17, 4, 1] at
    // CHECK-NEXT: bwd copy odd
    // CHECK-NEXT: bwd copy odd
    // CHECK-NEXT: bwd zero 12 bytes at
    // CHECK-NEXT: bwd reduce_scatter.start @g on reduce, handle 1: 17 f32 per rank
    %r = fsdp.reduce_scatter.start @g(%g0, %g1) over ["dp"] avg bwd on reduce : tensor<4x4xf32, #aten.strides<[1, 4]>>, tensor<5x3xf32>
    fsdp.reshard %u bwd
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}
