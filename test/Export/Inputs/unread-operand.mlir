// A kernel whose second operand nothing reads, and that no place of its results has.
!q = tensor<2x2x4x64xf32>
!m = tensor<4x64xf32>
!v = tensor<64xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @norm.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @norm [@norm.w] of ["norm"] over @mesh "dp" flat reshard_after_forward false
  fsdp.kernel @k exact {
  ^bb0(%x: !m, %q: !q):
    %y = aten.call "neg.default"(%x) fwd in "" : (!m) -> !m
    fsdp.yield %y : !m
  }
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %q = fsdp.input "q" : !q
    %y = fsdp.launch @k(%x, %q) fwd in <"norm"> : (!m, !q) -> !m
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!m) -> !s
    %g = aten.call "sum.dim_IntList"(%x, [0], false, none) bwd in "norm" : (!m) -> !v
    %d = fsdp.pack @norm(%g) : (!v) -> !fsdp.shard<@norm, f32>
    fsdp.update @norm with %d step %step lr %lr : !fsdp.shard<@norm, f32>
    return %loss : !s
  }
}
