// RUN: fsdp-opt %s --split-input-file --fsdp-verify-sharded --verify-diagnostics

// On one rank parameters are read, and gradients are there before the update.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.grad @w, %x : !m
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S5: nothing is gathered on one rank.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  // expected-note@below {{the mesh is declared here}}
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-error@below {{group @l is gathered on a mesh of one rank}}
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    fsdp.grad @w, %x : !m
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S5: nothing is reduced on one rank.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  // expected-note@below {{the mesh is declared here}}
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.grad @w, %x : !m
    // expected-error@below {{group @l is reduced on a mesh of one rank}}
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S4: on one rank a parameter has one gradient.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{the first one is here}}
    fsdp.grad @w, %x : !m
    // expected-error@below {{parameter @w has two gradients}}
    fsdp.grad @w, %x : !m
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S4: on one rank a group is updated when its gradients are there.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  // expected-note@below {{the parameter is declared here}}
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{group @l is updated before parameter @w has its gradient}}
    fsdp.update @l step %step lr %lr
    fsdp.grad @w, %x : !m
    return %loss : !s
  }
}
