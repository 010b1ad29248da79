// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

// The callee names an overload.
func.func @overload(%a: tensor<f32>) {
  // expected-error@below {{callee must name an overload, as in 'mm.default', got 'relu'}}
  %r = aten.call "relu"(%a) fwd in "" : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// Operands and arguments go together.
func.func @marks(%a: tensor<f32>) {
  // expected-error@below {{has 1 operands but its arguments name 0}}
  %r = "aten.call"(%a) <{callee = "relu.default", args = [1 : i64], phase = 0 : i32, module = ""}> : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// A random operator needs a position.
func.func @random(%a: tensor<f32>) {
  // expected-error@below {{'bernoulli.p' draws random numbers: it needs 'rng'}}
  %r = aten.call "bernoulli.p"(%a, 0.5, none) fwd in "" : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// Another one has none.
func.func @not_random(%a: tensor<f32>) {
  // expected-error@below {{'relu.default' draws no random numbers: it has no 'rng'}}
  %r = aten.call "relu.default"(%a) fwd in "" rng 0 : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// One offset per result.
func.func @offsets(%a: tensor<f32>) {
  // expected-error@below {{has 1 results but 2 offsets}}
  %r = aten.call "relu.default"(%a) fwd in "" at [0, 64] : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// One stride per dimension.
// expected-error@below {{a tensor of 2 dimensions has 1 strides}}
func.func @strides(%a: tensor<2x2xf32, #aten.strides<[1]>>) {
  return
}

// -----

// torch has no negative strides.
// expected-error@below {{a stride is -1, expected at least 0}}
func.func @negative(%a: tensor<2xf32, #aten.strides<[-1]>>) {
  return
}

// -----

// An offset counts from the storage's beginning.
// expected-error@below {{the offset is -4, expected at least 0}}
func.func @before(%a: tensor<2xf32, #aten.strides<[1], offset = -4>>) {
  return
}
