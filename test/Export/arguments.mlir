// RUN: fsdp-compile %s --emit=plan | FileCheck %s

// Each kind of argument and of result has its form in the plan.
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @a : tensor<16xf32>
  fsdp.group @g [@a] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<2x8xf32>
    // CHECK: input %x f32[2, 8] at [[#X:]]
    // CHECK: call %native_dropout#0 f32[2, 8] at {{[0-9]+}}, %native_dropout#1 bool[2, 8] at {{[0-9]+}} = aten::native_dropout(%x, 1.000000e-01, true) in "drop" rng 3
    %drop:2 = aten.call "native_dropout.default"(%x, 0.1, true) fwd in "drop" rng 3 : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xi1>)
    // CHECK-NEXT: aten::sum.dim_IntList(%x, [0, 1], false, bf16)
    %s1 = aten.call "sum.dim_IntList"(%x, [0, 1], false, bf16) fwd in "" : (tensor<2x8xf32>) -> tensor<bf16>
    // CHECK-NEXT: aten::empty.memory_format([], f32, strided, device, false, memory_format 0)
    %e = aten.call "empty.memory_format"([], f32, #aten.strided, #aten.device, false, #aten.memory_format<contiguous>) fwd in "" : () -> tensor<f32>
    // CHECK-NEXT: aten::cat([%x, %x], 0)
    %c = aten.call "cat.default"([%x, %x], 0) fwd in "" : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
    // CHECK-NEXT: aten::gelu(%x, "tanh")
    %t = aten.call "gelu.default"(%x, "tanh") fwd in "" : (tensor<2x8xf32>) -> tensor<2x8xf32>
    // Lists of bools and of floats; the compiler leaves to torch whether the operator takes them.
    // CHECK-NEXT: call %{{.*}}#0 f32[2, 8] at {{[0-9]+}}, none = aten::native_layer_norm(%x, [true, false], [5.000000e-01])
    %o:2 = aten.call "native_layer_norm.default"(%x, [true, false], [0.5]) fwd in "" : (tensor<2x8xf32>) -> (tensor<2x8xf32>, none)
    // The state of a generator on CUDA devices.
    // CHECK-NEXT: call %{{.*}} u64[2] at
    %state = aten.call "neg.default"(%x) fwd in "" : (tensor<2x8xf32>) -> tensor<2xui64>
    // The second half of each row begins 16 bytes behind the first.
    // CHECK-NEXT: view %split#0 f32[2, 4] strides [8, 1] at [[#X]], %split#1 f32[2, 4] strides [8, 1] at [[#X+16]] =
    %p:2 = aten.call "split.Tensor"(%x, 4, 1) fwd in "" : (tensor<2x8xf32>) -> (tensor<2x4xf32, #aten.strides<[8, 1]>>, tensor<2x4xf32, #aten.strides<[8, 1], offset = 4>>)
    %s = aten.call "sum.default"(%x, none) fwd in "" : (tensor<2x8xf32>) -> tensor<f32>
    %v = aten.call "view.default"(%x, [16]) bwd in "" : (tensor<2x8xf32>) -> tensor<16xf32>
    %d = fsdp.pack @g(%v) : (tensor<16xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}
