// RUN: fsdp-opt %s --split-input-file --fsdp-verify-sharded --verify-diagnostics

// S1: the module says how many microbatches there are.
!v = tensor<4xf32>
!s = tensor<f32>
// expected-error@below {{S1: the step has 1 microbatches, but 'fsdp.accumulation' says 2}}
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %g = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %h = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!v) -> !s
    return %loss : !s
  }
}

// -----

// S1: the batches of all microbatches have the same inputs, in the same order.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    // expected-note@below {{that of microbatch 0 is here}}
    %x = fsdp.input "x" : !v
    // expected-error@below {{S1: microbatch 1 has input "y" where microbatch 0 has "x"; all have the same inputs in the same order}}
    %y1 = fsdp.input "y" microbatch 1 : !v
    %y = fsdp.input "y" : !v
    %x1 = fsdp.input "x" microbatch 1 : !v
    %loss = aten.call "sum.default"(%x1, none) fwd in "l" microbatch 1 : (!v) -> !s
    return %loss : !s
  }
}

// -----

// S1: none has fewer.
!v = tensor<4xf32>
!s = tensor<f32>
// expected-error@below {{S1: microbatch 1 has 0 inputs, microbatch 0 has 1}}
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %loss = aten.call "sum.default"(%x, none) fwd in "l" microbatch 1 : (!v) -> !s
    return %loss : !s
  }
}

// -----

// S1: nor is there an input of a microbatch that the step does not have.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    // expected-error@below {{S1: input "x" is of microbatch 1, but the step has 1}}
    %x = fsdp.input "x" microbatch 1 : !v
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!v) -> !s
    return %loss : !s
  }
}

// -----

// S4: parameters are no gradient, although nothing reads the sum.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    // expected-note@below {{the value is made here}}
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %x1 = fsdp.input "x" microbatch 1 : !v
    %g = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %h = aten.call "neg.default"(%x) bwd in "l" microbatch 1 : (!v) -> !v
    %loss = aten.call "sum.default"(%x, none) fwd in "l" microbatch 1 : (!v) -> !s
    %r0 = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on compute : !v
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    // expected-error@below {{S4: the target of an addition of gradients is not a gradient, or is used elsewhere}}
    %e = fsdp.accumulate %s, %d0 : !fsdp.shard<@l, f32>, !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: nothing but the sum reads what is added to.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %x1 = fsdp.input "x" microbatch 1 : !v
    %g = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %h = aten.call "neg.default"(%x) bwd in "l" microbatch 1 : (!v) -> !v
    %loss = aten.call "sum.default"(%x, none) fwd in "l" microbatch 1 : (!v) -> !s
    %r0 = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on compute : !v
    // expected-note@below {{the value is made here}}
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    %r1 = fsdp.reduce_scatter.start @l(%h) over ["dp"] avg bwd on compute : !v
    %d1 = fsdp.reduce_scatter.wait %r1 : !fsdp.shard<@l, f32>
    // expected-error@below {{S4: the target of an addition of gradients is not a gradient, or is used elsewhere}}
    %e = fsdp.accumulate %d0, %d1 : !fsdp.shard<@l, f32>, !fsdp.shard<@l, f32>
    fsdp.update @l with %d0 step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: an update takes all reductions.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %x1 = fsdp.input "x" microbatch 1 : !v
    %g = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %h = aten.call "neg.default"(%x) bwd in "l" microbatch 1 : (!v) -> !v
    %loss = aten.call "sum.default"(%x, none) fwd in "l" microbatch 1 : (!v) -> !s
    %r0 = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on compute : !v
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    %r1 = fsdp.reduce_scatter.start @l(%h) over ["dp"] avg bwd on compute : !v
    // expected-note@below {{made here}}
    %d1 = fsdp.reduce_scatter.wait %r1 : !fsdp.shard<@l, f32>
    // expected-error@below {{S4: group @l is updated with the sum of 1 of its 2 reductions; expected each of them once, in their order}}
    fsdp.update @l with %d1 step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: an update takes all reductions, in their order.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %x1 = fsdp.input "x" microbatch 1 : !v
    %g = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %h = aten.call "neg.default"(%x) bwd in "l" microbatch 1 : (!v) -> !v
    %loss = aten.call "sum.default"(%x, none) fwd in "l" microbatch 1 : (!v) -> !s
    %r0 = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on compute : !v
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    %r1 = fsdp.reduce_scatter.start @l(%h) over ["dp"] avg bwd on compute : !v
    %d1 = fsdp.reduce_scatter.wait %r1 : !fsdp.shard<@l, f32>
    // expected-note@below {{made here}}
    %e = fsdp.accumulate %d1, %d0 : !fsdp.shard<@l, f32>, !fsdp.shard<@l, f32>
    // expected-error@below {{S4: group @l is updated with the sum of 2 of its 2 reductions; expected each of them once, in their order}}
    fsdp.update @l with %e step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: a group is updated behind its last reduction.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %x1 = fsdp.input "x" microbatch 1 : !v
    %g = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %h = aten.call "neg.default"(%x) bwd in "l" microbatch 1 : (!v) -> !v
    %loss = aten.call "sum.default"(%x, none) fwd in "l" microbatch 1 : (!v) -> !s
    %r0 = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on compute : !v
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    // expected-note@below {{updated here}}
    fsdp.update @l with %d0 step %step lr %lr : !fsdp.shard<@l, f32>
    // expected-error@below {{S4: the gradients of group @l are reduced after its update}}
    %r1 = fsdp.reduce_scatter.start @l(%h) over ["dp"] avg bwd on compute : !v
    %d1 = fsdp.reduce_scatter.wait %r1 : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: what is reduced over the replicas is a gradient.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
  func.func @step() -> !s {
    // expected-note@below {{it is made here}}
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %g = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %h = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!v) -> !s
    // expected-error@below {{S4: a tensor that is no gradient of group @l is reduced over the replicas}}
    %a = fsdp.all_reduce.start %s over ["replicate"] avg bwd on compute : !fsdp.shard<@l, f32>
    %d = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: of gradients that are added up whole, the first alone is rounded to reduce_dtype.
!v = tensor<4xf32>
!h = tensor<4xbf16>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
      reduce_dtype bf16 gradient_sync last
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %x1 = fsdp.input "x" microbatch 1 : !v
    %g = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %gr = aten.call "_to_copy.default"(%g, bf16, none, none, none, false, none) bwd in "l" : (!v) -> !h
    %h = aten.call "neg.default"(%x) bwd in "l" microbatch 1 : (!v) -> !v
    // expected-note@below {{rounded here}}
    %hr = aten.call "_to_copy.default"(%h, bf16, none, none, none, false, none) bwd in "l" microbatch 1 : (!v) -> !h
    %loss = aten.call "sum.default"(%x, none) fwd in "l" microbatch 1 : (!v) -> !s
    // expected-error@below {{S4: a gradient of group @l is rounded before the addition; only the sum is rounded}}
    %e = fsdp.accumulate %gr, %hr : !h, !h
    %r = fsdp.reduce_scatter.start @l(%e) over ["dp"] avg bwd on compute : !h
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, bf16>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, bf16>
    return %loss : !s
  }
}

// -----

// A copy does not hide that.
!v = tensor<4xf32>
!h = tensor<4xbf16>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>, fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
      reduce_dtype bf16 gradient_sync last
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %x1 = fsdp.input "x" microbatch 1 : !v
    %g = aten.call "neg.default"(%x) bwd in "l" : (!v) -> !v
    %gr = aten.call "_to_copy.default"(%g, bf16, none, none, none, false, none) bwd in "l" : (!v) -> !h
    %h = aten.call "neg.default"(%x) bwd in "l" microbatch 1 : (!v) -> !v
    // expected-note@below {{rounded here}}
    %hr = aten.call "_to_copy.default"(%h, bf16, none, none, none, false, none) bwd in "l" microbatch 1 : (!v) -> !h
    %loss = aten.call "sum.default"(%x, none) fwd in "l" microbatch 1 : (!v) -> !s
    %hc = aten.call "clone.default"(%hr, none) bwd in "l" microbatch 1 : (!h) -> !h
    // expected-error@below {{S4: a gradient of group @l is rounded before the addition; only the sum is rounded}}
    %e = fsdp.accumulate %gr, %hc : !h, !h
    %r = fsdp.reduce_scatter.start @l(%e) over ["dp"] avg bwd on compute : !h
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, bf16>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, bf16>
    return %loss : !s
  }
}
