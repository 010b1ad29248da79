// RUN: fsdp-opt %s -split-input-file -verify-diagnostics -fsdp-verify-planned

// P1: the module says how large the arena is.
// expected-error @below {{P1: lacks the attribute 'fsdp.arena_bytes'}}
module attributes {fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    %loss = aten.call "sum.default"(%x, none) fwd in "" at [256] : (tensor<32xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P1: what is gathered has a place.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0
  func.func @step() -> tensor<f32> {
    %s = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    // expected-error @below {{P1: has a buffer without an arena offset}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@g, f32>
    %w = fsdp.all_gather.wait %u : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P1: so have gradients, and what they are reduced to.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0
  func.func @step() -> tensor<f32> {
    %s = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather at 256 : !fsdp.shard<@g, f32>
    %w = fsdp.all_gather.wait %u : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-error @below {{P1: has a buffer without an arena offset}}
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P1: on one rank so have packed gradients.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-error @below {{P1: has a buffer without an arena offset}}
    %d = fsdp.pack @g(%g) : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P1: so has the gradients' norm.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    // expected-error @below {{P1: has a buffer without an arena offset}}
    %part = fsdp.partial_norm 2(%d) : (!fsdp.shard<@g, f32>) -> tensor<f64>
    %clip = fsdp.clip_factor %part : tensor<f64>
    fsdp.update @g with %d step %step lr %lr clip %clip : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P1: so has fetched state.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.host_arena_bytes = 128 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at shard 0 host_states [0]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-error @below {{P1: has a buffer without an arena offset}}
    %h = fsdp.fetch_state.start @g
    %state = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %state : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %state : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// P3: a view lies within its storage.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    // expected-note @below {{the storage is made here}}
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    // expected-error @below {{P3: 'view.default' is a view that ends at byte 144 of a storage of 128 bytes}}
    %v = aten.call "view.default"(%x, [36]) fwd in "" : (tensor<32xf32>) -> tensor<36xf32>
    %loss = aten.call "sum.default"(%v, none) fwd in "" at [256] : (tensor<36xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A planned step is a sharded one: here S2.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0
  func.func @step() -> tensor<f32> {
    %s = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    // expected-note @below {{gathered here}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather at 256 : !fsdp.shard<@g, f32>
    %w = fsdp.all_gather.wait %u : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    // expected-error @below {{S2: group @g is updated while it is gathered}}
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    fsdp.reshard %u fwd
    return %loss : tensor<f32>
  }
}

// -----

// It is a scheduled one: here D2.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0
  func.func @step() -> tensor<f32> {
    %s = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    // expected-error @below {{D2: 'fsdp.all_gather.start' of group @g is on stream reduce, expected gather; run fsdp-assign-streams}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on reduce at 256 : !fsdp.shard<@g, f32>
    %w = fsdp.all_gather.wait %u : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}
