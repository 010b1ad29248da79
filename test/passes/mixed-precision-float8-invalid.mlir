// RUN: fsdp-opt %s --split-input-file --fsdp-mixed-precision --verify-diagnostics

// Groups whose float8_cast is not what the step does: it was written by hand, or the step was changed.

!m = tensor<4x8xf32>
!q = tensor<4x8xf8E4M3FN>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  // expected-error@below {{group @root cannot be gathered as 'f8E4M3FN': parameter @w is not cast to it}}
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
      float8_cast<dtype = f8E4M3FN, scale = f32, eps = 1.0e-12 : f64, saturated = false>
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %back = aten.call "neg.default"(%w) fwd in "" : (!m) -> !m
    %loss = aten.call "sum.default"(%back, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones.default"([4, 8], f32, none, none, false) bwd in "" : () -> !m
    fsdp.grad @w, %g : !m
    fsdp.update @w step %step lr %lr
    return %loss : !s
  }
}

// -----

!m = tensor<4x8xf32>
!q = tensor<4x8xf8E4M3FN>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  // expected-error@below {{parameter @w is cast by #fsdp.float8_cast<dtype = f8E4M3FN, scale = f32, eps = 1.000000e-10 : f64, saturated = false>, expected}}
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
      float8_cast<dtype = f8E4M3FN, scale = f32, eps = 1.0e-12 : f64, saturated = false>
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %abs = aten.call "abs.default"(%w) fwd in "" : (!m) -> !m
    %max = aten.call "max.default"(%abs) fwd in "" : (!m) -> !s
    %above = aten.call "clamp.default"(%max, 1.000000e-10, none) fwd in "" : (!s) -> !s
    %inverse = aten.call "reciprocal.default"(%above) fwd in "" : (!s) -> !s
    %scale = aten.call "mul.Tensor"(%inverse, 4.480000e+02) fwd in "" : (!s) -> !s
    %product = aten.call "mul.Tensor"(%w, %scale) fwd in "" : (!m, !s) -> !m
    %q = aten.call "_to_copy.default"(%product, f8E4M3FN, none, none, none, false, none) fwd in "" : (!m) -> !q
    %back = aten.call "_to_copy.default"(%q, f32, none, none, none, false, none) fwd in "" : (!q) -> !m
    %loss = aten.call "sum.default"(%back, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones.default"([4, 8], f32, none, none, false) bwd in "" : () -> !m
    fsdp.grad @w, %g : !m
    fsdp.update @w step %step lr %lr
    return %loss : !s
  }
}

// -----

!m = tensor<4x8xf32>
!q = tensor<4x8xf8E4M3FN>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  // expected-error@below {{parameter @w is cast to it, but it is used by 'neg.default' in the root module}}
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
      float8_cast<dtype = f8E4M3FN, scale = f32, eps = 1.0e-12 : f64, saturated = false>
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %abs = aten.call "abs.default"(%w) fwd in "" : (!m) -> !m
    %max = aten.call "max.default"(%abs) fwd in "" : (!m) -> !s
    %above = aten.call "clamp.default"(%max, 9.9999999999999998E-13, none) fwd in "" : (!s) -> !s
    %inverse = aten.call "reciprocal.default"(%above) fwd in "" : (!s) -> !s
    %scale = aten.call "mul.Tensor"(%inverse, 4.480000e+02) fwd in "" : (!s) -> !s
    %product = aten.call "mul.Tensor"(%w, %scale) fwd in "" : (!m, !s) -> !m
    %q = aten.call "_to_copy.default"(%product, f8E4M3FN, none, none, none, false, none) fwd in "" : (!m) -> !q
    %back = aten.call "_to_copy.default"(%q, f32, none, none, none, false, none) fwd in "" : (!q) -> !m
    %loss = aten.call "sum.default"(%back, none) fwd in "" : (!m) -> !s
    // expected-note@below {{used here}}
    %other = aten.call "neg.default"(%w) fwd in "" : (!m) -> !m
    %g = aten.call "ones.default"([4, 8], f32, none, none, false) bwd in "" : () -> !m
    fsdp.grad @w, %g : !m
    fsdp.update @w step %step lr %lr
    return %loss : !s
  }
}
