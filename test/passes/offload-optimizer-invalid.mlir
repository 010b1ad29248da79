// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-offload-optimizer=offload=all
// RUN: not fsdp-opt %s --split-input-file --fsdp-offload-optimizer=offload=auto 2>&1 | FileCheck %s

// CHECK: error: offload-optimizer=auto needs a search: schedule=auto or asap, several ranks and a memory-cap; expected all or none

// An optimizer without state has nothing to offload.
// expected-error @below {{offload_optimizer: the optimizer keeps no state that could be offloaded}}
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  // expected-note @below {{the optimizer is declared here}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}

// -----

// The group has optimizer_state device before the pass, against its own offload_optimizer true.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  // expected-error @below {{group @g has optimizer_state device already, but asks for offload_optimizer true}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false offload_optimizer true optimizer_state device
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}

// -----

// The group has optimizer_state host before the pass, against its own offload_optimizer false.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  // expected-error @below {{group @g has optimizer_state host already, but asks for offload_optimizer false}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false offload_optimizer false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}

// -----

// The group has optimizer_state device before the pass, against the pass's option offload=all.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  // expected-error @below {{group @g has optimizer_state device already, but the optimizer state of all groups is to be offloaded}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state device
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}
