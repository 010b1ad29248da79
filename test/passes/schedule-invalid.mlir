// RUN: fsdp-opt %s --split-input-file --fsdp-schedule --verify-diagnostics

// expected-error@below {{fsdp-schedule takes a module of phase sharded, got captured}}
module {
  func.func @step() -> tensor<f32> {
    %loss = fsdp.input "x" : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A reduction without an update cannot be put into order.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @l.w : !m
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %u0 = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %loss = aten.call "sum.default"(%w0, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u0 bwd
    // expected-error@below {{the reduction of group @l has no update after it}}
    %r0 = fsdp.reduce_scatter.start @l(%w0) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}
