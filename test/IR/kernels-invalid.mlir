// RUN: fsdp-opt %s -verify-diagnostics -split-input-file

// A body ends with its results.
fsdp.kernel @k exact {
^bb0(%x: tensor<4xf32>):
  // expected-error @below {{block with no terminator}}
  %y = aten.call "neg.default"(%x) fwd in "" : (tensor<4xf32>) -> tensor<4xf32>
}

// -----

// A body holds calls alone.
fsdp.kernel @k fast {
^bb0(%x: tensor<4xf32>):
  // expected-error @below {{is in the body of kernel @k, expected 'aten.call' alone}}
  %y = fsdp.input "x" : tensor<4xf32>
  fsdp.yield %y : tensor<4xf32>
}

// -----

// A kernel computes what it yields.
// expected-error @below {{@k yields an operand as it is}}
fsdp.kernel @k exact {
^bb0(%x: tensor<4xf32>):
  fsdp.yield %x : tensor<4xf32>
}

// -----

// A kernel stores each number of a result at its own place.
// expected-error @below {{@k yields 'tensor<4x8xf32, #aten.strides<[0, 1]>>', whose strides give two elements one address}}
fsdp.kernel @k exact {
^bb0(%x: tensor<8xf32>):
  %y = aten.call "neg.default"(%x) fwd in "" : (tensor<8xf32>) -> tensor<4x8xf32, #aten.strides<[0, 1]>>
  fsdp.yield %y : tensor<4x8xf32, #aten.strides<[0, 1]>>
}

// -----

// A body uses its own values alone: not those of another kernel, which may have the same names.
fsdp.kernel @k exact {
^bb0(%x: tensor<4xf32>):
  // expected-error @below {{use of undeclared SSA value name}}
  fsdp.yield %y : tensor<4xf32>
}
fsdp.kernel @l exact {
^bb0(%x: tensor<4xf32>):
  %y = aten.call "neg.default"(%x) fwd in "" : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.yield %y : tensor<4xf32>
}

// -----

// A launch names a kernel.
func.func @step(%x: tensor<4xf32>) {
  // expected-error @below {{names kernel @k, which is not declared}}
  %0 = fsdp.launch @k(%x) fwd in <""> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// A launch has the kernel's types.
fsdp.kernel @k exact {
^bb0(%x: tensor<4xf32>):
  %y = aten.call "neg.default"(%x) fwd in "" : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.yield %y : tensor<4xf32>
}
func.func @step(%x: tensor<8xf32>) {
  // expected-error @below {{has operand #0 of type 'tensor<8xf32>' for kernel @k, expected 'tensor<4xf32>'}}
  %0 = fsdp.launch @k(%x) fwd in <""> : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

// Each result has a place.
fsdp.kernel @k exact {
^bb0(%x: tensor<4xf32>):
  %y = aten.call "neg.default"(%x) fwd in "" : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.yield %y : tensor<4xf32>
}
func.func @step(%x: tensor<4xf32>) {
  // expected-error @below {{has 1 results but 2 offsets}}
  %0 = fsdp.launch @k(%x) fwd in <""> at [0, 64] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// A kernel computes something.
// expected-error @below {{@k yields nothing}}
fsdp.kernel @k exact {
^bb0(%x: tensor<4xf32>):
  %y = aten.call "neg.default"(%x) fwd in "" : (tensor<4xf32>) -> tensor<4xf32>
  "fsdp.yield"() : () -> ()
}
