// Elementwise operators before and behind a gather, on two ranks.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %0 = aten.call "mul.Tensor"(%x, 2.0) fwd in "l" : (!m) -> !m
    %1 = aten.call "add.Tensor"(%0, %x, 1) fwd in "l" : (!m, !m) -> !m
    %2 = aten.call "sigmoid.default"(%1) fwd in "l" : (!m) -> !m
    %w0 = fsdp.all_gather.wait %u0 : !m
    %3 = aten.call "mul.Tensor"(%2, %w0) fwd in "l" : (!m, !m) -> !m
    %4 = aten.call "neg.default"(%3) fwd in "l" : (!m) -> !m
    %loss = aten.call "sum.default"(%4, none) fwd in "l" : (!m) -> !s
    %g0 = aten.call "mm.default"(%w0, %w0) bwd in "l" : (!m, !m) -> !m
    fsdp.reshard %u0 bwd
    %r0 = fsdp.reduce_scatter.start @l(%g0) over ["dp"] avg bwd on reduce : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    fsdp.update @l with %d0 step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}
