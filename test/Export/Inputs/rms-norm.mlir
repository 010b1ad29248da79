// RMSNorm and its gradient, on one rank.
!m = tensor<4x64xf32>
!r = tensor<4x1xf32>
!v = tensor<64xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @norm.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @norm [@norm.w] of ["norm"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @norm.w : !v
    %square = aten.call "pow.Tensor_Scalar"(%x, 2) fwd in "norm" : (!m) -> !m
    %mean = aten.call "mean.dim"(%square, [-1], true, none) fwd in "norm" : (!m) -> !r
    %moved = aten.call "add.Scalar"(%mean, 1.0e-5, 1) fwd in "norm" : (!r) -> !r
    %root = aten.call "rsqrt.default"(%moved) fwd in "norm" : (!r) -> !r
    %scaled = aten.call "mul.Tensor"(%x, %root) fwd in "norm" : (!m, !r) -> !m
    %y = aten.call "mul.Tensor"(%scaled, %w) fwd in "norm" : (!m, !v) -> !m
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!m) -> !s
    %g = aten.call "sum.dim_IntList"(%x, [0], false, none) bwd in "norm" : (!m) -> !v
    %d = fsdp.pack @norm(%g) : (!v) -> !fsdp.shard<@norm, f32>
    fsdp.update @norm with %d step %step lr %lr : !fsdp.shard<@norm, f32>
    return %loss : !s
  }
}
