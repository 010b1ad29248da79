// RUN: fsdp-compile %s --emit=plan | FileCheck %s

// The starts of a bucket follow one another in the plan too: the copies and the padding of all inputs
// come before the first of them.
// CHECK: fwd all_gather.start @k on gather, handle 0
// CHECK-NEXT: fwd all_gather.start @l on gather, handle 1: {{.*}}, coalesced
// CHECK: bwd copy %t{{.*}} to v
// CHECK-NEXT: bwd zero
// CHECK-NEXT: bwd zero
// CHECK-NEXT: bwd copy %t{{.*}} to w
// CHECK-NEXT: bwd zero
// CHECK-NEXT: bwd zero
// CHECK-NEXT: bwd reduce_scatter.start @k on gather, handle 2
// CHECK-NEXT: bwd reduce_scatter.start @l on gather, handle 3: {{.*}}, coalesced
module attributes {fsdp.model = "buckets", fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @v : tensor<3x5xf32>
  fsdp.param @w : tensor<3x5xf32>
  fsdp.group @k [@v] of ["k"] over @mesh "dp" flat reshard_after_forward false
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %sk = fsdp.shard @k : !fsdp.shard<@k, f32>
    %sl = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<5x3xf32>
    %uk = fsdp.all_gather.start %sk over ["dp"] fwd on gather : !fsdp.shard<@k, f32>
    %ul = fsdp.all_gather.start %sl over ["dp"] fwd on gather coalesced : !fsdp.shard<@l, f32>
    %v = fsdp.all_gather.wait %uk : tensor<3x5xf32>
    %w = fsdp.all_gather.wait %ul : tensor<3x5xf32>
    %s = aten.call "sum.default"(%x, none) fwd in "" : (tensor<5x3xf32>) -> tensor<f32>
    %g = aten.call "t.default"(%x) bwd in "" : (tensor<5x3xf32>) -> tensor<3x5xf32, #aten.strides<[1, 3]>>
    fsdp.reshard %uk bwd
    fsdp.reshard %ul bwd
    %rk = fsdp.reduce_scatter.start @k(%g) over ["dp"] avg bwd on gather : tensor<3x5xf32, #aten.strides<[1, 3]>>
    %rl = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on gather coalesced : tensor<3x5xf32, #aten.strides<[1, 3]>>
    %dk = fsdp.reduce_scatter.wait %rk : !fsdp.shard<@k, f32>
    fsdp.update @k with %dk step %step lr %lr : !fsdp.shard<@k, f32>
    %dl = fsdp.reduce_scatter.wait %rl : !fsdp.shard<@l, f32>
    fsdp.update @l with %dl step %step lr %lr : !fsdp.shard<@l, f32>
    return %s : tensor<f32>
  }
}
