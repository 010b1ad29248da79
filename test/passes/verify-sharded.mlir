// RUN: fsdp-opt %s --split-input-file --fsdp-verify-sharded --verify-diagnostics

// A whole step holds.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: a group is not gathered while it is gathered.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{S2: group @l is gathered while it is gathered}}
    %u2 = fsdp.all_gather.start %s over ["dp"] bwd on compute : !fsdp.shard<@l, f32>
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: a group is not gathered after its update.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-note@below {{updated here}}
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    // expected-error@below {{S2: group @l is gathered after its update}}
    %u2 = fsdp.all_gather.start %s over ["dp"] bwd on compute : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: a gather is waited for once.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    // expected-note@below {{waited for here}}
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{S2: the gather of group @l is waited for twice}}
    %w2 = fsdp.all_gather.wait %u : !m
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: the wait comes before the reshard.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    // expected-error@below {{S2: group @l is resharded before its gather is waited for}}
    fsdp.reshard %u fwd
    %w = fsdp.all_gather.wait %u : !m
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: a gather is resharded once.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{resharded here}}
    fsdp.reshard %u fwd
    // expected-error@below {{S2: group @l is resharded twice}}
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: every gather is resharded; an update before that would change what is gathered.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S2: group @l is updated while it is gathered}}
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    fsdp.reshard %u fwd
    return %loss : !s
  }
}

// -----

// S3: no use after the reshard.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{resharded here}}
    fsdp.reshard %u fwd
    // expected-error@below {{S3: parameter @w of group @l is used after its reshard, in module 'm'}}
    %y = aten.call "relu.default"(%w) bwd in "m" : (!m) -> !m
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S3: a view of a resharded parameter is no better.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %t = aten.call "t.default"(%w) fwd in "l" : (!m) -> !m
    %v = aten.call "view.default"(%t, [16]) fwd in "l" : (!m) -> tensor<16xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{resharded here}}
    fsdp.reshard %u fwd
    // expected-error@below {{S3: parameter @w of group @l is used after its reshard, in module 'm'}}
    %y = aten.call "relu.default"(%v) bwd in "m" : (tensor<16xf32>) -> !m
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S3: what an operation computes from a parameter may be used.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %v = aten.call "relu.default"(%w) fwd in "l" : (!m) -> !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %y = aten.call "relu.default"(%v) bwd in "m" : (!m) -> !m
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S5: a sharded parameter is not read.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  // expected-note@below {{the mesh is declared here}}
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-error@below {{S5: parameter @w is read; it is sharded over 2 ranks and must be gathered}}
    %full = fsdp.read @w : !m
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: a gather is waited for.
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
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    // expected-error@below {{S2: the gather of group @l is never waited for}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: what is gathered is the group's shard of parameters, not that of gradients.
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
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    // expected-note@below {{made here}}
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S2: group @l is gathered from a value that is not its shard of parameters}}
    %u = fsdp.all_gather.start %d over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    fsdp.reshard %u fwd
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}
