// RUN: fsdp-opt %s --split-input-file --fsdp-verify-scheduled --verify-diagnostics --allow-unregistered-dialect

// A whole step holds.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on gather
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// All that a sharded step must keep: here S3.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start @l fwd on gather
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{released here}}
    fsdp.release %u fwd
    // expected-error@below {{parameter @w of group @l is used after its release}}
    %y = aten.call "relu.default"(%w) bwd in "m" : (!m) -> !m
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// D1: no operation of the step has a region.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on gather
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{a scheduled step is one block: 'test.if' has a region, whose operations ranks could run differently}}
    "test.if"() ({}) : () -> ()
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// D2: gathers are on the gather stream.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-error@below {{'fsdp.all_gather.start' of group @l is on stream reduce, expected gather; run fsdp-assign-streams}}
    %u = fsdp.all_gather.start @l fwd on reduce
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// D2: reductions are on the reduce stream.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on gather
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    // expected-error@below {{'fsdp.reduce_scatter.start' of group @l is on stream compute, expected reduce; run fsdp-assign-streams}}
    %r = fsdp.reduce_scatter.start @l(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// D3: an update comes after the wait for its reduction.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start @l fwd on gather
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    // expected-note@below {{reduced here}}
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    // expected-error@below {{group @l is updated before the wait for its reduction}}
    fsdp.update @l step %step lr %lr
    fsdp.reduce_scatter.wait %r
    return %loss : !s
  }
}

// -----

// D3: a release comes after the wait for its gather.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
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
    %u = fsdp.all_gather.start @l fwd on gather
    // expected-error@below {{group @l is released before its gather is waited for}}
    fsdp.release %u fwd
    %w = fsdp.all_gather.wait %u : !m
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// D2, D4: reductions may all share the gathers' stream, and starts in a row be one launch.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @k [@v] of ["k"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %uk = fsdp.all_gather.start @k fwd on gather
    %ul = fsdp.all_gather.start @l fwd on gather coalesced
    %v = fsdp.all_gather.wait %uk : !m
    %w = fsdp.all_gather.wait %ul : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %uk fwd
    fsdp.release %ul fwd
    %rk = fsdp.reduce_scatter.start @k(%x) bwd on gather : !m
    %rl = fsdp.reduce_scatter.start @l(%x) bwd on gather coalesced : !m
    fsdp.reduce_scatter.wait %rk
    fsdp.reduce_scatter.wait %rl
    fsdp.update @k step %step lr %lr
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// D2: not one reduction here and another there.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @k [@v] of ["k"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %rk = fsdp.reduce_scatter.start @k(%x) bwd on gather : !m
    // expected-error@below {{'fsdp.reduce_scatter.start' of group @l is on stream reduce, expected gather}}
    %rl = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %rk
    fsdp.reduce_scatter.wait %rl
    fsdp.update @k step %step lr %lr
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// D4: a coalesced start stands directly behind the start that it is launched with.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{'aten.call' is before it}}
    %y = aten.call "relu.default"(%x) fwd in "" : (!m) -> !m
    // expected-error@below {{'fsdp.all_gather.start' of group @l is coalesced, but no 'fsdp.all_gather.start' on stream gather is directly before it}}
    %u = fsdp.all_gather.start @l fwd on gather coalesced
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.release %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// D2: reductions over replicas have a stream of their own.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    // expected-error@below {{'fsdp.all_reduce.start' of group @l is on stream reduce, expected replicate; run fsdp-assign-streams}}
    %a = fsdp.all_reduce.start @l after %r bwd on reduce
    fsdp.all_reduce.wait %a
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// D4: one that is coalesced stands behind another.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    // expected-note@below {{'fsdp.reduce_scatter.wait' is before it}}
    fsdp.reduce_scatter.wait %r
    // expected-error@below {{'fsdp.all_reduce.start' of group @l is coalesced, but no 'fsdp.all_reduce.start' on stream replicate is directly before it}}
    %a = fsdp.all_reduce.start @l after %r bwd on replicate coalesced
    fsdp.all_reduce.wait %a
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}
