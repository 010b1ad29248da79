// RUN: fsdp-opt %s --fsdp-recompute -verify-diagnostics

// The forward comes before the backward.
!m = tensor<4x4xf32>
module {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @l.w : !m
    %g = aten.call "neg.default"(%w) bwd in "l" : (!m) -> !m
    // expected-error @+1 {{is in the forward but uses a value of the backward}}
    %t = aten.call "view.default"(%g, [4, 4]) fwd in "l" : (!m) -> !m
    %loss = aten.call "sum.default"(%t, none) fwd in "l" : (!m) -> tensor<f32>
    fsdp.grad @l.w, %g : !m
    fsdp.update @l.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
