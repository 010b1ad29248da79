// RUN: fsdp-opt %s --split-input-file --fsdp-verify-sharded --verify-diagnostics

// A reduction over the replicas is waited for before the update.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
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
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    fsdp.update @l with %f step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: a shard that is not averaged over the replicas must not be used.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
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
    // expected-note@below {{made here}}
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    // expected-error@below {{S4: group @l is updated with a value that is not its gradient's average over all ranks (4)}}
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: gradients are reduced over the replicas.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
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
    // expected-note@below {{made here}}
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S4: group @l is updated with a value that is not its gradient's average over all ranks (4)}}
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: they are reduced over them even where nothing is updated.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  // expected-error@below {{S4: the gradients of group @l are never reduced over the 2 replicas}}
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["shard"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: they are once.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
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
    // expected-note@below {{reduced here}}
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    // expected-error@below {{S4: the gradients of group @l are reduced over the replicas twice}}
    %b = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    %g = fsdp.all_reduce.wait %b : !fsdp.shard<@l, f32>
    fsdp.update @l with %f step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: the wait for it is there.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
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
    // expected-error@below {{S2: the reduction of group @l over the replicas is never waited for}}
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    return %loss : !s
  }
}

// -----

// S2: it is there once.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
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
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    // expected-note@below {{waited for here}}
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    // expected-error@below {{S2: the reduction of group @l over the replicas is waited for twice}}
    %f2 = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    fsdp.update @l with %f2 step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S5: one replica has nobody to reduce with.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  // expected-note@below {{the mesh is declared here}}
  fsdp.mesh @mesh <replicate = 1, shard = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["shard"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S5: group @l is reduced over replicas on a mesh without}}
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    fsdp.update @l with %f step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: over the replicas, too, gradients are averaged.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
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
    // expected-error@below {{S4: the gradients of group @l are reduced over the replicas by sum, expected avg}}
    %a = fsdp.all_reduce.start %r over ["replicate"] sum bwd on replicate : !fsdp.handle
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    fsdp.update @l with %f step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: a group is not updated with its parameters for a gradient.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{made here}}
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %r = fsdp.reduce_scatter.start @l(%x) over ["shard"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    // expected-error@below {{S4: group @l is updated with a value that is not its gradient's average over all ranks (4)}}
    fsdp.update @l with %s step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: a reduction that another one goes on with is waited for, too: it reads the gradients.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{S2: the reduction of group @l is never waited for}}
    %r = fsdp.reduce_scatter.start @l(%x) over ["shard"] avg bwd on reduce : !m
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    fsdp.update @l with %f step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}
