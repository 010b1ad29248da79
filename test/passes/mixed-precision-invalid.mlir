// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-mixed-precision

// What a parameter is used for otherwise is named where a narrower gather is asked for.
!v = tensor<4xf32>
fsdp.param @a : !v
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
fsdp.mesh @mesh <dp = 2>
// expected-error @below {{group @root cannot be gathered as 'bf16': parameter @a is used as f32 by 'sum.default' in module 'norm'}}
// expected-note @below {{is captured with --param-dtype, or casts them itself}}
fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = bf16>
func.func @step() -> tensor<f32> {
  %step = fsdp.input "step" : i64
  %lr = fsdp.input "lr" : f64
  %a = fsdp.read @a : !v
  // expected-note @below {{used here}}
  %loss = aten.call "sum.default"(%a, f32) fwd in "norm" : (!v) -> tensor<f32>
  fsdp.grad @a, %a : !v
  fsdp.update @a step %step lr %lr
  return %loss : tensor<f32>
}

// -----

// A model that computes in another dtype than is asked for; on one rank, too.
!v = tensor<4xf32>
!h = tensor<4xf16>
fsdp.param @a : !v
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
fsdp.mesh @mesh <dp = 1>
// expected-error @below {{group @root cannot be gathered as 'bf16': its parameters are cast to 'f16'}}
// expected-note @below {{is captured with --param-dtype, or casts them itself}}
fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = bf16>
func.func @step() -> tensor<f32> {
  %step = fsdp.input "step" : i64
  %lr = fsdp.input "lr" : f64
  %a = fsdp.read @a : !v
  %c = aten.call "_to_copy.default"(%a, f16, none, none, none, false, none) fwd in "" : (!v) -> !h
  %loss = aten.call "sum.default"(%c, f32) fwd in "" : (!h) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The dtypes in which a group may travel.
// expected-note @below {{declared here}}
fsdp.param @a : tensor<4xf32>
fsdp.mesh @mesh <dp = 2>
// expected-error @below {{has gather_dtype 'f64' for parameters of 'f32'; expected theirs, or 'bf16' or 'f16' for parameters of f32}}
fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none gather_dtype f64

// -----

// expected-note @below {{declared here}}
fsdp.param @a : tensor<4xbf16>
fsdp.mesh @mesh <dp = 2>
// expected-error @below {{has reduce_dtype 'f32' for parameters of 'bf16'; expected theirs, or 'bf16' or 'f16' for parameters of f32}}
fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none reduce_dtype f32

// -----

// The same of what is asked for.
// expected-note @below {{declared here}}
fsdp.param @a : tensor<4xf32>
fsdp.mesh @mesh <dp = 2>
// expected-error @below {{has param_dtype 'f64' for parameters of 'f32'; expected theirs, or 'bf16' or 'f16' for parameters of f32}}
fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = f64>

// -----

// What the pass decides is not asked for.
fsdp.param @a : tensor<4xf32>
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
fsdp.mesh @mesh <dp = 2>
// expected-error @below {{group @root has its gather_dtype or reduce_dtype already, which this pass decides; what is asked for is mixed_precision}}
fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none gather_dtype bf16
func.func @step() -> tensor<f32> {
  %a = fsdp.read @a : tensor<4xf32>
  %loss = aten.call "sum.default"(%a, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// FSDP2 would cast what a group's module takes from outside. What the module makes or holds itself may have any dtype.
!v = tensor<4xf32>
!h = tensor<4xbf16>
fsdp.param @l.w : !v
fsdp.buffer @l.scale : !v
fsdp.buffer @table : !v
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
fsdp.mesh @mesh <dp = 2>
fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = bf16>
func.func @step() -> tensor<f32> {
  %step = fsdp.input "step" : i64
  %lr = fsdp.input "lr" : f64
  %scale = fsdp.read @l.scale : !v
  // expected-note @below {{made here}}
  %table = fsdp.read @table : !v
  %w = fsdp.read @l.w : !v
  %c = aten.call "_to_copy.default"(%w, bf16, none, none, none, false, none) fwd in "l.up" : (!v) -> !h
  %y = aten.call "mul.Tensor"(%c, %scale) fwd in "l" : (!h, !v) -> !v
  // expected-error @below {{module 'l' takes 'f32' from outside, for 'mul.Tensor' in module 'l.up'; with param_dtype 'bf16' FSDP2 casts floating-point arguments of a group's modules: cast it in the model}}
  %z = aten.call "mul.Tensor"(%y, %table) fwd in "l.up" : (!v, !v) -> !v
  %loss = aten.call "sum.default"(%z, none) fwd in "" : (!v) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// FSDP2 has no module for a part of a block: what it takes from outside enters the block.
!v = tensor<4xf32>
!h = tensor<4xbf16>
fsdp.param @l.up.w : !v
fsdp.param @l.w : !v
fsdp.buffer @table : !v
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
fsdp.mesh @mesh <dp = 2>
fsdp.group @l.up [@l.up.w] of ["l.up"] part_of "l" over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = bf16>
fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = bf16>
func.func @step() -> tensor<f32> {
  %step = fsdp.input "step" : i64
  %lr = fsdp.input "lr" : f64
  // expected-note @below {{made here}}
  %table = fsdp.read @table : !v
  %w = fsdp.read @l.w : !v
  %up = fsdp.read @l.up.w : !v
  %c = aten.call "_to_copy.default"(%w, bf16, none, none, none, false, none) fwd in "l" : (!v) -> !h
  %d = aten.call "_to_copy.default"(%up, bf16, none, none, none, false, none) fwd in "l.up" : (!v) -> !h
  %y = aten.call "mul.Tensor"(%c, %d) fwd in "l.up" : (!h, !h) -> !h
  // expected-error @below {{module 'l' takes 'f32' from outside, for 'mul.Tensor' in module 'l.up'; with param_dtype 'bf16' FSDP2 casts floating-point arguments of a group's modules: cast it in the model}}
  %z = aten.call "mul.Tensor"(%y, %table) fwd in "l.up" : (!h, !v) -> !v
  %loss = aten.call "sum.default"(%z, none) fwd in "" : (!v) -> tensor<f32>
  return %loss : tensor<f32>
}
