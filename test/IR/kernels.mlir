// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s

// A kernel's body are calls of aten; a launch has the kernel's types.
// CHECK: fsdp.kernel @scale exact {
// CHECK: ^bb0(%[[X:.+]]: tensor<4xf32>):
// CHECK:   %[[Y:.+]] = aten.call "mul.Tensor"(%[[X]], 2.{{0+}}e+00) fwd in ""
// CHECK:   fsdp.yield %[[Y]] : tensor<4xf32>
fsdp.kernel @scale exact {
^bb0(%x: tensor<4xf32>):
  %y = aten.call "mul.Tensor"(%x, 2.0) fwd in "" : (tensor<4xf32>) -> tensor<4xf32>
  fsdp.yield %y : tensor<4xf32>
}
func.func @step(%x: tensor<4xf32>) {
  // CHECK: fsdp.launch @scale(%{{.+}}) bwd in <"layers.0"> at [64] : (tensor<4xf32>) -> tensor<4xf32>
  %0 = fsdp.launch @scale(%x) bwd in <"layers.0"> at [64] : (tensor<4xf32>) -> tensor<4xf32>
  return
}
