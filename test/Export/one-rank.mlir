// RUN: fsdp-compile %s --emit=plan | FileCheck %s

// On one rank a parameter is read where its shard lies. A gradient that no operation can write to its
// place is copied where the gradients are packed. A buffer's new value is copied into the buffer. A
// transient buffer begins with a constant of its place.
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer adam lr = 0.001 weight_decay = 0.0 betas = [0.9, 0.99] eps = 1.0e-8
  fsdp.param @a : tensor<16xf32>
  fsdp.param @b : tensor<16xf32>
  fsdp.buffer @n : tensor<i64>
  fsdp.buffer @seen : tensor<2xi16> init dense<[3, -1]> : tensor<2xi16>
  // CHECK: optimizer adam lr 1.000000e-03 weight_decay 0.000000e+00 betas [9.000000e-01, 9.900000e-01] eps 1.000000e-08
  // CHECK: group @g flat f32, 32 elements per rank at [[SHARD:[0-9]+]], state at {{[0-9]+}}, state at
  fsdp.group @g [@a, @b] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    // CHECK: input %x f32[16] at [[X:[0-9]+]]
    %x = fsdp.input "x" : tensor<16xf32>
    // CHECK-NEXT: buffer n i64[] at [[N:[0-9]+]]
    // CHECK-NEXT: buffer seen i16[2] at [[SEEN:[0-9]+]]
    // CHECK-NEXT: constant seen i16[2] at [[SEEN]] = 03 00 ff ff
    %a = fsdp.read @a : tensor<16xf32>
    %n = fsdp.read @n : tensor<i64>
    // CHECK-NEXT: constant %constant i64[2] at {{[0-9]+}} = 01 00 00 00 00 00 00 00 ff ff ff ff ff ff ff ff
    %c = aten.constant dense<[1, -1]> : tensor<2xi64>
    // CHECK-NEXT: constant %constant_0 bool[3] at {{[0-9]+}} = 01 00 01
    %m = aten.constant dense<[true, false, true]> : tensor<3xi1>
    // CHECK-NEXT: entries
    // CHECK-NEXT: call %add i64[] at [[ADD:[0-9]+]] = aten::add.Scalar(n, 1, 1)
    %n1 = aten.call "add.Scalar"(%n, 1, 1) fwd in "" : (tensor<i64>) -> tensor<i64>
    // CHECK-NEXT: copy %add i64[] at [[ADD]] to n i64[] at [[N]]
    fsdp.write @n, %n1 : tensor<i64>
    // CHECK-NEXT: call %sum f32[] at {{[0-9]+}} = aten::sum(%a, none)
    %s = aten.call "sum.default"(%a, none) fwd in "" : (tensor<16xf32>) -> tensor<f32>
    // CHECK-NEXT: call %neg f32[16] at [[BASE:[0-9]+]]
    %ga = aten.call "neg.default"(%a) bwd in "" : (tensor<16xf32>) -> tensor<16xf32>
    // CHECK-NEXT: copy %x f32[16] at [[X]] to b f32[16] at
    %d = fsdp.pack @g(%ga, %x) : (tensor<16xf32>, tensor<16xf32>) -> !fsdp.shard<@g, f32>
    // CHECK-NEXT: update @g with 32 f32 at [[BASE]]
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}
