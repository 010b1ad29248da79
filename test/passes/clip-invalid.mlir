// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-verify-sharded

// S8: a whole step that clips holds.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %rb = fsdp.reduce_scatter.start @b(%x) over ["dp"] avg bwd on compute : !m
    %db = fsdp.reduce_scatter.wait %rb : !fsdp.shard<@b, f32>
    %part = fsdp.partial_norm 2(%da, %db) : (!fsdp.shard<@a, f32>, !fsdp.shard<@b, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @a with %da step %step lr %lr clip %clip : !fsdp.shard<@a, f32>
    fsdp.update @b with %db step %step lr %lr clip %clip : !fsdp.shard<@b, f32>
    return %loss : !s
  }
}

// -----

// S8: all updates take the factor.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  // expected-note@below {{the optimizer is declared here}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %rb = fsdp.reduce_scatter.start @b(%x) over ["dp"] avg bwd on compute : !m
    %db = fsdp.reduce_scatter.wait %rb : !fsdp.shard<@b, f32>
    %part = fsdp.partial_norm 2(%da, %db) : (!fsdp.shard<@a, f32>, !fsdp.shard<@b, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    // expected-error@below {{S8: the update of @a takes no clip factor, but the optimizer clips}}
    fsdp.update @a with %da step %step lr %lr : !fsdp.shard<@a, f32>
    fsdp.update @b with %db step %step lr %lr clip %clip : !fsdp.shard<@b, f32>
    return %loss : !s
  }
}

// -----

// S8: without clipping none does.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  // expected-note@below {{the optimizer is declared here}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %rb = fsdp.reduce_scatter.start @b(%x) over ["dp"] avg bwd on compute : !m
    %db = fsdp.reduce_scatter.wait %rb : !fsdp.shard<@b, f32>
    %part = fsdp.partial_norm 2(%da, %db) : (!fsdp.shard<@a, f32>, !fsdp.shard<@b, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    // expected-error@below {{S8: the update of @a takes a clip factor, but the optimizer has no 'clip_grad_norm'}}
    fsdp.update @a with %da step %step lr %lr clip %clip : !fsdp.shard<@a, f32>
    fsdp.update @b with %db step %step lr %lr clip %clip : !fsdp.shard<@b, f32>
    return %loss : !s
  }
}

// -----

// S8: the norm is that of all gradients.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    // expected-error@below {{S8: the norm lacks the gradient of group @b}}
    %part = fsdp.partial_norm 2(%da) : (!fsdp.shard<@a, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    %rb = fsdp.reduce_scatter.start @b(%x) over ["dp"] avg bwd on compute : !m
    %db = fsdp.reduce_scatter.wait %rb : !fsdp.shard<@b, f32>
    fsdp.update @a with %da step %step lr %lr clip %clip : !fsdp.shard<@a, f32>
    // expected-note@below {{updated here}}
    fsdp.update @b with %db step %step lr %lr clip %clip : !fsdp.shard<@b, f32>
    return %loss : !s
  }
}

// -----

// S8: of all ranks.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %rb = fsdp.reduce_scatter.start @b(%x) over ["dp"] avg bwd on compute : !m
    %db = fsdp.reduce_scatter.wait %rb : !fsdp.shard<@b, f32>
    // expected-note@below {{made here}}
    %part = fsdp.partial_norm 2(%da, %db) : (!fsdp.shard<@a, f32>, !fsdp.shard<@b, f32>) -> tensor<f64>
    // expected-error@below {{S8: takes the norm of this rank's gradients alone, expected that of 2 ranks, from a fsdp.all_reduce.wait}}
    %clip = fsdp.clip_factor %part : tensor<f64>
    fsdp.update @a with %da step %step lr %lr clip %clip : !fsdp.shard<@a, f32>
    fsdp.update @b with %db step %step lr %lr clip %clip : !fsdp.shard<@b, f32>
    return %loss : !s
  }
}

// -----

// S8: the norm is taken once.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %rb = fsdp.reduce_scatter.start @b(%x) over ["dp"] avg bwd on compute : !m
    %db = fsdp.reduce_scatter.wait %rb : !fsdp.shard<@b, f32>
    // expected-note@below {{the first time is here}}
    %part = fsdp.partial_norm 2(%da, %db) : (!fsdp.shard<@a, f32>, !fsdp.shard<@b, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    // expected-error@below {{S8: the gradients' norm is taken twice}}
    %more = fsdp.partial_norm 2(%da, %db) : (!fsdp.shard<@a, f32>, !fsdp.shard<@b, f32>) -> tensor<f64>
    fsdp.update @a with %da step %step lr %lr clip %clip : !fsdp.shard<@a, f32>
    fsdp.update @b with %db step %step lr %lr clip %clip : !fsdp.shard<@b, f32>
    return %loss : !s
  }
}

// -----

// S5: on one rank there is nothing to add up.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  // expected-note@below {{the mesh is declared here}}
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %da = fsdp.pack @a(%x) : (!m) -> !fsdp.shard<@a, f32>
    %db = fsdp.pack @b(%x) : (!m) -> !fsdp.shard<@b, f32>
    %part = fsdp.partial_norm 2(%da, %db) : (!fsdp.shard<@a, f32>, !fsdp.shard<@b, f32>) -> tensor<f64>
    // expected-error@below {{S5: a tensor is reduced on a mesh of one rank}}
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @a with %da step %step lr %lr clip %clip : !fsdp.shard<@a, f32>
    fsdp.update @b with %db step %step lr %lr clip %clip : !fsdp.shard<@b, f32>
    return %loss : !s
  }
}

// -----

// S8: on one rank, too, the norm is that of gradients.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %da = fsdp.pack @a(%x) : (!m) -> !fsdp.shard<@a, f32>
    %db = fsdp.pack @b(%x) : (!m) -> !fsdp.shard<@b, f32>
    // expected-note@below {{made here}}
    %total = fsdp.input "total" : tensor<f64>
    // expected-error@below {{S8: takes what is not the result of a fsdp.partial_norm}}
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @a with %da step %step lr %lr clip %clip : !fsdp.shard<@a, f32>
    fsdp.update @b with %db step %step lr %lr clip %clip : !fsdp.shard<@b, f32>
    return %loss : !s
  }
}

// -----

// S8: on one rank, too, it is that of all gradients.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %da = fsdp.pack @a(%x) : (!m) -> !fsdp.shard<@a, f32>
    // expected-error@below {{S8: the norm lacks the gradient of group @b}}
    %part = fsdp.partial_norm 2(%da) : (!fsdp.shard<@a, f32>) -> tensor<f64>
    %clip = fsdp.clip_factor %part : tensor<f64>
    fsdp.update @a with %da step %step lr %lr clip %clip : !fsdp.shard<@a, f32>
    %db = fsdp.pack @b(%x) : (!m) -> !fsdp.shard<@b, f32>
    // expected-note@below {{updated here}}
    fsdp.update @b with %db step %step lr %lr clip %clip : !fsdp.shard<@b, f32>
    return %loss : !s
  }
}

// -----

// A norm that gradients cannot be clipped to.
module {
  // expected-error@below {{'clip_grad_norm' is -1, expected a finite number above 0 (in fp32)}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = -1.0
}

// -----

// Too small for fp32.
module {
  // expected-error@below {{'clip_grad_norm' is 1e-60, expected a finite number above 0 (in fp32)}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0e-60
}

// -----

// A type of norm without a norm to clip to.
module {
  // expected-error@below {{'fsdp.optimizer' op has 'clip_norm_type' inf but no 'clip_grad_norm' to clip to}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_norm_type = inf
}

// -----

module {
  // expected-error@below {{the norm is '3', expected 1, 2 or inf}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0 clip_norm_type = 3
}
