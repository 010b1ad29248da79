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
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.grad @w, %g : tensor<4xf32>
    %f = fsdp.fetch_state.start @g
    fsdp.fetch_state.wait %f
    fsdp.update @g step %step lr %lr
    %t = fsdp.store_state.start @g
    fsdp.store_state.wait %t
    return %s : tensor<f32>
  }
}

// -----

// An update must not read state that is still on its way.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.grad @w, %g : tensor<4xf32>
    // expected-note @below {{fetched here}}
    %f = fsdp.fetch_state.start @g
    // expected-error @below {{the optimizer state of group @g is on the host: the update comes before its fetch's wait}}
    fsdp.update @g step %step lr %lr
    fsdp.fetch_state.wait %f
    %t = fsdp.store_state.start @g
    fsdp.store_state.wait %t
    return %s : tensor<f32>
  }
}

// -----

// State that is on the host has to be fetched.
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
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.grad @w, %g : tensor<4xf32>
    // expected-error @below {{the optimizer state of group @g is on the host: the update comes before its fetch's wait}}
    fsdp.update @g step %step lr %lr
    return %s : tensor<f32>
  }
}

// -----

// What an update wrote must not be lost.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.grad @w, %g : tensor<4xf32>
    // expected-note @below {{fetched here}}
    %f = fsdp.fetch_state.start @g
    fsdp.fetch_state.wait %f
    // expected-error @below {{the optimizer state of group @g is never stored behind its update}}
    fsdp.update @g step %step lr %lr
    return %s : tensor<f32>
  }
}

// -----

// A store ends with the step.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.grad @w, %g : tensor<4xf32>
    %f = fsdp.fetch_state.start @g
    fsdp.fetch_state.wait %f
    fsdp.update @g step %step lr %lr
    // expected-error @below {{the optimizer state of group @g's store is never waited for}}
    %t = fsdp.store_state.start @g
    return %s : tensor<f32>
  }
}

// -----

// What is stored before the update is the old state.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.grad @w, %g : tensor<4xf32>
    // expected-note @below {{fetched here}}
    %f = fsdp.fetch_state.start @g
    fsdp.fetch_state.wait %f
    // expected-error @below {{the optimizer state of group @g is stored before its update}}
    %t = fsdp.store_state.start @g
    fsdp.store_state.wait %t
    fsdp.update @g step %step lr %lr
    return %s : tensor<f32>
  }
}

// -----

// A second fetch would overwrite the first.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.grad @w, %g : tensor<4xf32>
    // expected-note @below {{fetched here}}
    %f = fsdp.fetch_state.start @g
    fsdp.fetch_state.wait %f
    // expected-error @below {{the optimizer state of group @g is fetched twice}}
    %h = fsdp.fetch_state.start @g
    fsdp.fetch_state.wait %h
    fsdp.update @g step %step lr %lr
    %t = fsdp.store_state.start @g
    fsdp.store_state.wait %t
    return %s : tensor<f32>
  }
}

// -----

// State in the arena is not fetched.
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
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.grad @w, %g : tensor<4xf32>
    // expected-error @below {{the optimizer state of group @g is fetched, but it is not on the host}}
    %f = fsdp.fetch_state.start @g
    fsdp.fetch_state.wait %f
    fsdp.update @g step %step lr %lr
    %t = fsdp.store_state.start @g
    fsdp.store_state.wait %t
    return %s : tensor<f32>
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
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.grad @w, %g : tensor<4xf32>
    // expected-note @below {{but it comes from fsdp.fetch_state.start}}
    %f = fsdp.fetch_state.start @g
    fsdp.fetch_state.wait %f
    fsdp.update @g step %step lr %lr
    // expected-error @below {{takes the handle of a fsdp.store_state.start}}
    fsdp.store_state.wait %f
    return %s : tensor<f32>
  }
}
