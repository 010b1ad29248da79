// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-sum-gradients-by-module

// The attribute speaks of more gradients than are added up.
!t = tensor<4xf32>
module {
  fsdp.param @w : !t
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !t
    %loss = aten.call "sum.default"(%w, f32) fwd in "" : (!t) -> tensor<f32>
    // expected-error @below {{has an aten.sum of 3 gradients, but adds up 2}}
    %s = aten.call "add.Tensor"(%w, %w, 1) bwd in ""
        {aten.sum = [#aten.scope<"">, #aten.scope<"a">, #aten.scope<"b">, #aten.scope<"b">]} : (!t, !t) -> !t
    fsdp.grad @w, %s : !t
    fsdp.update @w step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// The attribute is something else.
!t = tensor<4xf32>
module {
  fsdp.param @w : !t
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !t
    %loss = aten.call "sum.default"(%w, f32) fwd in "" : (!t) -> tensor<f32>
    // expected-error @below {{has an aten.sum of 1 attributes, expected a scope and those of two gradients or more}}
    %s = aten.call "add.Tensor"(%w, %w, 1) bwd in "" {aten.sum = [1]} : (!t, !t) -> !t
    fsdp.grad @w, %s : !t
    fsdp.update @w step %step lr %lr
    return %loss : tensor<f32>
  }
}
