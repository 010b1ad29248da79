// RUN: fsdp-opt %s --split-input-file --fsdp-verify-sharded --verify-diagnostics --allow-unregistered-dialect

// On several replicas the norm is that of the ranks of one.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
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
    %part = fsdp.partial_norm 2(%f) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["shard"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %f step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: not over the replicas, which have the same gradients.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
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
    %part = fsdp.partial_norm 2(%f) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    // expected-error@below {{S8: reduces the gradients' norm by sum over ["replicate"], expected sum over ["shard"]}}
    %n = fsdp.all_reduce.start %part over ["replicate"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %f step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: parts of a norm are added up, not averaged.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %part = fsdp.partial_norm 2(%d) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    // expected-error@below {{S8: reduces the gradients' norm by avg over ["dp"], expected sum over ["dp"]}}
    %n = fsdp.all_reduce.start %part over ["dp"] avg bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: and the sum is the norm, not a part of it.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %part = fsdp.partial_norm 2(%d) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    // expected-error@below {{S8: reduces the gradients' norm by sum predivide 2 postdivide 4 over ["dp"], expected sum over ["dp"]}}
    %n = fsdp.all_reduce.start %part over ["dp"] sum predivide 2.0 postdivide 4.0 bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: no gradient counts twice.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    // expected-note@below {{the gradient is made here}}
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S8: the norm counts one gradient twice}}
    %part = fsdp.partial_norm 2(%d, %d) : (!fsdp.shard<@l, f32>, !fsdp.shard<@l, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: nothing but gradients counts.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    // expected-note@below {{made here}}
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S8: the norm has a gradient with which no group is updated}}
    %part = fsdp.partial_norm 2(%d, %s) : (!fsdp.shard<@l, f32>, !fsdp.shard<@l, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: a gradient that is not averaged over the replicas does not stand for one that is.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
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
    // expected-error@below {{S8: the norm lacks the gradient of group @l}}
    %part = fsdp.partial_norm 2(%d) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["shard"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    // expected-note@below {{updated here}}
    fsdp.update @l with %f step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: the factor is that of the gradients' norm, not of another tensor.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-note@below {{made here}}
    %part = fsdp.input "squares" : tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    // expected-error@below {{S8: takes what is not the result of a fsdp.partial_norm}}
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: updates take what is computed of the norm.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %clip = "other.factor"() : () -> f32
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S8: the update of @l takes its clip factor from elsewhere than a fsdp.clip_factor}}
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: they are added up in place, so nothing else takes this rank's alone.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-note@below {{the tensor is made here}}
    %part = fsdp.partial_norm 2(%d) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    // expected-error@below {{S4: a tensor that is used elsewhere is reduced in place}}
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %part : tensor<f64>
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: the sum over the ranks is waited for.
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
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %part = fsdp.partial_norm 2(%d) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    // expected-error@below {{S2: the reduction of a tensor is never waited for}}
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: the largest part of any rank is norm inf.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0 clip_norm_type = inf
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %part = fsdp.partial_norm inf(%d) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] max bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: parts of norm inf are not added up.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0 clip_norm_type = inf
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %part = fsdp.partial_norm inf(%d) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    // expected-error@below {{S8: reduces the gradients' norm by sum over ["dp"], expected max over ["dp"]}}
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: the norm is the one that the optimizer says.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  // expected-note@below {{the optimizer is declared here}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0 clip_norm_type = inf
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S8: has norm 2, but the optimizer clips by norm inf}}
    %part = fsdp.partial_norm 2(%d) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @l with %d step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S8: where groups are sharded over different numbers of ranks, it is that of all ranks.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.param @v : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  fsdp.mesh @whole <all = 4, one = 1>
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
  fsdp.group @k [@v] of ["k"] over @whole "one" replicated "all" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    %p = fsdp.pack @k(%x) : (!m) -> !fsdp.shard<@k, f32>
    %b = fsdp.all_reduce.start %p over ["all"] avg bwd on replicate : !fsdp.shard<@k, f32>
    %e = fsdp.all_reduce.wait %b : !fsdp.shard<@k, f32>
    %r = fsdp.reduce_scatter.start @l(%x) over ["shard"] avg bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    %part = fsdp.partial_norm 2(%e, %f) : (!fsdp.shard<@k, f32>, !fsdp.shard<@l, f32>) -> tensor<f64>
    // expected-error@below {{S8: reduces the gradients' norm by sum over ["shard"], expected sum over ["replicate", "shard"]}}
    %n = fsdp.all_reduce.start %part over ["shard"] sum bwd on reduce : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @k with %e step %step lr %lr clip %clip : !fsdp.shard<@k, f32>
    fsdp.update @l with %f step %step lr %lr clip %clip : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S5: a group that lies whole on each rank is not gathered, though another one is.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.param @v : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 4>
  // expected-note@below {{the mesh is declared here}}
  fsdp.mesh @whole <all = 4, one = 1>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @k [@v] of ["k"] over @whole "one" replicated "all" flat reshard_after_forward true
  func.func @step() -> !s {
    %t = fsdp.shard @k : !fsdp.shard<@k, f32>
    // expected-error@below {{S5: group @k is gathered, but each rank has all of it}}
    %u = fsdp.all_gather.start %t over ["one"] fwd on gather : !fsdp.shard<@k, f32>
    %y = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%y, none) fwd in "k" : (!m) -> !s
    return %loss : !s
  }
}
