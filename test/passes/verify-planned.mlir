// RUN: fsdp-opt %s -split-input-file -verify-diagnostics -fsdp-verify-planned

// A sound plan: nothing to say.
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
    %y = aten.call "neg.default"(%w) fwd in "" at [384] : (tensor<32xf32>) -> tensor<32xf32>
    %loss = aten.call "sum.default"(%y, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: two results that are live together are apart.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    // expected-note @below {{result #0 of 'neg.default' in "a" is made here}}
    %y = aten.call "neg.default"(%x) fwd in "a" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-error @below {{P2: result #0 of 'relu.default' in "b" at bytes [320, 448) overlaps result #0 of 'neg.default' in "a" at bytes [256, 384), which is live}}
    %z = aten.call "relu.default"(%x) fwd in "b" at [320] : (tensor<32xf32>) -> tensor<32xf32>
    %loss = aten.call "dot.default"(%y, %z) fwd in "" at [512] : (tensor<32xf32>, tensor<32xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: an operand is live while its operation runs: no result may take its bytes.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    // expected-note @below {{is made here}}
    %y = aten.call "neg.default"(%x) fwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-error @below {{P2: result #0 of 'sum.default' in "" at bytes [256, 260) overlaps}}
    %loss = aten.call "sum.default"(%y, none) fwd in "" at [256] : (tensor<32xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: a view's use is a use of its storage.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    // expected-note @below {{is made here}}
    %y = aten.call "neg.default"(%x) fwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %v = aten.call "view.default"(%y, [4, 8]) fwd in "" : (tensor<32xf32>) -> tensor<4x8xf32>
    // expected-error @below {{P2: result #0 of 'relu.default'}}
    %z = aten.call "relu.default"(%x) fwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %loss = aten.call "sum.default"(%v, none) fwd in "" at [512] : (tensor<4x8xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: the gather writes from its start on, not from its wait.
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
    // expected-note @below {{the gathered group @g is made here}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather at 256 : !fsdp.shard<@g, f32>
    // expected-error @below {{P2: result #0 of 'sum.default' in "" at bytes [256, 260) overlaps the gathered group @g at bytes [256, 384), which is live}}
    %loss = aten.call "sum.default"(%x, none) fwd in "" at [256] : (tensor<32xf32>) -> tensor<f32>
    %w = fsdp.all_gather.wait %u : tensor<32xf32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: a reduction reads its input until its wait.
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
    %y = aten.call "neg.default"(%w) fwd in "" at [384] : (tensor<32xf32>) -> tensor<32xf32>
    %loss = aten.call "sum.default"(%y, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    // expected-note @below {{is made here}}
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xf32>
    // expected-error @below {{P2: result #0 of 'relu.default' in "" at bytes [256, 384) overlaps result #0 of 'neg.default'}}
    %z = aten.call "relu.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: a gradient that is copied needs its bytes from the reduction's start on.
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
    %y = aten.call "neg.default"(%w) fwd in "" at [384] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-note @below {{is made here}}
    %loss = aten.call "sum.default"(%y, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-error @below {{P2: the gradient of @w at bytes [512, 640) overlaps result #0 of 'sum.default' in "" at bytes [512, 516), which is live}}
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [512, 384] : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: the reduced shard is live until the update.
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
    %y = aten.call "neg.default"(%w) fwd in "" at [384] : (tensor<32xf32>) -> tensor<32xf32>
    %loss = aten.call "sum.default"(%y, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-note @below {{the reduced shard of @g is made here}}
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    // expected-error @below {{P2: result #0 of 'relu.default' in "" at bytes [320, 448) overlaps the reduced shard of @g at bytes [384, 448), which is live}}
    %z = aten.call "relu.default"(%x) bwd in "" at [320] : (tensor<32xf32>) -> tensor<32xf32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: the loss is needed after the step's last operation.
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
    %y = aten.call "neg.default"(%w) fwd in "" at [384] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-note @below {{is made here}}
    %loss = aten.call "sum.default"(%y, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    // expected-error @below {{P2: result #0 of 'relu.default' in "" at bytes [448, 576) overlaps result #0 of 'sum.default' in "" at bytes [512, 516), which is live}}
    %z = aten.call "relu.default"(%x) bwd in "" at [448] : (tensor<32xf32>) -> tensor<32xf32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: inputs are there before the step: an earlier operation may not write over them.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    %c = fsdp.input "c" at 384 : tensor<32xf32>
    // expected-error @below {{P2: result #0 of 'neg.default' in "" at bytes [128, 256) overlaps input "x" at bytes [128, 256), which is live}}
    %y = aten.call "neg.default"(%c) fwd in "" at [128] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-note @below {{input "x" is made here}}
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    %loss = aten.call "dot.default"(%x, %x) fwd in "" at [512] : (tensor<32xf32>, tensor<32xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: what outlives the step is live throughout.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  // expected-error @below {{P2: buffer @b at bytes [0, 16) overlaps the shard of @g at bytes [0, 64), which is live}}
  fsdp.buffer @b : tensor<4xf32> at 0
  // expected-note @below {{the shard of @g is made here}}
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false at shard 0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    %loss = aten.call "sum.default"(%x, none) fwd in "" at [512] : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce at [256, 384] : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P1: places are aligned.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    // expected-error @below {{P1: result #0 of 'sum.default' in "" lies at byte 516, expected a multiple of 64}}
    %loss = aten.call "sum.default"(%x, none) fwd in "" at [516] : (tensor<32xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P1: they lie within the arena.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    // expected-error @below {{P1: result #0 of 'sum.default' in "" at bytes [1024, 1028) does not lie within the arena of 1024 bytes}}
    %loss = aten.call "sum.default"(%x, none) fwd in "" at [1024] : (tensor<32xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P1: every buffer has one.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    // expected-error @below {{P1: has a buffer without an arena offset}}
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (tensor<32xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: the starts of a bucket are one launch: what the second one fills must not be in use at the first.
!m = tensor<4x4xf32>
!t = tensor<4x4xf32, #aten.strides<[1, 4]>>
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.group @k [@v] of ["k"] over @mesh "dp" flat reshard_after_forward false at shard 0
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward false at shard 64
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 192 : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" at [256] : (!m) -> tensor<f32>
    %h = aten.call "neg.default"(%x) bwd in "l" at [512] : (!m) -> !m
    // expected-note @below {{result #0 of 'neg.default' in "k" is made here}}
    %g = aten.call "neg.default"(%x) bwd in "k" at [128] : (!m) -> !m
    %t = aten.call "t.default"(%g) bwd in "k" : (!m) -> !t
    %rk = fsdp.reduce_scatter.start @k(%t) over ["dp"] avg bwd on reduce at [320, 448] : !t
    // expected-error @below {{P2: the reduced shard of @l at bytes [128, 192) overlaps result #0 of 'neg.default' in "k" at bytes [128, 192), which is live}}
    %rl = fsdp.reduce_scatter.start @l(%h) over ["dp"] avg bwd on reduce coalesced at [512, 128] : !m
    %dk = fsdp.reduce_scatter.wait %rk : !fsdp.shard<@k, f32>
    %dl = fsdp.reduce_scatter.wait %rl : !fsdp.shard<@l, f32>
    fsdp.update @k with %dk step %step lr %lr : !fsdp.shard<@k, f32>
    fsdp.update @l with %dl step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : tensor<f32>
  }
}

// -----

// P2: a reduced shard is there until it is averaged over the replicas, and longer than until its own wait.
module attributes {fsdp.arena_bytes = 1024 : i64, fsdp.peak_live_bytes = 1024 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @w : tensor<32xf32>
  fsdp.group @g [@w] of [""] over @mesh "shard" replicated "replicate" flat reshard_after_forward false at shard 0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" at 128 : tensor<32xf32>
    %g = aten.call "neg.default"(%x) bwd in "" at [256] : (tensor<32xf32>) -> tensor<32xf32>
    // expected-note @below {{the reduced shard of @g is made here}}
    %r = fsdp.reduce_scatter.start @g(%g) over ["shard"] avg bwd on reduce at [256, 384] : tensor<32xf32>
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    // expected-error @below {{P2: result #0 of 'sum.default' in "" at bytes [384, 388) overlaps the reduced shard of @g at bytes [384, 448), which is live}}
    %loss = aten.call "sum.default"(%x, none) fwd in "" at [384] : (tensor<32xf32>) -> tensor<f32>
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@g, f32>
    fsdp.update @g with %f step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}
