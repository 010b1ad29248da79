// A training binary reads samples: what no data can be is an error before anything is linked. A shared library is handed
// its inputs by whoever loads it.
// RUN: split-file %s %t
// RUN: fsdp-opt %t/constant.mlir --fsdp-pipeline -o %t.constant.mlir
// RUN: not fsdp-compile %t.constant.mlir -o %t.none 2>&1 | FileCheck %t/constant.mlir
// RUN: not fsdp-compile %t.constant.mlir --object -o %t.none 2>&1 | FileCheck %t/constant.mlir
// RUN: fsdp-compile %t.constant.mlir --shared -o %t.so
// RUN: fsdp-opt %t/scalar.mlir --fsdp-pipeline | not fsdp-compile - -o %t.none 2>&1 | FileCheck %t/scalar.mlir
// RUN: fsdp-opt %t/alone.mlir --fsdp-pipeline | not fsdp-compile - -o %t.none 2>&1 | FileCheck %t/alone.mlir
// RUN: fsdp-opt %t/empty.mlir --fsdp-pipeline | not fsdp-compile - -o %t.none 2>&1 | FileCheck %t/empty.mlir
// RUN: fsdp-opt %t/strided.mlir --fsdp-pipeline | not fsdp-compile - -o %t.none 2>&1 | FileCheck %t/strided.mlir
// RUN: not ls %t.none

//--- constant.mlir
// CHECK: error: input 'scale' is [1, 4] beside input 'x' of [8, 4]: the first dimension of all inputs counts the samples of a batch.
// CHECK-SAME: register_buffer
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : tensor<f32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<8x4xf32>
    %scale = fsdp.input "scale" : tensor<1x4xf32>
    %y = aten.call "mul.Tensor"(%x, %scale) fwd in "" : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
    %sum = aten.call "sum.default"(%y, none) fwd in "" : (tensor<8x4xf32>) -> tensor<f32>
    %w = fsdp.read @w : tensor<f32>
    %out = aten.call "mul.Tensor"(%sum, %w) fwd in "" : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = aten.call "sum.default"(%x, none) bwd in "" : (tensor<8x4xf32>) -> tensor<f32>
    fsdp.grad @w, %g : tensor<f32>
    fsdp.update @w step %step lr %lr
    return %out : tensor<f32>
  }
}

//--- scalar.mlir
// CHECK: error: input 'scale' is [] beside input 'x' of [8, 4]: the first dimension
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : tensor<f32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %scale = fsdp.input "scale" : tensor<f32>
    %x = fsdp.input "x" : tensor<8x4xf32>
    %y = aten.call "mul.Tensor"(%x, %scale) fwd in "" : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    %sum = aten.call "sum.default"(%y, none) fwd in "" : (tensor<8x4xf32>) -> tensor<f32>
    %w = fsdp.read @w : tensor<f32>
    %out = aten.call "mul.Tensor"(%sum, %w) fwd in "" : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = aten.call "sum.default"(%x, none) bwd in "" : (tensor<8x4xf32>) -> tensor<f32>
    fsdp.grad @w, %g : tensor<f32>
    fsdp.update @w step %step lr %lr
    return %out : tensor<f32>
  }
}

//--- alone.mlir
// CHECK: error: input 'x' is []: the first dimension
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : tensor<f32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<f32>
    %sum = aten.call "sum.default"(%x, none) fwd in "" : (tensor<f32>) -> tensor<f32>
    %w = fsdp.read @w : tensor<f32>
    %out = aten.call "mul.Tensor"(%sum, %w) fwd in "" : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = aten.call "sum.default"(%x, none) bwd in "" : (tensor<f32>) -> tensor<f32>
    fsdp.grad @w, %g : tensor<f32>
    fsdp.update @w step %step lr %lr
    return %out : tensor<f32>
  }
}

//--- empty.mlir
// CHECK: error: input 'x' is [0, 4], which holds no sample
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : tensor<f32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<0x4xf32>
    %sum = aten.call "sum.default"(%x, none) fwd in "" : (tensor<0x4xf32>) -> tensor<f32>
    %w = fsdp.read @w : tensor<f32>
    %out = aten.call "mul.Tensor"(%sum, %w) fwd in "" : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = aten.call "sum.default"(%x, none) bwd in "" : (tensor<0x4xf32>) -> tensor<f32>
    fsdp.grad @w, %g : tensor<f32>
    fsdp.update @w step %step lr %lr
    return %out : tensor<f32>
  }
}

//--- strided.mlir
// CHECK: error: input 'x' of [8, 4] is not contiguous
!t = tensor<8x4xf32, #aten.strides<[1, 8]>>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : tensor<f32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !t
    %sum = aten.call "sum.default"(%x, none) fwd in "" : (!t) -> tensor<f32>
    %w = fsdp.read @w : tensor<f32>
    %out = aten.call "mul.Tensor"(%sum, %w) fwd in "" : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = aten.call "sum.default"(%x, none) bwd in "" : (!t) -> tensor<f32>
    fsdp.grad @w, %g : tensor<f32>
    fsdp.update @w step %step lr %lr
    return %out : tensor<f32>
  }
}
