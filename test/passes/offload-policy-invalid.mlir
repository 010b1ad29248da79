// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-verify-sharded

// S5: on one rank, too, what lies on the host is gathered.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  // expected-note @below {{the group is declared here}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false offload_policy cpu
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    // expected-error @below {{S5: parameter @w is read; it lies on the host and must be gathered}}
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}

// -----

// S6: an update takes the parameters from the host, also where the optimizer keeps no state.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  // expected-note @below {{the group is declared here}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false offload_policy cpu
  func.func @step() -> tensor<f32> {
    %p = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %u = fsdp.all_gather.start %p over ["dp"] fwd on compute : !fsdp.shard<@g, f32>
    %w = fsdp.all_gather.wait %u : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.reshard %u bwd
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    // expected-error @below {{is on the host, but the update does not take it}}
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}
