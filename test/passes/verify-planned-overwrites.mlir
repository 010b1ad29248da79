// RUN: fsdp-opt %s -split-input-file -verify-diagnostics -fsdp-verify-planned

// P4: a buffer that is read keeps its value until the last use of what was read.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.buffer @b : tensor<4xf32> at 64
  func.func @step() -> tensor<f32> {
    // expected-note @below {{read here}}
    %b = fsdp.read @b : tensor<4xf32>
    %c = aten.call "neg.default"(%b) fwd in "" at [256] : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @below {{P4: overwrites @b before the last use of what was read}}
    fsdp.write @b, %c : tensor<4xf32>
    // expected-note @below {{last used here}}
    %loss = aten.call "sum.default"(%b, none) fwd in "" at [512] : (tensor<4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P4: on one rank the same holds for parameters and their update.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    // expected-note @below {{read here}}
    %w = fsdp.read @w : tensor<32xf32>
    %g = aten.call "neg.default"(%w) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %d = fsdp.pack @g(%g) at 256 : (tensor<32xf32>) -> !fsdp.shard<@g, f32>
    // expected-error @below {{P4: overwrites @w before the last use of what was read}}
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    // expected-note @below {{last used here}}
    %loss = aten.call "sum.default"(%w, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P4: a buffer cannot be overwritten with its own elements in another order.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.buffer @b : tensor<4x4xf32> at 64
  func.func @step() -> tensor<f32> {
    // expected-note @below {{read here}}
    %b = fsdp.read @b : tensor<4x4xf32>
    %t = aten.call "t.default"(%b) fwd in "" : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<[1, 4]>>
    // expected-error @below {{P4: overwrites @b with a view of itself}}
    fsdp.write @b, %t : tensor<4x4xf32, #aten.strides<[1, 4]>>
    %loss = aten.call "sum.default"(%t, none) fwd in "" at [512] : (tensor<4x4xf32, #aten.strides<[1, 4]>>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
