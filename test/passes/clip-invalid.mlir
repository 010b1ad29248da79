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
    %ra = fsdp.reduce_scatter.start @a(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %ra
    %rb = fsdp.reduce_scatter.start @b(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %rb
    %squares = fsdp.square_sum : tensor<f64>
    %n = fsdp.square_sum_all_reduce.start %squares on compute : tensor<f64>
    %total = fsdp.square_sum_all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @a step %step lr %lr clip %clip
    fsdp.update @b step %step lr %lr clip %clip
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
    %ra = fsdp.reduce_scatter.start @a(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %ra
    %rb = fsdp.reduce_scatter.start @b(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %rb
    %squares = fsdp.square_sum : tensor<f64>
    %n = fsdp.square_sum_all_reduce.start %squares on compute : tensor<f64>
    %total = fsdp.square_sum_all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    // expected-error@below {{of @a takes no clip factor, but the optimizer clips}}
    fsdp.update @a step %step lr %lr
    fsdp.update @b step %step lr %lr clip %clip
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
    %ra = fsdp.reduce_scatter.start @a(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %ra
    %rb = fsdp.reduce_scatter.start @b(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %rb
    %squares = fsdp.square_sum : tensor<f64>
    %n = fsdp.square_sum_all_reduce.start %squares on compute : tensor<f64>
    %total = fsdp.square_sum_all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    // expected-error@below {{of @a takes a clip factor, but the optimizer has no 'clip_grad_norm'}}
    fsdp.update @a step %step lr %lr clip %clip
    fsdp.update @b step %step lr %lr clip %clip
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
  // expected-note@below {{declared here}}
  fsdp.group @b [@w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %ra
    // expected-error@below {{the gradients' squares are summed before the wait for the reduction of group @b}}
    %squares = fsdp.square_sum : tensor<f64>
    %n = fsdp.square_sum_all_reduce.start %squares on compute : tensor<f64>
    %total = fsdp.square_sum_all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    %rb = fsdp.reduce_scatter.start @b(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %rb
    fsdp.update @a step %step lr %lr clip %clip
    fsdp.update @b step %step lr %lr clip %clip
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
    %ra = fsdp.reduce_scatter.start @a(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %ra
    %rb = fsdp.reduce_scatter.start @b(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %rb
    // expected-note@below {{made here}}
    %squares = fsdp.square_sum : tensor<f64>
    // expected-error@below {{takes the squares of this rank's gradients alone, expected the sum over 2 ranks, from a fsdp.square_sum_all_reduce.wait}}
    %clip = fsdp.clip_factor %squares : tensor<f64>
    fsdp.update @a step %step lr %lr clip %clip
    fsdp.update @b step %step lr %lr clip %clip
    return %loss : !s
  }
}

// -----

// S8: the squares are summed once.
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
    %ra = fsdp.reduce_scatter.start @a(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %ra
    %rb = fsdp.reduce_scatter.start @b(%x) bwd on compute : !m
    fsdp.reduce_scatter.wait %rb
    // expected-note@below {{the first one is here}}
    %squares = fsdp.square_sum : tensor<f64>
    %n = fsdp.square_sum_all_reduce.start %squares on compute : tensor<f64>
    %total = fsdp.square_sum_all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    // expected-error@below {{the gradients' squares are summed twice}}
    %more = fsdp.square_sum : tensor<f64>
    fsdp.update @a step %step lr %lr clip %clip
    fsdp.update @b step %step lr %lr clip %clip
    return %loss : !s
  }
}

// -----

// S8: on one rank there is nothing to add up.
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
    fsdp.grad @v, %x : !m
    fsdp.grad @w, %x : !m
    %squares = fsdp.square_sum : tensor<f64>
    %n = fsdp.square_sum_all_reduce.start %squares on compute : tensor<f64>
    // expected-error@below {{the gradients' squares are reduced on a mesh of one rank}}
    %total = fsdp.square_sum_all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @a step %step lr %lr clip %clip
    fsdp.update @b step %step lr %lr clip %clip
    return %loss : !s
  }
}

// -----

// S8: on one rank all gradients are there.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  // expected-note@below {{declared here}}
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
    fsdp.grad @v, %x : !m
    // expected-error@below {{the gradients' squares are summed before parameter @w has its gradient}}
    %squares = fsdp.square_sum : tensor<f64>
    %clip = fsdp.clip_factor %squares : tensor<f64>
    fsdp.grad @w, %x : !m
    fsdp.update @a step %step lr %lr clip %clip
    fsdp.update @b step %step lr %lr clip %clip
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
