// RUN: fsdp-opt %s --split-input-file --fsdp-verify-sharded --verify-diagnostics

// S4: gradients are reduced once.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    // expected-note@below {{reduced here}}
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    // expected-error@below {{the gradients of group @l are reduced twice}}
    %r2 = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    return %loss : !s
  }
}

// -----

// S4: a reduction is waited for.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    // expected-note@below {{reduced here}}
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    // expected-error@below {{group @l is updated before the wait for its reduction}}
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S4: a reduction is waited for once.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    // expected-note@below {{waited for here}}
    fsdp.reduce_scatter.wait %r
    // expected-error@below {{the reduction of group @l is waited for twice}}
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S4: a group is updated.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  // expected-error@below {{group @l is never updated}}
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    return %loss : !s
  }
}

// -----

// S4: a group is updated once.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    // expected-note@below {{updated here}}
    fsdp.update @l step %step lr %lr
    // expected-error@below {{group @l is updated twice}}
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S4: groups are updated, not parameters.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    // expected-error@below {{parameter @w is updated; a sharded step updates groups}}
    fsdp.update @w step %step lr %lr
    return %loss : !s
  }
}

// -----

// S4: a reduction without a wait and without an update.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    // expected-error@below {{the reduction of group @l is never waited for}}
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    return %loss : !s
  }
}

// -----

// S5: no gradient is left without a reduction.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  // expected-note@below {{the mesh is declared here}}
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    // expected-error@below {{the gradient of parameter @w is not reduced over 2 ranks}}
    fsdp.grad @w, %x : !m
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S4: gradients are reduced.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  // expected-error@below {{the gradients of group @l are never reduced}}
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    return %loss : !s
  }
}
