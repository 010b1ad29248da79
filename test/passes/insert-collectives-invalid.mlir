// RUN: fsdp-opt %s --split-input-file --fsdp-insert-collectives --verify-diagnostics

// Groups must have been declared.
// expected-error@below {{the module has no groups; run fsdp-group-parameters first}}
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  func.func @step() -> tensor<f32> {
    %loss = fsdp.input "x" : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A sharded module is not sharded again.
// expected-error@below {{fsdp-insert-collectives takes a module of phase captured, got sharded}}
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  func.func @step() -> tensor<f32> {
    %loss = fsdp.input "x" : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A module with no step.
// expected-error@below {{M1: expected one function of one block, the step}}
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
}

// -----

// The dtypes that are asked for must have been decided.
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  // expected-error@below {{group @l asks for param_dtype bf16, but is gathered as f32; run fsdp-mixed-precision first}}
  fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true mixed_precision <param_dtype = bf16>
  func.func @step() -> tensor<f32> {
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "l" : (tensor<4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A parameter may be used only while its group is gathered.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  // expected-note@below {{the group is gathered while the modules ["l"] run; put all modules that use a parameter into its group}}
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %e = fsdp.read @e.w : !m
    %w = fsdp.read @l.w : !m
    %y = aten.call "mm.default"(%e, %w) fwd in "l" : (!m, !m) -> !m
    // expected-error@below {{parameter @l.w is used while its group @l is not gathered, by module 'head'}}
    %z = aten.call "mm.default"(%y, %w) fwd in "head" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!m) -> !s
    fsdp.grad @l.w, %y : !m
    fsdp.grad @e.w, %y : !m
    fsdp.update @e.w step %step lr %lr
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// A group none of whose modules runs would never be gathered.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  // expected-error@below {{no operation of the forward comes from the modules ["l"] of group @l, whose parameters would never be gathered}}
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @l.w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (!m) -> !s
    fsdp.grad @l.w, %w : !m
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// Every parameter is in some group.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a : !m
  // expected-error@below {{parameter @b is in no group}}
  fsdp.param @b : !m
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}

// -----

// A parameter is in one group only.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a : !m
  fsdp.mesh @mesh <dp = 2>
  // expected-note@below {{first grouped here}}
  fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
  // expected-error@below {{M2: parameter @a is already in group @l}}
  fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}

// -----

// Every parameter has a gradient.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a : !m
  // expected-error@below {{parameter @b has no gradient}}
  fsdp.param @b : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@a, @b] of [""] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    fsdp.grad @a, %x : !m
    fsdp.update @a step %step lr %lr
    return %loss : !s
  }
}

// -----

// A parameter has one gradient.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    fsdp.grad @a, %x : !m
    // expected-error@below {{parameter @a has two gradients}}
    fsdp.grad @a, %x : !m
    fsdp.update @a step %step lr %lr
    return %loss : !s
  }
}

// -----

// Updates say when the groups are updated: there must be some.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a : !m
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward true
  // expected-error@below {{no parameter is updated}}
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    fsdp.grad @a, %x : !m
    return %loss : !s
  }
}
