// RUN: fsdp-opt %s -split-input-file -verify-diagnostics -fsdp-plan-memory=memory-cap=256

// A plan that does not fit is refused: six buffers of 64 bytes are live at once.
// expected-error @below {{the step needs an arena of 384 bytes, more than the memory cap of 256 bytes; at least 384 bytes are live at once}}
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<16xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %shard = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<16xf32>
    %u = fsdp.all_gather.start %shard over ["dp"] fwd on gather : !fsdp.shard<@g, f32>
    %w = fsdp.all_gather.wait %u : tensor<16xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<16xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" : (tensor<16xf32>) -> tensor<16xf32>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce : tensor<16xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}

// -----

// expected-error @below {{the module is 'captured', expected 'scheduled'}}
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
}

// -----

module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<16xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<16xf32>
    // expected-error @below {{reads parameter @w, of which a rank holds a shard only; expected fsdp.all_gather.wait on 2 ranks}}
    %w = fsdp.read @w : tensor<16xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<16xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<16xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<16xf32>
    %s = aten.call "sum.default"(%x, none) fwd in "" : (tensor<16xf32>) -> tensor<f32>
    // expected-error @below {{'fsdp.grad' op is not part of a step}}
    fsdp.grad @w, %x : tensor<16xf32>
    return %s : tensor<f32>
  }
}

// -----

module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<16xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<16xf32>
    %s = aten.call "sum.default"(%x, none) fwd in "" : (tensor<16xf32>) -> tensor<f32>
    // expected-error @below {{is never waited for}}
    %r = fsdp.reduce_scatter.start @g(%x) over ["dp"] avg bwd on reduce : tensor<16xf32>
    return %s : tensor<f32>
  }
}

// -----

module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<16xf32>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<16xf32>
    // expected-note @below {{the storage is made here}}
    %y = aten.call "neg.default"(%x) fwd in "" : (tensor<16xf32>) -> tensor<16xf32>
    // expected-error @below {{P3: 'view.default' is a view that ends at byte 80 of a storage of 64 bytes}}
    %v = aten.call "view.default"(%y, [4, 5]) fwd in "" : (tensor<16xf32>) -> tensor<4x5xf32>
    %s = aten.call "sum.default"(%v, none) fwd in "" : (tensor<4x5xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}
