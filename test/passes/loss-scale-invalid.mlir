// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-verify-sharded

// S8: a whole step that scales its loss holds.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 2.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 20
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %scale = fsdp.loss_scale : !s
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %part = fsdp.partial_norm 2(%da) : (!fsdp.shard<@a, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total scale %scale : tensor<f64>
    fsdp.update @a with %da step %step lr %lr clip %clip scale %scale : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// S8: the scale is there if the optimizer has one.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  // expected-error@below {{S8: has a 'loss_scale', but the step has no 'fsdp.loss_scale'}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 2.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 20
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %part = fsdp.partial_norm 2(%da) : (!fsdp.shard<@a, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @a with %da step %step lr %lr clip %clip : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// S8: and only then.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-error@below {{S8: scales the loss, but the optimizer has no 'loss_scale'}}
    %scale = fsdp.loss_scale : !s
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    fsdp.update @a with %da step %step lr %lr : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// S8: there is one.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 2.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 20
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{the first time is here}}
    %scale = fsdp.loss_scale : !s
    // expected-error@below {{S8: the loss is scaled twice}}
    %other = fsdp.loss_scale : !s
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %part = fsdp.partial_norm 2(%da) : (!fsdp.shard<@a, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total scale %scale : tensor<f64>
    fsdp.update @a with %da step %step lr %lr clip %clip scale %scale : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// S8: the norm is divided by it.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 2.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 20
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{the loss scale is here}}
    %scale = fsdp.loss_scale : !s
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %part = fsdp.partial_norm 2(%da) : (!fsdp.shard<@a, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    // expected-error@below {{S8: does not divide gradients by the loss scale}}
    %clip = fsdp.clip_factor %total : tensor<f64>
    fsdp.update @a with %da step %step lr %lr clip %clip scale %scale : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// S8: so is each update.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 2.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 20
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{the loss scale is here}}
    %scale = fsdp.loss_scale : !s
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %part = fsdp.partial_norm 2(%da) : (!fsdp.shard<@a, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total scale %scale : tensor<f64>
    // expected-error@below {{S8: does not divide gradients by the loss scale}}
    fsdp.update @a with %da step %step lr %lr clip %clip : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// S8: an update that takes no factor would not be left out.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @v : !m
  // expected-note@below {{the optimizer is declared here}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 2.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 20
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@v] of ["a"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %scale = fsdp.loss_scale : !s
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    %ra = fsdp.reduce_scatter.start @a(%x) over ["dp"] avg bwd on compute : !m
    %da = fsdp.reduce_scatter.wait %ra : !fsdp.shard<@a, f32>
    %part = fsdp.partial_norm 2(%da) : (!fsdp.shard<@a, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on compute : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total scale %scale : tensor<f64>
    // expected-error@below {{S8: the update of @a takes no clip factor, but the optimizer has a 'loss_scale', which leaves out updates by it}}
    fsdp.update @a with %da step %step lr %lr scale %scale : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}
