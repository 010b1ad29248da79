// RUN: fsdp-opt %s --split-input-file --fsdp-verify-sharded --verify-diagnostics

// A sound step.
!m = tensor<4x4xf32>
!q = tensor<4x4xf8E4M3FN>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
      float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype f8E4M3FN
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %part = fsdp.partial_amax(%s) : (!fsdp.shard<@l, f32>) -> tensor<1xf32>
    %n = fsdp.all_reduce.start %part over ["dp"] max fwd on compute : tensor<1xf32>
    %total = fsdp.all_reduce.wait %n : tensor<1xf32>
    %q = fsdp.encode %s by %total : !fsdp.shard<@l, f32> by tensor<1xf32> to !fsdp.shard<@l, f8E4M3FN>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, f8E4M3FN>
    %w = fsdp.all_gather.wait %u : !q
    %f = aten.call "_to_copy.default"(%w, f32, none, none, none, false, none) fwd in "l" : (!q) -> !m
    %sum = aten.call "sum.default"(%f, none) fwd in "l" : (!m) -> !s
    %a = fsdp.amax @w of %total : tensor<1xf32> -> tensor<f32>
    %loss = aten.call "div.Tensor"(%sum, %a) fwd in "l" : (!s, !s) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: the largest absolute value is that of all ranks.
!m = tensor<4x4xf32>
!q = tensor<4x4xf8E4M3FN>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
      float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype f8E4M3FN
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %part = fsdp.partial_amax(%s) : (!fsdp.shard<@l, f32>) -> tensor<1xf32>
    %n = fsdp.all_reduce.start %part over ["dp"] max fwd on compute : tensor<1xf32>
    %total = fsdp.all_reduce.wait %n : tensor<1xf32>
    // expected-note@below {{it is made here}}
    %y = fsdp.input "y" : tensor<1xf32>
    // expected-error@below {{S2: the amax by which group @l is gathered as float8 is not that of all 2 ranks, from a fsdp.all_reduce.wait of a fsdp.partial_amax}}
    %q = fsdp.encode %s by %y : !fsdp.shard<@l, f32> by tensor<1xf32> to !fsdp.shard<@l, f8E4M3FN>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, f8E4M3FN>
    %w = fsdp.all_gather.wait %u : !q
    %f = aten.call "_to_copy.default"(%w, f32, none, none, none, false, none) fwd in "l" : (!q) -> !m
    %sum = aten.call "sum.default"(%f, none) fwd in "l" : (!m) -> !s
    %a = fsdp.amax @w of %total : tensor<1xf32> -> tensor<f32>
    %loss = aten.call "div.Tensor"(%sum, %a) fwd in "l" : (!s, !s) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: the ranks take the maximum.
!m = tensor<4x4xf32>
!q = tensor<4x4xf8E4M3FN>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
      float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype f8E4M3FN
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %part = fsdp.partial_amax(%s) : (!fsdp.shard<@l, f32>) -> tensor<1xf32>
    // expected-error@below {{S2: reduces the amax of parameters by sum over ["dp"], expected max over ["dp"]}}
    %n = fsdp.all_reduce.start %part over ["dp"] sum fwd on compute : tensor<1xf32>
    %total = fsdp.all_reduce.wait %n : tensor<1xf32>
    %q = fsdp.encode %s by %total : !fsdp.shard<@l, f32> by tensor<1xf32> to !fsdp.shard<@l, f8E4M3FN>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, f8E4M3FN>
    %w = fsdp.all_gather.wait %u : !q
    %f = aten.call "_to_copy.default"(%w, f32, none, none, none, false, none) fwd in "l" : (!q) -> !m
    %sum = aten.call "sum.default"(%f, none) fwd in "l" : (!m) -> !s
    %a = fsdp.amax @w of %total : tensor<1xf32> -> tensor<f32>
    %loss = aten.call "div.Tensor"(%sum, %a) fwd in "l" : (!s, !s) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: one all-reduce has the values of all parameters.
!m = tensor<4x4xf32>
!q = tensor<4x4xf8E4M3FN>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
      float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype f8E4M3FN
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-note@below {{the first time is here}}
    %part = fsdp.partial_amax(%s) : (!fsdp.shard<@l, f32>) -> tensor<1xf32>
    %n = fsdp.all_reduce.start %part over ["dp"] max fwd on compute : tensor<1xf32>
    %total = fsdp.all_reduce.wait %n : tensor<1xf32>
    // expected-error@below {{S2: the amax of parameters is taken twice}}
    %part2 = fsdp.partial_amax(%s) : (!fsdp.shard<@l, f32>) -> tensor<1xf32>
    %n2 = fsdp.all_reduce.start %part2 over ["dp"] max fwd on compute : tensor<1xf32>
    %total2 = fsdp.all_reduce.wait %n2 : tensor<1xf32>
    %q = fsdp.encode %s by %total : !fsdp.shard<@l, f32> by tensor<1xf32> to !fsdp.shard<@l, f8E4M3FN>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, f8E4M3FN>
    %w = fsdp.all_gather.wait %u : !q
    %f = aten.call "_to_copy.default"(%w, f32, none, none, none, false, none) fwd in "l" : (!q) -> !m
    %sum = aten.call "sum.default"(%f, none) fwd in "l" : (!m) -> !s
    %a = fsdp.amax @w of %total : tensor<1xf32> -> tensor<f32>
    %loss = aten.call "div.Tensor"(%sum, %a) fwd in "l" : (!s, !s) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: it is taken of the shard.
!m = tensor<4x4xf32>
!q = tensor<4x4xf8E4M3FN>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
      float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype f8E4M3FN
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %r0 = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    // expected-note@below {{made here}}
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    // expected-error@below {{S2: the amax of group @l is not taken of its shard}}
    %part = fsdp.partial_amax(%d0) : (!fsdp.shard<@l, f32>) -> tensor<1xf32>
    %n = fsdp.all_reduce.start %part over ["dp"] max fwd on compute : tensor<1xf32>
    %total = fsdp.all_reduce.wait %n : tensor<1xf32>
    %q = fsdp.encode %s by %total : !fsdp.shard<@l, f32> by tensor<1xf32> to !fsdp.shard<@l, f8E4M3FN>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, f8E4M3FN>
    %w = fsdp.all_gather.wait %u : !q
    %f = aten.call "_to_copy.default"(%w, f32, none, none, none, false, none) fwd in "l" : (!q) -> !m
    %sum = aten.call "sum.default"(%f, none) fwd in "l" : (!m) -> !s
    %a = fsdp.amax @w of %total : tensor<1xf32> -> tensor<f32>
    %loss = aten.call "div.Tensor"(%sum, %a) fwd in "l" : (!s, !s) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: a value that the ranks combine is used for nothing else.
!m = tensor<4x4xf32>
!q = tensor<4x4xf8E4M3FN>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
      float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype f8E4M3FN
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    // expected-error@below {{S2: the amax of this rank's shards is not the operand of one all-reduce}}
    %part = fsdp.partial_amax(%s) : (!fsdp.shard<@l, f32>) -> tensor<1xf32>
    %n = fsdp.all_reduce.start %part over ["dp"] max fwd on compute : tensor<1xf32>
    %total = fsdp.all_reduce.wait %n : tensor<1xf32>
    %q = fsdp.encode %s by %total : !fsdp.shard<@l, f32> by tensor<1xf32> to !fsdp.shard<@l, f8E4M3FN>
    %other = aten.call "neg.default"(%part) fwd in "l" : (tensor<1xf32>) -> tensor<1xf32>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, f8E4M3FN>
    %w = fsdp.all_gather.wait %u : !q
    %f = aten.call "_to_copy.default"(%w, f32, none, none, none, false, none) fwd in "l" : (!q) -> !m
    %sum = aten.call "sum.default"(%f, none) fwd in "l" : (!m) -> !s
    %a = fsdp.amax @w of %total : tensor<1xf32> -> tensor<f32>
    %loss = aten.call "div.Tensor"(%sum, %a) fwd in "l" : (!s, !s) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// S2: the step reads the value of all ranks.
!m = tensor<4x4xf32>
!q = tensor<4x4xf8E4M3FN>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true
      float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype f8E4M3FN
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %part = fsdp.partial_amax(%s) : (!fsdp.shard<@l, f32>) -> tensor<1xf32>
    %n = fsdp.all_reduce.start %part over ["dp"] max fwd on compute : tensor<1xf32>
    %total = fsdp.all_reduce.wait %n : tensor<1xf32>
    %q = fsdp.encode %s by %total : !fsdp.shard<@l, f32> by tensor<1xf32> to !fsdp.shard<@l, f8E4M3FN>
    %u = fsdp.all_gather.start %q over ["dp"] fwd on compute : !fsdp.shard<@l, f8E4M3FN>
    %w = fsdp.all_gather.wait %u : !q
    %f = aten.call "_to_copy.default"(%w, f32, none, none, none, false, none) fwd in "l" : (!q) -> !m
    %sum = aten.call "sum.default"(%f, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{S2: the amax by which group @l is gathered as float8 is not that of all 2 ranks}}
    %a = fsdp.amax @w -> tensor<f32>
    %loss = aten.call "div.Tensor"(%sum, %a) fwd in "l" : (!s, !s) -> !s
    fsdp.reshard %u fwd
    %r = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on compute : !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}
