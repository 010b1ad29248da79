// RUN: fsdp-opt %s --split-input-file --fsdp-verify-sharded --verify-diagnostics

// S2: a shard is encoded once.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" per_param reshard_after_forward true
      all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4> all_reduce_hook "shrink"
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{encoded here}}
    %q = fsdp.encode %s : !fsdp.shard<@l, f32> to !fsdp.shard<@l, ui8>
    // expected-error@below {{S2: the shard of group @l is encoded twice}}
    %q2 = fsdp.encode %s : !fsdp.shard<@l, f32> to !fsdp.shard<@l, ui8>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, ui8>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %h = fsdp.all_reduce_hook %d : !fsdp.shard<@l, f32>
    fsdp.update @l with %h step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: an encode takes the shard of parameters, no gradient.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" per_param reshard_after_forward true
      all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4> all_reduce_hook "shrink"
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    // expected-note@below {{made here}}
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S2: the tensor that is encoded for the gathers of group @l is not its shard}}
    %q = fsdp.encode %d : !fsdp.shard<@l, f32> to !fsdp.shard<@l, ui8>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, ui8>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %h = fsdp.all_reduce_hook %d : !fsdp.shard<@l, f32>
    fsdp.update @l with %h step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: a shard is encoded before its update.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" per_param reshard_after_forward true
      all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4> all_reduce_hook "shrink"
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %h = fsdp.all_reduce_hook %d : !fsdp.shard<@l, f32>
    // expected-note@below {{updated here}}
    fsdp.update @l with %h step %step lr %lr : !fsdp.shard<@l, f32>
    // expected-error@below {{S2: the shard of group @l is encoded after its update}}
    %q = fsdp.encode %s : !fsdp.shard<@l, f32> to !fsdp.shard<@l, ui8>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, ui8>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    return %loss : !s
  }
}

// -----

// S4: the update of a group with a hook takes what the hook has changed.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" per_param reshard_after_forward true
      all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4> all_reduce_hook "shrink"
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %q = fsdp.encode %s : !fsdp.shard<@l, f32> to !fsdp.shard<@l, ui8>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, ui8>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    // expected-note@below {{the gradient is made here}}
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S4: group @l is updated with a gradient on which its all_reduce_hook 'shrink' is not called}}
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: a hook is called once.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" per_param reshard_after_forward true
      all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4> all_reduce_hook "shrink"
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %q = fsdp.encode %s : !fsdp.shard<@l, f32> to !fsdp.shard<@l, ui8>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, ui8>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-note@below {{made here}}
    %h = fsdp.all_reduce_hook %d : !fsdp.shard<@l, f32>
    // expected-error@below {{S4: the hook of group @l is called on a tensor that is not a reduction's result}}
    %h2 = fsdp.all_reduce_hook %h : !fsdp.shard<@l, f32>
    fsdp.update @l with %h2 step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: nothing else reads the gradient that a hook changes.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" per_param reshard_after_forward true
      all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4> all_reduce_hook "shrink"
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %q = fsdp.encode %s : !fsdp.shard<@l, f32> to !fsdp.shard<@l, ui8>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, ui8>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    // expected-note@below {{the gradient is made here}}
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // expected-error@below {{S4: the hook of group @l writes to a gradient that is used elsewhere}}
    %h = fsdp.all_reduce_hook %d : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: each reduction of an accumulation has its hook, before it is added up.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = mean>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" per_param reshard_after_forward true
      all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4> all_reduce_hook "shrink"
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %x1 = fsdp.input "x" microbatch 1 : !m
    %q = fsdp.encode %s : !fsdp.shard<@l, f32> to !fsdp.shard<@l, ui8>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, ui8>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    %loss2 = aten.call "sum.default"(%x, none) fwd in "l" microbatch 1 : (!m) -> !s
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %r2 = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d2 = fsdp.reduce_scatter.wait %r2 : !fsdp.shard<@l, f32>
    // expected-note@below {{made here}}
    %a = fsdp.accumulate %d, %d2 : !fsdp.shard<@l, f32>, !fsdp.shard<@l, f32>
    // expected-error@below {{S4: the hook of group @l is called on a tensor that is not a reduction's result}}
    %h = fsdp.all_reduce_hook %a : !fsdp.shard<@l, f32>
    fsdp.update @l with %h step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}
