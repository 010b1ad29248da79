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
    %d = fsdp.pack @l(%x) : (!m) -> !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
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
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-error@below {{S5: group @l is gathered, but each rank has all of it}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %d = fsdp.pack @l(%x) : (!m) -> !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
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
    // expected-error@below {{S5: group @l is reduced over shards, but each rank has all of it}}
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: on one rank the gradients of a group are packed once.
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
    // expected-note@below {{packed here}}
    %d = fsdp.pack @l(%x) : (!m) -> !fsdp.shard<@l, f32>
    // expected-error@below {{S4: the gradients of group @l are packed twice}}
    %d2 = fsdp.pack @l(%x) : (!m) -> !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: on one rank a group is updated with its gradients.
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
    // expected-error@below {{S4: group @l is updated without a gradient}}
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S4: on one rank, too, a group is updated with its gradient.
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
    // expected-note@below {{made here}}
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %d = fsdp.pack @l(%x) : (!m) -> !fsdp.shard<@l, f32>
    // expected-error@below {{S4: group @l is updated with a value that is not its gradient's average over all ranks (1)}}
    fsdp.update @l with %s step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S7: on one rank a parameter is read as it is declared.
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
    // expected-error@below {{S7: parameter @w is 'bf16' here, expected 'f32': a parameter that is whole on each rank is not gathered}}
    %w = fsdp.read @w : tensor<4x4xbf16>
    %loss = aten.call "sum.default"(%w, f32) fwd in "l" : (tensor<4x4xbf16>) -> !s
    %d = fsdp.pack @l(%x) : (!m) -> !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: gradients are divided by the group's factor.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true gradient_divide_factor 3.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{S4: the gradients of group @l are divided by 2, expected 3}}
    %d = fsdp.pack @l(%x) postdivide 2.0 : (!m) -> !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}
