// RUN: fsdp-opt %s -fsdp-plan-memory -fsdp-verify-planned | FileCheck %s
// RUN: fsdp-opt %s -fsdp-plan-memory | fsdp-compile --emit plan | FileCheck %s --check-prefix=PLAN

// Both steps have their state in one place, their constants in places of their own, and everything
// else where the other step may have something, too.
// CHECK: module attributes {fsdp.arena_bytes = [[ARENA:[0-9]+]] : i64
// CHECK: module @step attributes {fsdp.arena_bytes = [[ARENA]] : i64
// CHECK: fsdp.buffer @scale : tensor<8xf32> at [[SCALE:[0-9]+]]
// CHECK: fsdp.group @root {{.*}} at shard [[SHARD:[0-9]+]]{{$}}
// CHECK: all_gather.start {{.*}} at [[GATHERED:[0-9]+]] :
// CHECK: module @evaluate attributes {fsdp.arena_bytes = [[ARENA]] : i64
// CHECK: fsdp.buffer @scale : tensor<8xf32> at [[SCALE]]
// CHECK: fsdp.group @root {{.*}} at shard [[SHARD]]{{$}}
// CHECK: all_gather.start {{.*}} at [[GATHERED]] :

// PLAN: plan of "", ABI
// PLAN: optimizer sgd
// PLAN: update
// PLAN: evaluation of "", ABI
// PLAN-NOT: optimizer
// PLAN: all_gather
// PLAN-NOT: update
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  module @step attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
    fsdp.param @fc.weight : tensor<8x8xf32>
    fsdp.buffer @scale : tensor<8xf32>
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
    fsdp.mesh @mesh <dp = 2>
    fsdp.group @root [@fc.weight] of [""] over @mesh "dp" flat reshard_after_forward none
    func.func @step() -> tensor<f32> {
      %x = fsdp.input "x" : tensor<2x8xf32>
      %step = fsdp.input "step" : i64
      %lr = fsdp.input "lr" : f64
      %s = fsdp.shard @root : !fsdp.shard<@root, f32>
      %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@root, f32>
      %w = fsdp.all_gather.wait %u : tensor<8x8xf32>
      %t = aten.call "t.default"(%w) fwd in "fc" : (tensor<8x8xf32>) -> tensor<8x8xf32, #aten.strides<[1, 8]>>
      %mm = aten.call "mm.default"(%x, %t) fwd in "fc" : (tensor<2x8xf32>, tensor<8x8xf32, #aten.strides<[1, 8]>>) -> tensor<2x8xf32>
      %scale = fsdp.read @scale : tensor<8xf32>
      %mul = aten.call "mul.Tensor"(%mm, %scale) fwd in "" : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
      %constant = aten.constant dense<2.0> : tensor<8xf32>
      %add = aten.call "add.Tensor"(%mul, %constant, 1) fwd in "" : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
      %sum = aten.call "sum.default"(%add, none) fwd in "" : (tensor<2x8xf32>) -> tensor<f32>
      %ones_like = aten.call "ones_like.default"(%sum, none, none, none, none, #aten.memory_format<contiguous>) bwd in "" : (tensor<f32>) -> tensor<f32>
      %expand = aten.call "expand.default"(%ones_like, [2, 8], false) bwd in "" : (tensor<f32>) -> tensor<2x8xf32, #aten.strides<[0, 0]>>
      %mul_0 = aten.call "mul.Tensor"(%expand, %scale) bwd in "" : (tensor<2x8xf32, #aten.strides<[0, 0]>>, tensor<8xf32>) -> tensor<2x8xf32>
      %t_1 = aten.call "t.default"(%mul_0) bwd in "fc" : (tensor<2x8xf32>) -> tensor<8x2xf32, #aten.strides<[1, 8]>>
      %mm_2 = aten.call "mm.default"(%t_1, %x) bwd in "fc" : (tensor<8x2xf32, #aten.strides<[1, 8]>>, tensor<2x8xf32>) -> tensor<8x8xf32>
      %t_3 = aten.call "t.default"(%mm_2) bwd in "fc" : (tensor<8x8xf32>) -> tensor<8x8xf32, #aten.strides<[1, 8]>>
      %t_4 = aten.call "t.default"(%t_3) bwd in "fc" : (tensor<8x8xf32, #aten.strides<[1, 8]>>) -> tensor<8x8xf32>
      fsdp.reshard %u bwd
      %r = fsdp.reduce_scatter.start @root(%t_4) over ["dp"] avg bwd on reduce : tensor<8x8xf32>
      %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@root, f32>
      fsdp.update @root with %d step %step lr %lr : !fsdp.shard<@root, f32>
      return %sum : tensor<f32>
    }
  }
  module @evaluate attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
    fsdp.param @fc.weight : tensor<8x8xf32>
    fsdp.buffer @scale : tensor<8xf32>
    fsdp.mesh @mesh <dp = 2>
    fsdp.group @root [@fc.weight] of [""] over @mesh "dp" flat reshard_after_forward none
    func.func @evaluate() -> tensor<f32> {
      %x = fsdp.input "x" : tensor<2x8xf32>
      %s = fsdp.shard @root : !fsdp.shard<@root, f32>
      %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@root, f32>
      %w = fsdp.all_gather.wait %u : tensor<8x8xf32>
      %t = aten.call "t.default"(%w) fwd in "fc" : (tensor<8x8xf32>) -> tensor<8x8xf32, #aten.strides<[1, 8]>>
      %mm = aten.call "mm.default"(%x, %t) fwd in "fc" : (tensor<2x8xf32>, tensor<8x8xf32, #aten.strides<[1, 8]>>) -> tensor<2x8xf32>
      %scale = fsdp.read @scale : tensor<8xf32>
      %mul = aten.call "mul.Tensor"(%mm, %scale) fwd in "" : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
      %constant = aten.constant dense<2.0> : tensor<8xf32>
      %add = aten.call "add.Tensor"(%mul, %constant, 1) fwd in "" : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
      %sum = aten.call "sum.default"(%add, none) fwd in "" : (tensor<2x8xf32>) -> tensor<f32>
      fsdp.reshard %u fwd
      return %sum : tensor<f32>
    }
  }
}
