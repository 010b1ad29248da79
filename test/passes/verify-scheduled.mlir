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
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
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
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{gathered here}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{resharded here}}
    fsdp.reshard %u fwd
    // expected-error@below {{S3: parameter @w of group @l is used after its reshard}}
    %y = aten.call "relu.default"(%w) bwd in "m" : (!m) -> !m
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
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
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{D1: a scheduled step is one block: 'test.if' has a region, whose operations ranks could run differently}}
    "test.if"() ({}) : () -> ()
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// D1: nothing is known of operations of other dialects.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  func.func @step() -> !s {
    %x = fsdp.input "x" : !s
    // expected-error@below {{D1: 'test.log' is no operation of the dialects 'aten' and 'fsdp'}}
    "test.log"(%x) : (!s) -> ()
    return %x : !s
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
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-error@below {{D2: 'fsdp.all_gather.start' of group @l is on stream reduce, expected gather; run fsdp-assign-streams}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on reduce : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
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
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    // expected-error@below {{D2: 'fsdp.reduce_scatter.start' of group @l is on stream compute, expected reduce; run fsdp-assign-streams}}
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: an update takes what the wait for its reduction yields.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    // expected-error@below {{S4: group @l is updated without a gradient}}
    fsdp.update @l step %step lr %lr
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: a reshard comes after the wait for its gather.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
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
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    // expected-error@below {{S2: group @l is resharded before its gather is waited for}}
    fsdp.reshard %u fwd
    %w = fsdp.all_gather.wait %u : !m
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// D2, D3: reductions may all share the gathers' stream, and starts in a row be one launch.
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
    %sk = fsdp.shard @k : !fsdp.shard<@k, f32>
    %sl = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %uk = fsdp.all_gather.start %sk over ["dp"] fwd on gather : !fsdp.shard<@k, f32>
    %ul = fsdp.all_gather.start %sl over ["dp"] fwd on gather coalesced : !fsdp.shard<@l, f32>
    %v = fsdp.all_gather.wait %uk : !m
    %w = fsdp.all_gather.wait %ul : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %uk fwd
    fsdp.reshard %ul fwd
    %rk = fsdp.reduce_scatter.start @k(%x) over ["dp"] avg bwd on gather : !m
    %rl = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on gather coalesced : !m
    %dk = fsdp.reduce_scatter.wait %rk : !fsdp.shard<@k, f32>
    %dl = fsdp.reduce_scatter.wait %rl : !fsdp.shard<@l, f32>
    fsdp.update @k with %dk step %step lr %lr : !fsdp.shard<@k, f32>
    fsdp.update @l with %dl step %step lr %lr : !fsdp.shard<@l, f32>
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
    %rk = fsdp.reduce_scatter.start @k(%x) over ["dp"] avg bwd on gather : !m
    // expected-error@below {{D2: 'fsdp.reduce_scatter.start' of group @l is on stream reduce, expected gather}}
    %rl = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    %dk = fsdp.reduce_scatter.wait %rk : !fsdp.shard<@k, f32>
    %dl = fsdp.reduce_scatter.wait %rl : !fsdp.shard<@l, f32>
    fsdp.update @k with %dk step %step lr %lr : !fsdp.shard<@k, f32>
    fsdp.update @l with %dl step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// D3: a coalesced start stands directly behind the start that it is launched with.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{'aten.call' is before it}}
    %y = aten.call "relu.default"(%x) fwd in "" : (!m) -> !m
    // expected-error@below {{D3: 'fsdp.all_gather.start' of group @l is coalesced, but no 'fsdp.all_gather.start' on stream gather is directly before it}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather coalesced : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
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
    %r = fsdp.reduce_scatter.start @l(%x) over ["shard"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{D2: 'fsdp.all_reduce.start' of group @l is on stream reduce, expected replicate; run fsdp-assign-streams}}
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on reduce : !fsdp.handle
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    fsdp.update @l with %f step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// D3: one that is coalesced stands behind another.
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
    %r = fsdp.reduce_scatter.start @l(%x) over ["shard"] avg bwd on reduce : !m
    // expected-note@below {{'fsdp.reduce_scatter.wait' is before it}}
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{D3: 'fsdp.all_reduce.start' of group @l is coalesced, but no 'fsdp.all_reduce.start' on stream replicate is directly before it}}
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate coalesced : !fsdp.handle
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    fsdp.update @l with %f step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// D2: the gradients' norm shares the reductions' communicator.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %part = fsdp.partial_norm 2(%d) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    // expected-error@below {{D2: 'fsdp.all_reduce.start' is on stream replicate, expected reduce; run fsdp-assign-streams}}
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on replicate : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// D3: a launch has starts of one kind.
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
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    // expected-note@below {{'fsdp.all_gather.start' is before it}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    // expected-error@below {{D3: 'fsdp.reduce_scatter.start' of group @l is coalesced, but no 'fsdp.reduce_scatter.start' on stream gather is directly before it}}
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on gather coalesced : !m
    %w = fsdp.all_gather.wait %u : !m
    fsdp.reshard %u fwd
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// D2: a schedule has decided by what each gather goes.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-error@below {{D2: 'fsdp.all_gather.start' of group @l has transport auto, expected the transport that the schedule decided}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather by auto : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// D3: one launch is by one transport.
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
    %sk = fsdp.shard @k : !fsdp.shard<@k, f32>
    %sl = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{'fsdp.all_gather.start' of group @k starts here}}
    %uk = fsdp.all_gather.start %sk over ["dp"] fwd on gather : !fsdp.shard<@k, f32>
    // expected-error@below {{D3: 'fsdp.all_gather.start' of group @l goes by copy_engine, but is coalesced with one that goes by kernels}}
    %ul = fsdp.all_gather.start %sl over ["dp"] fwd on gather by copy_engine coalesced : !fsdp.shard<@l, f32>
    %v = fsdp.all_gather.wait %uk : !m
    %w = fsdp.all_gather.wait %ul : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %uk fwd
    fsdp.reshard %ul fwd
    %rk = fsdp.reduce_scatter.start @k(%x) over ["dp"] avg bwd on reduce : !m
    %rl = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce coalesced : !m
    %dk = fsdp.reduce_scatter.wait %rk : !fsdp.shard<@k, f32>
    %dl = fsdp.reduce_scatter.wait %rl : !fsdp.shard<@l, f32>
    fsdp.update @k with %dk step %step lr %lr : !fsdp.shard<@k, f32>
    fsdp.update @l with %dl step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}
