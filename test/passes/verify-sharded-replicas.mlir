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
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    %a = fsdp.all_reduce.start @l after %r bwd on replicate
    fsdp.all_reduce.wait %a
    fsdp.update @l step %step lr %lr
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
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    // expected-note@below {{reduced here}}
    %a = fsdp.all_reduce.start @l after %r bwd on replicate
    // expected-error@below {{group @l is updated before the wait for its reduction over the replicas}}
    fsdp.update @l step %step lr %lr
    fsdp.all_reduce.wait %a
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
  // expected-note@below {{declared here}}
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    // expected-error@below {{group @l is updated before the wait for its reduction over the replicas}}
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  // expected-error@below {{the gradients of group @l are never reduced over the 2 replicas}}
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
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
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    // expected-note@below {{reduced here}}
    %a = fsdp.all_reduce.start @l after %r bwd on replicate
    // expected-error@below {{the gradients of group @l are reduced over the replicas twice}}
    %b = fsdp.all_reduce.start @l after %r bwd on replicate
    fsdp.all_reduce.wait %a
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}

// -----

// S4: the wait for it is there, once.
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
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    // expected-error@below {{the reduction of group @l over the replicas is never waited for}}
    %a = fsdp.all_reduce.start @l after %r bwd on replicate
    return %loss : !s
  }
}

// -----

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
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    %a = fsdp.all_reduce.start @l after %r bwd on replicate
    // expected-note@below {{waited for here}}
    fsdp.all_reduce.wait %a
    // expected-error@below {{the reduction of group @l over the replicas is waited for twice}}
    fsdp.all_reduce.wait %a
    fsdp.update @l step %step lr %lr
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
  fsdp.mesh @mesh <shard = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "shard" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) bwd on reduce : !m
    fsdp.reduce_scatter.wait %r
    // expected-error@below {{group @l is reduced over replicas on a mesh without}}
    %a = fsdp.all_reduce.start @l after %r bwd on replicate
    fsdp.all_reduce.wait %a
    fsdp.update @l step %step lr %lr
    return %loss : !s
  }
}
