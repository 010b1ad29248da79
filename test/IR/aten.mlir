// RUN: fsdp-opt %s --split-input-file | fsdp-opt --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s

// Arguments stand at their places in the schema: tensors as operands, the rest as literals.
// CHECK-LABEL: func.func @arguments
func.func @arguments(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) {
  // CHECK-NEXT: aten.call "sum.dim_IntList"(%{{.+}}, [0, 1], false, none) fwd in "l"
  %sum = aten.call "sum.dim_IntList"(%a, [0, 1], false, none) fwd in "l" : (tensor<2x3xf32>) -> tensor<f32>
  // CHECK-NEXT: aten.call "view.default"(%{{.+}}, []) bwd in ""
  %view = aten.call "view.default"(%sum, []) bwd in "" : (tensor<f32>) -> tensor<f32>
  // CHECK-NEXT: aten.call "cat.default"([%{{.+}}, %{{.+}}], 0) fwd in "l"
  %cat = aten.call "cat.default"([%a, %b], 0) fwd in "l" : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: aten.call "index.Tensor"(%{{.+}}, [none, %{{.+}}]) fwd in "l"
  %index = aten.call "index.Tensor"(%a, [none, %b]) fwd in "l" : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: aten.call "mul.Scalar"(%{{.+}}, 2.500000e+00) fwd in "l"
  %mul = aten.call "mul.Scalar"(%a, 2.5) fwd in "l" : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: aten.call "upsample_linear1d.vec"(%{{.+}}, none, [2.000000e+00, 2.000000e+00], [true, false], "tanh") fwd in "l"
  %up = aten.call "upsample_linear1d.vec"(%a, none, [2.0, 2.0], [true, false], "tanh") fwd in "l" : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: aten.call "_to_copy.default"(%{{.+}}, bf16, #aten.strided, #aten.device, none, false, #aten.memory_format<channels_last>) fwd in "l"
  %copy = aten.call "_to_copy.default"(%a, bf16, #aten.strided, #aten.device, none, false, #aten.memory_format<channels_last>) fwd in "l" : (tensor<2x3xf32>) -> tensor<2x3xbf16>
  return
}

// Values that are not finite keep their bits.
// CHECK-LABEL: func.func @not_finite
func.func @not_finite(%a: tensor<2xf32>) {
  // CHECK-NEXT: aten.call "fill.Scalar"(%{{.+}}, 0x7FF0000000000000 : f64) fwd in ""
  %inf = aten.call "fill.Scalar"(%a, 0x7FF0000000000000 : f64) fwd in "" : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: aten.call "fill.Scalar"(%{{.+}}, 0x7FF8000000000000 : f64) fwd in ""
  %nan = aten.call "fill.Scalar"(%a, 0x7FF8000000000000 : f64) fwd in "" : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// A call has one result per value of the schema; none where a value is undefined.
// CHECK-LABEL: func.func @results
func.func @results(%a: tensor<2x4xf32>) {
  // CHECK-NEXT: %{{.+}}:2 = aten.call "split.Tensor"(%{{.+}}, 2, 1) fwd in "l" : (tensor<2x4xf32>) -> (tensor<2x2xf32, #aten.strides<[4, 1]>>, tensor<2x2xf32, #aten.strides<[4, 1], offset = 2>>)
  %s:2 = aten.call "split.Tensor"(%a, 2, 1) fwd in "l" : (tensor<2x4xf32>) -> (tensor<2x2xf32, #aten.strides<[4, 1]>>, tensor<2x2xf32, #aten.strides<[4, 1], offset = 2>>)
  // CHECK-NEXT: aten.call "native_layer_norm_backward.default"({{.*}}) bwd in "l" : (tensor<2x4xf32>) -> (tensor<2x4xf32>, none)
  %g:2 = aten.call "native_layer_norm_backward.default"(%a) bwd in "l" : (tensor<2x4xf32>) -> (tensor<2x4xf32>, none)
  return
}

// The name of a value leaves out the namespace of a library's operator.
// CHECK-LABEL: func.func @library
func.func @library(%a: tensor<2xf32>) {
  // CHECK-NEXT: %both:2 = aten.call "mine::both.default"(%{{.+}}) fwd in ""
  %b:2 = aten.call "mine::both.default"(%a) fwd in "" : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>)
  return
}

// A draw of random numbers has a position; planning adds offsets.
// CHECK-LABEL: func.func @random
func.func @random(%a: tensor<2xf32>) {
  // CHECK-NEXT: aten.call "native_dropout.default"(%{{.+}}, 1.000000e-01, true) fwd in "drop" rng 7 at [64, 128] :
  %d:2 = aten.call "native_dropout.default"(%a, 0.1, true) fwd in "drop" rng 7 at [64, 128] : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi1>)
  return
}

// A tensor of no dimensions at an offset has no strides.
// CHECK-LABEL: func.func @constant
func.func @constant() -> tensor<f32, #aten.strides<[], offset = 1>> {
  // CHECK-NEXT: aten.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32> at 64
  %c = aten.constant dense<[1.0, 2.0]> : tensor<2xf32> at 64
  // CHECK-NEXT: aten.call "select.int"(%{{.+}}, 0, 1) fwd in "" : (tensor<2xf32>) -> tensor<f32, #aten.strides<[], offset = 1>>
  %s = aten.call "select.int"(%c, 0, 1) fwd in "" : (tensor<2xf32>) -> tensor<f32, #aten.strides<[], offset = 1>>
  return %s : tensor<f32, #aten.strides<[], offset = 1>>
}
