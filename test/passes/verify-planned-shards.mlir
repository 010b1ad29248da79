// RUN: fsdp-opt %s -split-input-file -verify-diagnostics -fsdp-verify-planned

// Optimizer state on the host is in the arena from its fetch's start to its store's wait, not longer.
module attributes {fsdp.arena_bytes = 512 : i64, fsdp.host_arena_bytes = 128 : i64, fsdp.peak_live_bytes = 512 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at [0] host [0]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 384 : tensor<32xf32>
    %w = fsdp.read @w : tensor<32xf32>
    %d = aten.call "neg.default"(%w) bwd in "" at [128] : (tensor<32xf32>) -> tensor<32xf32>
    fsdp.grad @w, %d : tensor<32xf32>
    %f = fsdp.fetch_state.start @g at [256]
    fsdp.fetch_state.wait %f
    fsdp.update @g step %step lr %lr at 128
    %t = fsdp.store_state.start @g
    fsdp.store_state.wait %t
    %s = aten.call "sum.default"(%x, none) fwd in "" at [256] : (tensor<32xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// What is being stored is not overwritten before the wait for the store.
module attributes {fsdp.arena_bytes = 512 : i64, fsdp.host_arena_bytes = 128 : i64, fsdp.peak_live_bytes = 512 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at [0] host [0]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 384 : tensor<32xf32>
    %w = fsdp.read @w : tensor<32xf32>
    %d = aten.call "neg.default"(%w) bwd in "" at [128] : (tensor<32xf32>) -> tensor<32xf32>
    fsdp.grad @w, %d : tensor<32xf32>
    // expected-note @below {{optimizer state 1 of @g is made here}}
    %f = fsdp.fetch_state.start @g at [256]
    fsdp.fetch_state.wait %f
    fsdp.update @g step %step lr %lr at 128
    %t = fsdp.store_state.start @g
    // expected-error @below {{P2: result #0 of 'sum.default' in "" at bytes [256, 260) overlaps optimizer state 1 of @g at bytes [256, 384), which is live}}
    %s = aten.call "sum.default"(%x, none) fwd in "" at [256] : (tensor<32xf32>) -> tensor<f32>
    fsdp.store_state.wait %t
    return %s : tensor<f32>
  }
}

// -----

// States on the host have places of their own there.
module attributes {fsdp.arena_bytes = 512 : i64, fsdp.host_arena_bytes = 192 : i64, fsdp.peak_live_bytes = 512 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer adam lr = 0.001 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8
  fsdp.param @w : tensor<32xf32>
  // expected-note @below {{which is declared here}}
  // expected-error @below {{P5: optimizer state of @g at bytes [64, 192) of the host's arena overlaps that of @g}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host at [0] host [0, 64]
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// A shard that is gathered in another dtype has its copy behind it.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false gather_dtype bf16 reduce_dtype bf16 at [0, 640]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xbf16>
    %u = fsdp.all_gather.start @g fwd on gather at 256
    %w = fsdp.all_gather.wait %u : tensor<32xbf16>
    %s = aten.call "sum.default"(%w, f32) fwd in "" at [512] : (tensor<32xbf16>) -> tensor<f32>
    fsdp.release %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xbf16>) -> tensor<32xbf16>
    %r = fsdp.reduce_scatter.start @g(%g) bwd on reduce at [256, 384] : tensor<32xbf16>
    fsdp.reduce_scatter.wait %r
    fsdp.update @g step %step lr %lr at 384
    return %s : tensor<f32>
  }
}

// -----

// The copy needs a place.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P1: @g has 1 offsets, expected 2}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false gather_dtype bf16 reduce_dtype bf16 at [0]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xbf16>
    %u = fsdp.all_gather.start @g fwd on gather at 256
    %w = fsdp.all_gather.wait %u : tensor<32xbf16>
    %s = aten.call "sum.default"(%w, f32) fwd in "" at [512] : (tensor<32xbf16>) -> tensor<f32>
    fsdp.release %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xbf16>) -> tensor<32xbf16>
    %r = fsdp.reduce_scatter.start @g(%g) bwd on reduce at [256, 384] : tensor<32xbf16>
    fsdp.reduce_scatter.wait %r
    fsdp.update @g step %step lr %lr at 384
    return %s : tensor<f32>
  }
}

// -----

// The copy lives as long as the shard.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  // expected-note @below {{the copy that is gathered of @g is made here}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false gather_dtype bf16 reduce_dtype bf16 at [0, 256]
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xbf16>
    // expected-error @below {{P2: the gathered group @g at bytes [256, 384) overlaps the copy that is gathered of @g at bytes [256, 320), which is live}}
    %u = fsdp.all_gather.start @g fwd on gather at 256
    %w = fsdp.all_gather.wait %u : tensor<32xbf16>
    %s = aten.call "sum.default"(%w, f32) fwd in "" at [512] : (tensor<32xbf16>) -> tensor<f32>
    fsdp.release %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xbf16>) -> tensor<32xbf16>
    %r = fsdp.reduce_scatter.start @g(%g) bwd on reduce at [256, 384] : tensor<32xbf16>
    fsdp.reduce_scatter.wait %r
    fsdp.update @g step %step lr %lr at 384
    return %s : tensor<f32>
  }
}
