// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s

// A step on two ranks, with every operation of the scheduled phase.
// CHECK: module attributes {fsdp.model = "tiny", fsdp.phase = #fsdp.module_phase<scheduled>}
module attributes {fsdp.model = "tiny", fsdp.phase = #fsdp.module_phase<scheduled>} {
  // CHECK: fsdp.mesh @mesh <dp = 2>
  fsdp.mesh @mesh <dp = 2>
  // CHECK: fsdp.optimizer adamw lr = 1.000000e-03 weight_decay = 1.000000e-01 betas = [9.000000e-01, 9.990000e-01] eps = 1.000000e-08
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.1 betas = [0.9, 0.999] eps = 1.0e-8
  // CHECK: fsdp.param @l.w : tensor<4x8xf32> aliases ["head.w"]
  fsdp.param @l.w : tensor<4x8xf32> aliases ["head.w"]
  // CHECK: fsdp.buffer @count : tensor<f32>
  fsdp.buffer @count : tensor<f32>
  // CHECK: fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    // CHECK: %step = fsdp.input "step" : i64
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<2x8xf32>
    %n = fsdp.read @count : tensor<f32>
    // CHECK: %[[U:.+]] = fsdp.all_gather.start @l fwd on gather
    %u0 = fsdp.all_gather.start @l fwd on gather
    // CHECK: %[[W:.+]] = fsdp.all_gather.wait %[[U]] : tensor<4x8xf32>
    %w0 = fsdp.all_gather.wait %u0 : tensor<4x8xf32>
    // CHECK: aten.call "t.default"(%[[W]]) fwd in "l" : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<[1, 8]>>
    %t = aten.call "t.default"(%w0) fwd in "l" : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<[1, 8]>>
    %y = aten.call "mm.default"(%x, %t) fwd in "l" : (tensor<2x8xf32>, tensor<8x4xf32, #aten.strides<[1, 8]>>) -> tensor<2x4xf32>
    fsdp.release %u0 fwd
    // CHECK: aten.call "native_dropout.default"(%{{.+}}, 1.000000e-01, true) fwd in "l.drop" rng 0
    %d:2 = aten.call "native_dropout.default"(%y, 0.1, true) fwd in "l.drop" rng 0 : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
    // CHECK: aten.call "masked_fill.Scalar"(%{{.+}}, %{{.+}}, 0xFFF0000000000000 : f64) fwd in ""
    %m = aten.call "masked_fill.Scalar"(%d#0, %d#1, 0xFFF0000000000000 : f64) fwd in "" : (tensor<2x4xf32>, tensor<2x4xi1>) -> tensor<2x4xf32>
    // CHECK: aten.call "sum.dim_IntList"(%{{.+}}, [0, 1], false, none) fwd in ""
    %s = aten.call "sum.dim_IntList"(%m, [0, 1], false, none) fwd in "" : (tensor<2x4xf32>) -> tensor<f32>
    // CHECK: aten.call "ones_like.default"(%{{.+}}, none, none, #aten.device, false, #aten.memory_format<preserve>) bwd in ""
    %g = aten.call "ones_like.default"(%s, none, none, #aten.device, false, #aten.memory_format<preserve>) bwd in "" : (tensor<f32>) -> tensor<f32>
    %e = aten.call "expand.default"(%g, [4, 8], false) bwd in "l" : (tensor<f32>) -> tensor<4x8xf32, #aten.strides<[0, 0]>>
    // CHECK: aten.call "_to_copy.default"(%{{.+}}, f32, #aten.strided, #aten.device, none, false, none) bwd in "l"
    %c = aten.call "_to_copy.default"(%e, f32, #aten.strided, #aten.device, none, false, none) bwd in "l" : (tensor<4x8xf32, #aten.strides<[0, 0]>>) -> tensor<4x8xf32>
    // CHECK: aten.call "cat.default"([%{{.+}}, %{{.+}}], 0) bwd in "l"
    %cat = aten.call "cat.default"([%c, %c], 0) bwd in "l" : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    // CHECK: %[[R:.+]] = fsdp.reduce_scatter.start @l(%{{.+}}) bwd on reduce : tensor<4x8xf32>
    %r0 = fsdp.reduce_scatter.start @l(%c) bwd on reduce : tensor<4x8xf32>
    // CHECK: fsdp.reduce_scatter.wait %[[R]]
    fsdp.reduce_scatter.wait %r0
    // CHECK: fsdp.update @l step %step lr %lr
    fsdp.update @l step %step lr %lr
    fsdp.write @count, %n : tensor<f32>
    return %s : tensor<f32>
  }
}
