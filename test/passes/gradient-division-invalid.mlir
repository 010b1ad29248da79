// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-verify-sharded

// S4: the group's factor is divided by.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true gradient_divide_factor 3.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %y = fsdp.input "y" : !m
    %loss = aten.call "sum.default"(%y, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{S4: the gradients of group @l are reduced by premul_sum predivide 4, expected premul_sum predivide 3}}
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] premul_sum predivide 4.0 bwd on reduce : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: f16 is not averaged by the collective.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true reduce_dtype f16
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<4x4xf16>
    %y = fsdp.input "y" : !m
    %loss = aten.call "sum.default"(%y, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{S4: the gradients of group @l are reduced by avg, expected sum predivide 2}}
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : tensor<4x4xf16>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f16>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f16>
    return %loss : !s
  }
}

// -----

// S4: what is divided behind the replicas is not divided before.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true force_sum_reduction
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %y = fsdp.input "y" : !m
    %loss = aten.call "sum.default"(%y, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{S4: the gradients of group @l are reduced by sum postdivide 4, expected sum}}
    %r = fsdp.reduce_scatter.start @l(%x) over ["shard"] sum postdivide 4.0 bwd on reduce : !m
    %a = fsdp.all_reduce.start %r over ["replicate"] sum bwd on replicate : !fsdp.handle
    %e = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    %d = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S4: gradients that are whole on each rank are reduced over the replicas.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 1>
  fsdp.group @l [@w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true 
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %y = fsdp.input "y" : !m
    %loss = aten.call "sum.default"(%y, none) fwd in "l" : (!m) -> !s
    %p = fsdp.pack @l(%x) : (!m) -> !fsdp.shard<@l, f32>
    // expected-error@below {{S4: the gradients of group @l are reduced over the replicas by sum, expected avg}}
    %a = fsdp.all_reduce.start %p over ["replicate"] sum bwd on replicate : !fsdp.shard<@l, f32>
    %d = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

!v = tensor<4xf32>
fsdp.param @a : !v
fsdp.mesh @mesh <dp = 2>
// expected-error @below {{gradient_divide_factor is 0, expected a finite number above 0 that fp32 holds}}
fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none gradient_divide_factor 0.0

// -----

// Of fp32 this is zero.
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
fsdp.mesh @mesh <dp = 2>
// expected-error @below {{gradient_divide_factor is 1e-60, expected a finite number above 0 that fp32 holds}}
fsdp.group @root [] of [""] over @mesh "dp" flat reshard_after_forward none gradient_divide_factor 1.0e-60

// -----

// S4: a factor that FSDP2 would divide by twice is refused in edited text, too.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  // expected-error@below {{S4: group @l: gradient_divide_factor is 3 and reductions are to be sums: where a parameter lies on one rank alone, FSDP2 divides twice then}}
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true gradient_divide_factor 3.0 force_sum_reduction
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    %d = fsdp.pack @l(%x) : (!m) -> !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}
