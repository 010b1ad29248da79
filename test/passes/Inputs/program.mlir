// A planned program of a training step and an evaluation.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  module @step attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
    fsdp.param @fc.weight : tensor<8x8xf32>
    fsdp.buffer @scale : tensor<8xf32> at 640
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
    fsdp.mesh @mesh <dp = 2>
    fsdp.group @root [@fc.weight] of [""] over @mesh "dp" flat reshard_after_forward none at shard 512
    func.func @step() -> tensor<f32> {
      %x = fsdp.input "x" at 832 : tensor<2x8xf32>
      %step = fsdp.input "step" : i64
      %lr = fsdp.input "lr" : f64
      %s = fsdp.shard @root : !fsdp.shard<@root, f32>
      %u = fsdp.all_gather.start %s over ["dp"] fwd on gather at 0 : !fsdp.shard<@root, f32>
      %w = fsdp.all_gather.wait %u : tensor<8x8xf32>
      %t = aten.call "t.default"(%w) fwd in "fc" : (tensor<8x8xf32>) -> tensor<8x8xf32, #aten.strides<[1, 8]>>
      %mm = aten.call "mm.default"(%x, %t) fwd in "fc" at [256] : (tensor<2x8xf32>, tensor<8x8xf32, #aten.strides<[1, 8]>>) -> tensor<2x8xf32>
      %scale = fsdp.read @scale : tensor<8xf32>
      %mul = aten.call "mul.Tensor"(%mm, %scale) fwd in "" at [320] : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
      %constant = aten.constant dense<2.0> : tensor<8xf32> at 704
      %add = aten.call "add.Tensor"(%mul, %constant, 1) fwd in "" at [256] : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
      %sum = aten.call "sum.default"(%add, none) fwd in "" at [896] : (tensor<2x8xf32>) -> tensor<f32>
      %ones_like = aten.call "ones_like.default"(%sum, none, none, none, none, #aten.memory_format<contiguous>) bwd in "" at [256] : (tensor<f32>) -> tensor<f32>
      %expand = aten.call "expand.default"(%ones_like, [2, 8], false) bwd in "" : (tensor<f32>) -> tensor<2x8xf32, #aten.strides<[0, 0]>>
      %mul_0 = aten.call "mul.Tensor"(%expand, %scale) bwd in "" at [960] : (tensor<2x8xf32, #aten.strides<[0, 0]>>, tensor<8xf32>) -> tensor<2x8xf32>
      %t_1 = aten.call "t.default"(%mul_0) bwd in "fc" : (tensor<2x8xf32>) -> tensor<8x2xf32, #aten.strides<[1, 8]>>
      %mm_2 = aten.call "mm.default"(%t_1, %x) bwd in "fc" at [256] : (tensor<8x2xf32, #aten.strides<[1, 8]>>, tensor<2x8xf32>) -> tensor<8x8xf32>
      %t_3 = aten.call "t.default"(%mm_2) bwd in "fc" : (tensor<8x8xf32>) -> tensor<8x8xf32, #aten.strides<[1, 8]>>
      %t_4 = aten.call "t.default"(%t_3) bwd in "fc" : (tensor<8x8xf32, #aten.strides<[1, 8]>>) -> tensor<8x8xf32>
      fsdp.reshard %u bwd
      %r = fsdp.reduce_scatter.start @root(%t_4) over ["dp"] avg bwd on reduce at [256, 0] : tensor<8x8xf32>
      %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@root, f32>
      fsdp.update @root with %d step %step lr %lr : !fsdp.shard<@root, f32>
      return %sum : tensor<f32>
    }
  }
  module @evaluate attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
    fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
    fsdp.param @fc.weight : tensor<8x8xf32>
    fsdp.buffer @scale : tensor<8xf32> at 640
    fsdp.mesh @mesh <dp = 2>
    fsdp.group @root [@fc.weight] of [""] over @mesh "dp" flat reshard_after_forward none at shard 512
    func.func @evaluate() -> tensor<f32> {
      %x = fsdp.input "x" at 256 : tensor<2x8xf32>
      %s = fsdp.shard @root : !fsdp.shard<@root, f32>
      %u = fsdp.all_gather.start %s over ["dp"] fwd on gather at 0 : !fsdp.shard<@root, f32>
      %w = fsdp.all_gather.wait %u : tensor<8x8xf32>
      %t = aten.call "t.default"(%w) fwd in "fc" : (tensor<8x8xf32>) -> tensor<8x8xf32, #aten.strides<[1, 8]>>
      %mm = aten.call "mm.default"(%x, %t) fwd in "fc" at [320] : (tensor<2x8xf32>, tensor<8x8xf32, #aten.strides<[1, 8]>>) -> tensor<2x8xf32>
      %scale = fsdp.read @scale : tensor<8xf32>
      %mul = aten.call "mul.Tensor"(%mm, %scale) fwd in "" at [384] : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
      %constant = aten.constant dense<2.0> : tensor<8xf32> at 768
      %add = aten.call "add.Tensor"(%mul, %constant, 1) fwd in "" at [448] : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
      %sum = aten.call "sum.default"(%add, none) fwd in "" at [320] : (tensor<2x8xf32>) -> tensor<f32>
      fsdp.reshard %u fwd
      return %sum : tensor<f32>
    }
  }
}
