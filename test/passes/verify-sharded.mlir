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
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S1: every parameter is in a group.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  // expected-error@below {{parameter @v is in no group}}
  fsdp.param @v : !m
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
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S1: all groups are over the mesh; a module has one.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  // expected-note@below {{the first one is here}}
  fsdp.mesh @mesh <dp = 2>
  // expected-error@below {{a module has one mesh}}
  fsdp.mesh @other <dp = 2>
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
    fsdp.update @l step %step lr %lr
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
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{group @l is gathered while it is gathered}}
    %u2 = fsdp.all_gather.start @l bwd on compute
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
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
    // expected-error@below {{group @l is gathered after its update}}
    %u2 = fsdp.all_gather.start @l bwd on compute
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
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    // expected-note@below {{waited for here}}
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{a gather is waited for twice}}
    %w2 = fsdp.all_gather.wait %u : !m
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S2: the wait comes before the release.
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
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start @l fwd on compute
    // expected-error@below {{group @l is released before its gather is waited for}}
    fsdp.release %u fwd
    %w = fsdp.all_gather.wait %u : !m
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S2: a gather is released once.
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
    // expected-note@below {{released here}}
    fsdp.release %u fwd
    // expected-error@below {{group @l is released twice}}
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S2: every gather is released; an update before that would change what is gathered.
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
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    // expected-error@below {{group @l is updated while it is gathered}}
    fsdp.update @l step %step lr %lr
    fsdp.release %u fwd
    return %loss : !s
  }
}

// -----

// S3: no use after the release.
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
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{released here}}
    fsdp.release %u fwd
    // expected-error@below {{parameter @w of group @l is used after its release, in module 'm'}}
    %y = aten.call "relu.default"(%w) bwd in "m" : (!m) -> !m
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S3: a view of a released parameter is no better.
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
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %t = aten.call "t.default"(%w) fwd in "l" : (!m) -> !m
    %v = aten.call "view.default"(%t, [16]) fwd in "l" : (!m) -> tensor<16xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{released here}}
    fsdp.release %u fwd
    // expected-error@below {{parameter @w of group @l is used after its release, in module 'm'}}
    %y = aten.call "relu.default"(%v) bwd in "m" : (tensor<16xf32>) -> !m
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
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
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %v = aten.call "relu.default"(%w) fwd in "l" : (!m) -> !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    %y = aten.call "relu.default"(%v) bwd in "m" : (!m) -> !m
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
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
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-error@below {{parameter @w is read; it is sharded over 2 ranks and must be gathered}}
    %full = fsdp.read @w : !m
    %u = fsdp.all_gather.start @l fwd on compute
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}
