// RUN: fsdp-opt %s -split-input-file -verify-diagnostics -fsdp-verify-planned

// Optimizer state on the host is in the arena from its fetch's start to its store's wait, not longer.
module attributes {fsdp.arena_bytes = 512 : i64, fsdp.host_arena_bytes = 128 : i64, fsdp.peak_live_bytes = 512 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at shard 0 host_states [0]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 384 : tensor<32xf32>
    %w = fsdp.read @w : tensor<32xf32>
    %g = aten.call "neg.default"(%w) bwd in "" at [128] : (tensor<32xf32>) -> tensor<32xf32>
    %h = fsdp.fetch_state.start @g at [256]
    %state = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) at 128 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %state : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %state : !fsdp.state<@g>
    fsdp.store_state.wait %t
    %loss = aten.call "sum.default"(%x, none) fwd in "" at [256] : (tensor<32xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: what is being stored is not overwritten before the wait for the store.
module attributes {fsdp.arena_bytes = 512 : i64, fsdp.host_arena_bytes = 128 : i64, fsdp.peak_live_bytes = 512 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at shard 0 host_states [0]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 384 : tensor<32xf32>
    %w = fsdp.read @w : tensor<32xf32>
    %g = aten.call "neg.default"(%w) bwd in "" at [128] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-note @below {{optimizer state 1 of @g is made here}}
    %h = fsdp.fetch_state.start @g at [256]
    %state = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) at 128 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %state : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %state : !fsdp.state<@g>
    // expected-error @below {{P2: result #0 of 'sum.default' in "" at bytes [256, 260) overlaps optimizer state 1 of @g at bytes [256, 384), which is live}}
    %loss = aten.call "sum.default"(%x, none) fwd in "" at [256] : (tensor<32xf32>) -> tensor<f32>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// P5: states on the host have places of their own there.
module attributes {fsdp.arena_bytes = 768 : i64, fsdp.host_arena_bytes = 192 : i64, fsdp.peak_live_bytes = 768 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer adam lr = 0.001 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8
  fsdp.param @w : tensor<32xf32>
  // expected-note @below {{which is declared here}}
  // expected-error @below {{P5: optimizer state 2 of @g at bytes [64, 192) of the host's arena overlaps optimizer state 1 of @g}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at shard 0 host_states [0, 64]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 384 : tensor<32xf32>
    %loss = aten.call "sum.default"(%x, none) fwd in "" at [256] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%x) bwd in "" at [128] : (tensor<32xf32>) -> tensor<32xf32>
    %h = fsdp.fetch_state.start @g at [512, 640]
    %state = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) at 128 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %state : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %state : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// A shard that is gathered in another dtype has its copy behind it.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false gather_dtype bf16 reduce_dtype bf16 at shard 0 copy 640
  func.func @step() -> tensor<f32> {
    %s = fsdp.shard @g : !fsdp.shard<@g, bf16>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xbf16>
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather at 256 : !fsdp.shard<@g, bf16>
    %w = fsdp.all_gather.wait %u : tensor<32xbf16>
    %loss = aten.call "sum.default"(%w, f32) fwd in "" at [512] : (tensor<32xbf16>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xbf16>) -> tensor<32xbf16>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xbf16>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, bf16>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, bf16>
    return %loss : tensor<f32>
  }
}

// -----

// P1: the copy needs a place.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P1: @g has no place for the copy that is gathered}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false gather_dtype bf16 reduce_dtype bf16 at shard 0
  func.func @step() -> tensor<f32> {
    %s = fsdp.shard @g : !fsdp.shard<@g, bf16>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xbf16>
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather at 256 : !fsdp.shard<@g, bf16>
    %w = fsdp.all_gather.wait %u : tensor<32xbf16>
    %loss = aten.call "sum.default"(%w, f32) fwd in "" at [512] : (tensor<32xbf16>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xbf16>) -> tensor<32xbf16>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xbf16>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, bf16>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, bf16>
    return %loss : tensor<f32>
  }
}

// -----

// P1: a shard that is gathered itself has no copy.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P1: @g has a place, but expects none, for the copy that is gathered in the arena}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0 copy 640
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P1: each state of the optimizer needs a place.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P1: @g has places for 0 optimizer states in the arena, expected 1}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P1: a group needs places.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P1: @g has no places in the arena}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: the copy lives as long as the shard.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  // expected-note @below {{the copy that is gathered of @g is made here}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false gather_dtype bf16 reduce_dtype bf16 at shard 0 copy 256
  func.func @step() -> tensor<f32> {
    %s = fsdp.shard @g : !fsdp.shard<@g, bf16>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xbf16>
    // expected-error @below {{P2: the gathered group @g at bytes [256, 384) overlaps the copy that is gathered of @g at bytes [256, 320), which is live}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather at 256 : !fsdp.shard<@g, bf16>
    %w = fsdp.all_gather.wait %u : tensor<32xbf16>
    %loss = aten.call "sum.default"(%w, f32) fwd in "" at [512] : (tensor<32xbf16>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xbf16>) -> tensor<32xbf16>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xbf16>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, bf16>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, bf16>
    return %loss : tensor<f32>
  }
}

// -----

// P1: state on the host has a place there.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.host_arena_bytes = 128 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P1: @g has places for 0 optimizer states on the host, expected 1}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at shard 0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %h = fsdp.fetch_state.start @g at [640]
    %state = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %state : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %state : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// P1: as many as the optimizer has states.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.host_arena_bytes = 256 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P1: @g has places for 2 optimizer states on the host, expected 1}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at shard 0 host_states [0, 128]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %h = fsdp.fetch_state.start @g at [640]
    %state = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %state : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %state : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// P1: what the optimizer does not keep is not on the host.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.host_arena_bytes = 128 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P1: @g has its optimizer state on the host, but the optimizer keeps none of it}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at shard 0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %h = fsdp.fetch_state.start @g at []
    %state = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %state : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %state : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// P1: state in the arena has none there.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.host_arena_bytes = 128 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P1: @g has places for 1 optimizer states on the host, expected 0}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0 states [768] host_states [0]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P5: the places on the host are aligned.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.host_arena_bytes = 256 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P5: optimizer state 1 of @g at bytes [32, 160) of the host's arena of 256 bytes, expected within it, at a multiple of 64}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at shard 0 host_states [32]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %h = fsdp.fetch_state.start @g at [640]
    %state = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %state : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %state : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// P5: they lie within the host's arena.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.host_arena_bytes = 128 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P5: optimizer state 1 of @g at bytes [64, 192) of the host's arena of 128 bytes, expected within it, at a multiple of 64}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at shard 0 host_states [64]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<32xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %h = fsdp.fetch_state.start @g at [640]
    %state = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %state : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %state : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// P1: a group on the host has its shard there.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32> frozen
  // expected-error @below {{P1: @g has a place, but expects none, for the shard in the arena}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false offload_policy cpu at shard 0
  func.func @step() -> tensor<f32> {
    %w = fsdp.shard @g : !fsdp.shard<@g, f32>
    %u = fsdp.all_gather.start %w over ["dp"] fwd on gather at 0 : !fsdp.shard<@g, f32>
    %p = fsdp.all_gather.wait %u : tensor<32xf32>
    %loss = aten.call "sum.default"(%p, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    return %loss : tensor<f32>
  }
}

// -----

// P5: of shards on the host as of states.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.host_arena_bytes = 64 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32> frozen
  // expected-error @below {{P5: the shard of @g at bytes [0, 128) of the host's arena of 64 bytes, expected within it}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false offload_policy cpu at host_shard 0
  func.func @step() -> tensor<f32> {
    %w = fsdp.shard @g : !fsdp.shard<@g, f32>
    %u = fsdp.all_gather.start %w over ["dp"] fwd on gather at 0 : !fsdp.shard<@g, f32>
    %p = fsdp.all_gather.wait %u : tensor<32xf32>
    %loss = aten.call "sum.default"(%p, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    return %loss : tensor<f32>
  }
}
