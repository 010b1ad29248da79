// RUN: fsdp-opt %s -split-input-file -verify-diagnostics -fsdp-verify-sharded

// State on the host, fetched, updated and stored: nothing to say.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %h = fsdp.fetch_state.start @g
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %x : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %x : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// S6: an update takes what the wait for the fetch yields, not what is still on its way.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  // expected-note @below {{the group is declared here}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %h = fsdp.fetch_state.start @g
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    // expected-error @below {{S6: the optimizer state of group @g is on the host, but the update does not take it}}
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %t = fsdp.store_state.start %x : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// S6: state that is on the host has to be fetched.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  // expected-note @below {{the group is declared here}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    // expected-error @below {{S6: the optimizer state of group @g is on the host, but the update does not take it}}
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// S6: what an update wrote must not be lost.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %h = fsdp.fetch_state.start @g
    // expected-note @below {{fetched here}}
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    // expected-error @below {{S6: the optimizer state of group @g is never stored behind its update}}
    fsdp.update @g with %d step %step lr %lr state %x : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    return %loss : tensor<f32>
  }
}

// -----

// S2: a store ends with the step.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %h = fsdp.fetch_state.start @g
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %x : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    // expected-error @below {{S2: the copy of optimizer state is never waited for}}
    %t = fsdp.store_state.start %x : !fsdp.state<@g>
    return %loss : tensor<f32>
  }
}

// -----

// S6: what is stored before the update is the old state.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %h = fsdp.fetch_state.start @g
    // expected-note @below {{fetched here}}
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    // expected-error @below {{S6: the optimizer state of group @g is stored before its update}}
    %t = fsdp.store_state.start %x : !fsdp.state<@g>
    fsdp.store_state.wait %t
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %x : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    return %loss : tensor<f32>
  }
}

// -----

// S6: a second fetch would overwrite the first.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    // expected-note @below {{fetched here}}
    %h = fsdp.fetch_state.start @g
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    // expected-error @below {{S6: the optimizer state of group @g is fetched twice}}
    %again = fsdp.fetch_state.start @g
    %x2 = fsdp.fetch_state.wait %again : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %x2 : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %x2 : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// S6: state in the arena is not fetched.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  // expected-note @below {{the group is declared here}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @below {{S6: the optimizer state of group @g is fetched, but it is not on the host}}
    %h = fsdp.fetch_state.start @g
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %x : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %x : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// A wait takes the handle of its own kind.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    // expected-note @below {{but it comes from fsdp.fetch_state.start}}
    %h = fsdp.fetch_state.start @g
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %x : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    // expected-error @below {{takes the handle of a fsdp.store_state.start}}
    fsdp.store_state.wait %h
    return %loss : tensor<f32>
  }
}

// -----

// S2: a fetch is waited for.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @below {{S2: the copy of optimizer state is never waited for}}
    %h = fsdp.fetch_state.start @g
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// S2: a fetch is waited for once.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %h = fsdp.fetch_state.start @g
    // expected-note @below {{waited for here}}
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    // expected-error @below {{S2: the copy of optimizer state is waited for twice}}
    %again = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %x : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %x : !fsdp.state<@g>
    fsdp.store_state.wait %t
    return %loss : tensor<f32>
  }
}

// -----

// S6: state is stored once.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %h = fsdp.fetch_state.start @g
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %x : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    // expected-note @below {{stored here}}
    %t = fsdp.store_state.start %x : !fsdp.state<@g>
    fsdp.store_state.wait %t
    // expected-error @below {{S6: the optimizer state of group @g is stored twice}}
    %again = fsdp.store_state.start %x : !fsdp.state<@g>
    fsdp.store_state.wait %again
    return %loss : tensor<f32>
  }
}
