// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-optimize-schedule=memory-cap=150KiB
// RUN: not fsdp-opt %s -split-input-file --fsdp-optimize-schedule=memory-cap=many 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not fsdp-opt %s -split-input-file --fsdp-optimize-schedule=device=abacus 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not fsdp-opt %s -split-input-file --fsdp-optimize-schedule=schedule=best 2>&1 | FileCheck %s --check-prefix=WORD

// SIZE: error: memory-cap is 'many', expected a size as in 80000000, 70GiB or 80GB
// DEVICE: error: {{.*}}'abacus'
// WORD: {{.*}}schedule{{.*}}best

// A cap below what any schedule needs is refused with the least peak and its place, what is live there,
// and what would help. A result of 64 KiB that the backward reads; the group of 16 KiB it does
// not read, and does not gather.
!m = tensor<64x64xf32>
!h = tensor<256x64xf32>
!s = tensor<f32>
// expected-error@+4 {{no schedule fits the memory cap of 153600 bytes: at least 213056 bytes are live at once, at 'mul.Tensor' in backward of module 'a'}}
// expected-note@+3 {{offload-optimizer=all: at least 204864 bytes}}
// expected-note@+2 {{with 4 ranks instead of 2: at least 204864 bytes}}
// expected-note@+1 {{a smaller batch: activations and inputs hold 196672 of the 213056 bytes}}
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @a.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward auto
  func.func @step() -> !s {
    %s = fsdp.shard @a : !fsdp.shard<@a, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !h
    %u0 = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@a, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %y0 = aten.call "mm.default"(%x, %w0) fwd in "a" : (!h, !m) -> !h
    fsdp.reshard %u0 fwd
    %loss = aten.call "sum.default"(%y0, none) fwd in "" : (!h) -> !s
    %v0 = fsdp.all_gather.start %s over ["dp"] bwd on compute : !fsdp.shard<@a, f32>
    %z0 = fsdp.all_gather.wait %v0 : !m
    // expected-note@+6 {{live there, the largest 5 of 5:}}
    // expected-note@+5 {{131072 bytes: activation of module 'a'}}
    // expected-note@+4 {{65536 bytes: input 'x'}}
    // expected-note@+3 {{8192 bytes: optimizer state of all groups}}
    // expected-note@+2 {{8192 bytes: shard of all groups}}
    // expected-note@+1 {{64 bytes: activation of the root module}}
    %d = aten.call "mul.Tensor"(%y0, %x) bwd in "a" : (!h, !h) -> !h
    %g = aten.call "embedding_dense_backward.default"(%d, 64) bwd in "a" : (!h) -> !m
    fsdp.reshard %v0 bwd
    %r0 = fsdp.reduce_scatter.start @a(%g) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@a, f32>
    fsdp.update @a with %d0 step %step lr %lr : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// What recomputing would save is found by recomputing: here the product that the backward reads. The
// choice for the whole step, which is written to the group, does not stand in the way.
!m = tensor<64x64xf32>
!h = tensor<256x64xf32>
!s = tensor<f32>
// expected-error@+5 {{no schedule fits the memory cap of 153600 bytes: at least 278528 bytes are live at once, at 'relu.default' in forward of the root module}}
// expected-note@+4 {{recompute=cheap: at least 229376 bytes}}
// expected-note@+3 {{offload-optimizer=all: at least 270336 bytes}}
// expected-note@+2 {{with 4 ranks instead of 2: at least 270336 bytes}}
// expected-note@+1 {{a smaller batch: activations and inputs hold 262144 of the 278528 bytes}}
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.recompute = #fsdp.recompute<none, blocks = 0, for = asked>} {
  fsdp.param @a.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true recompute auto recomputed none decisions [#fsdp.decision<recomputed, "as chosen">]
  func.func @step() -> !s {
    %s = fsdp.shard @a : !fsdp.shard<@a, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !h
    %u0 = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@a, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %h = aten.call "mul.Tensor"(%x, %x) fwd in "a" : (!h, !h) -> !h
    %y = aten.call "mm.default"(%h, %w0) fwd in "a" : (!h, !m) -> !h
    fsdp.reshard %u0 fwd
    // expected-note@+6 {{live there, the largest 5 of 5:}}
    // expected-note@+5 {{131072 bytes: activation of module 'a'}}
    // expected-note@+4 {{65536 bytes: activation of the root module}}
    // expected-note@+3 {{65536 bytes: input 'x'}}
    // expected-note@+2 {{8192 bytes: optimizer state of all groups}}
    // expected-note@+1 {{8192 bytes: shard of all groups}}
    %r = aten.call "relu.default"(%y) fwd in "" : (!h) -> !h
    %q = aten.call "tanh.default"(%r) fwd in "" : (!h) -> !h
    %loss = aten.call "sum.default"(%q, none) fwd in "" : (!h) -> !s
    %v0 = fsdp.all_gather.start %s over ["dp"] bwd on compute : !fsdp.shard<@a, f32>
    %z0 = fsdp.all_gather.wait %v0 : !m
    %g = aten.call "embedding_dense_backward.default"(%h, 64) bwd in "a" : (!h) -> !m
    fsdp.reshard %v0 bwd
    %r0 = fsdp.reduce_scatter.start @a(%g) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@a, f32>
    fsdp.update @a with %d0 step %step lr %lr : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}

// -----

// What is no sharded step is refused before anything is decided.
!m = tensor<4x4xf32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward auto
  func.func @step() -> tensor<f32> {
    %s = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    // expected-note@+1 {{gathered here}}
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@g, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (!m) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (!m) -> !m
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    // expected-error@+1 {{group @g is updated while it is gathered}}
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %loss : tensor<f32>
  }
}

// -----

// What reductions leave to one all-reduce behind the last microbatch has no place in a search.
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  // expected-error@+1 {{gradient_sync of group @g is reduce_scatter; use schedule=fsdp2, or gradient_sync each or last}}
  fsdp.group @g [@w] of [""] over @mesh "shard" replicated "replicate" flat reshard_after_forward auto gradient_sync reduce_scatter
  func.func @step() -> tensor<f32> {
    %loss = fsdp.input "loss" : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// Stages whose microbatches are interleaved have no place in a search either.
// expected-error@+1 {{the order of microbatches is 1f1b; use schedule=fsdp2, or microbatch-order=sequential without stages}}
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a", "b"]>} {
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    %loss = fsdp.input "loss" : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// Prefetch is an order of its own.
// expected-error@+1 {{prefetch is 'none', an order of its own; leave it out where the schedule is searched for}}
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.prefetch = #fsdp.prefetch<none>} {
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  func.func @step() -> tensor<f32> {
    %loss = fsdp.input "loss" : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// expected-error@+1 {{fsdp-optimize-schedule takes a module of phase sharded, got captured}}
module {
}
