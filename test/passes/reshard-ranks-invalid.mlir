// RUN: fsdp-opt %s --fsdp-verify-scheduled -verify-diagnostics -split-input-file

// A group is kept by a factor of its axis.
module {
  fsdp.param @w : tensor<4x4xf32>
  fsdp.mesh @mesh <dp = 4>
  // expected-error@below {{keeps chunks over 3 ranks, expected a factor of the 4 of axis 'dp', other than 1 and all}}
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true to 3
}

// -----

// What is not resharded has no chunks.
module {
  fsdp.param @w : tensor<4x4xf32>
  fsdp.mesh @mesh <dp = 4>
  // expected-error@below {{keeps chunks over 2 ranks, but its reshard_after_forward is false, expected true}}
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward false to 2
}

// -----

// A chunk is one of gathered parameters, not of other tensors of their types.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.mesh @mesh <dp = 4>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true to 2
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    // expected-error@below {{makes a chunk of group @l, but takes other values than one of its gathers yields}}
    %k = fsdp.chunk(%x) : (!m) -> !fsdp.shard<@l, f32, 2>
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    return %loss : !s
  }
}

// -----

// The ranks of a chunk are those that its group says.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.mesh @mesh <dp = 8>
  // expected-note@below {{declared here}}
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true to 2
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    // expected-error@below {{cuts group @l over 4 ranks, expected 2}}
    %k = fsdp.chunk(%w) : (!m) -> !fsdp.shard<@l, f32, 4>
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %u fwd
    return %loss : !s
  }
}

// -----

// What a rank owns is no chunk.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.mesh @mesh <dp = 4>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true to 2
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "l" : (!m) -> !s
    // expected-error@below {{has '!fsdp.shard<@l, f32, 2>', which only 'fsdp.chunk' makes and only 'fsdp.all_gather.start' takes}}
    %s = fsdp.shard @l : !fsdp.shard<@l, f32, 2>
    return %loss : !s
  }
}

// -----

// D3: in one launch the same ranks meet.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @v : !m
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 4>
  fsdp.group @k [@v] of ["k"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true to 2
  func.func @step() -> !s {
    %sk = fsdp.shard @k : !fsdp.shard<@k, f32>
    %sl = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u = fsdp.all_gather.start %sl over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (!m) -> !s
    %c = fsdp.chunk(%w) : (!m) -> !fsdp.shard<@l, f32, 2>
    fsdp.reshard %u fwd
    // expected-note@below {{'fsdp.all_gather.start' of group @k starts here}}
    %uk = fsdp.all_gather.start %sk over ["dp"] bwd on gather : !fsdp.shard<@k, f32>
    // expected-error@below {{D3: 'fsdp.all_gather.start' of group @l meets 2 ranks, but is coalesced with one that meets 4}}
    %ul = fsdp.all_gather.start %c over ["dp"] bwd on gather coalesced : !fsdp.shard<@l, f32, 2>
    %vk = fsdp.all_gather.wait %uk : !m
    %vl = fsdp.all_gather.wait %ul : !m
    fsdp.reshard %uk bwd
    fsdp.reshard %ul bwd
    %rk = fsdp.reduce_scatter.start @k(%x) over ["dp"] avg bwd on reduce : !m
    %rl = fsdp.reduce_scatter.start @l(%x) over ["dp"] avg bwd on reduce : !m
    %dk = fsdp.reduce_scatter.wait %rk : !fsdp.shard<@k, f32>
    %dl = fsdp.reduce_scatter.wait %rl : !fsdp.shard<@l, f32>
    fsdp.update @k with %dk step %step lr %lr : !fsdp.shard<@k, f32>
    fsdp.update @l with %dl step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// Chunks are gathered by kernels.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !m
  fsdp.mesh @mesh <dp = 4>
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true to 2
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %w = fsdp.all_gather.wait %u : !m
    %k = fsdp.chunk(%w) : (!m) -> !fsdp.shard<@l, f32, 2>
    fsdp.reshard %u fwd
    // expected-error@below {{gathers a chunk by copy_engine, expected kernels}}
    %v = fsdp.all_gather.start %k over ["dp"] bwd on gather by copy_engine : !fsdp.shard<@l, f32, 2>
    %z = fsdp.all_gather.wait %v : !m
    %loss = aten.call "sum.default"(%z, none) fwd in "l" : (!m) -> !s
    fsdp.reshard %v bwd
    return %loss : !s
  }
}
