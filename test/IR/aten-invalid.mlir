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
  %r = "aten.call"(%a) <{callee = "relu.default", args = [1 : i64], phase = 0 : i32, scope = #aten.scope<"">}> : (tensor<f32>) -> tensor<f32>
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

// -----

// Only what torch has can run.
func.func @unknown(%a: tensor<f32>) {
  // expected-error@below {{'relux.default' is no operator of torch's aten, which training binaries have}}
  %r = aten.call "relux.default"(%a) fwd in "" : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// torch's other namespaces reach beyond tensors.
func.func @other(%a: tensor<f32>) {
  // expected-error@below {{'profiler::_record_function_enter.default' is torch's own, but not aten's: a step calls operators of aten and of libraries of the user}}
  %r = aten.call "profiler::_record_function_enter.default"(%a) fwd in "" : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// Text does not touch files.
func.func @file() {
  // expected-error@below {{'from_file.default' is refused: it reaches files, devices or processes}}
  %r = aten.call "from_file.default"("/tmp/file", true, 4, f32, none, none, none) fwd in "" : () -> tensor<4xf32>
  return
}

// -----

// Strides among the arguments are as those of types.
func.func @negative_argument(%a: tensor<2xf32>) {
  // expected-error@below {{'as_strided.default' has a size or stride of -1, expected at least 0}}
  %r = aten.call "as_strided.default"(%a, [2], [-1], none) fwd in "" : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// An operator of aten is not one of a library of the user, whose existence shows where it is loaded.
func.func @spelled_out(%a: tensor<4x4xf32>) {
  // expected-error@below {{'aten::mm.default' is aten's: name it 'mm.default'}}
  %r = aten.call "aten::mm.default"(%a, %a) fwd in "" : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// What an operator makes has a place for each element.
func.func @overlap(%a: tensor<4x64xf32>) {
  // expected-error@below {{'clone.default' returns a new tensor, but the strides of 'tensor<4x64xf32, #aten.strides<[64, 8]>>' give two elements one address}}
  %r = aten.call "clone.default"(%a, none) fwd in "" : (tensor<4x64xf32>) -> tensor<4x64xf32, #aten.strides<[64, 8]>>
  return
}

// -----

// A view may show an element twice, and so may a tensor of given strides.
func.func @views(%a: tensor<64xf32>) {
  %v = aten.call "unfold.default"(%a, 0, 4, 2) fwd in "" : (tensor<64xf32>) -> tensor<31x4xf32, #aten.strides<[2, 1]>>
  %e = aten.call "new_empty_strided.default"(%a, [31, 4], [2, 1], none, none, none, none) fwd in "" : (tensor<64xf32>) -> tensor<31x4xf32, #aten.strides<[2, 1]>>
  return
}
