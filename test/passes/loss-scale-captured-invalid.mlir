// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-verify-captured

// C5: a step has a scale if its optimizer does.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @v : !m
  // expected-error@below {{C5: has a 'loss_scale', but the step has no 'fsdp.loss_scale'}}
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 2.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 20
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    fsdp.grad @v, %x : !m
    fsdp.update @v step %step lr %lr
    return %loss : !s
  }
}

// -----

// C2: the captured update says it by its optimizer.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @v : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 2.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 20
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %scale = fsdp.loss_scale : !s
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    fsdp.grad @v, %x : !m
    // expected-error@below {{C2: of a captured step takes a loss scale; it divides gradients by its optimizer's 'loss_scale'}}
    fsdp.update @v step %step lr %lr scale %scale
    return %loss : !s
  }
}

// -----

// The options of a scale come together.
// expected-error@below {{'fsdp.optimizer' op has no 'growth_factor' but a 'loss_scale'}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 2.0

// -----

// expected-error@below {{'fsdp.optimizer' op has 'backoff_factor' but no 'loss_scale'}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 backoff_factor = 0.5

// -----

// expected-error@below {{'fsdp.optimizer' op 'growth_factor' is 0.5, expected a finite number, 1 or more}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 2.0 growth_factor = 0.5 backoff_factor = 0.5 growth_interval = 20
