// RUN: fsdp-compile %s --emit=plan | FileCheck %s

// In the flat layout the gather's output is the parameters; a gradient that lies at its place is not
// copied, one that does not (%gc is transposed) is; the padding behind @b's 5 elements is zeroed.
// CHECK: plan of "tiny", ABI {{[0-9]+}}
// CHECK-NEXT: mesh dp = 2
// CHECK-NEXT: communicator gather: 2 ranks over dp on gather
// CHECK-NEXT: communicator reduce: 2 ranks over dp on reduce
// CHECK-NEXT: arena [[ARENA:[0-9]+]] bytes, peak live
// CHECK-NEXT: optimizer sgd lr 1.000000e-03 weight_decay 0.000000e+00 momentum 9.000000e-01
// CHECK-NEXT: group @g flat f32, 32 elements per rank at [[SHARD:[0-9]+]], state at {{[0-9]+$}}
// CHECK-NEXT: parameter a f32[16], rank 0 holds 0 + 16 at 0
// CHECK-NEXT: parameter b f32[5] alias tied, rank 0 holds 0 + 5 at 16
// CHECK-NEXT: parameter c f32[4, 8], rank 1 holds 0 + 32 at 0
// CHECK-NEXT: input %x f32[8, 4] at [[X:[0-9]+]]
module attributes {fsdp.model = "tiny", fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @a : tensor<16xf32>
  fsdp.param @b : tensor<5xf32> aliases ["tied"]
  fsdp.param @c : tensor<4x8xf32>
  fsdp.group @g [@a, @b, @c] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %shard = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<8x4xf32>
    // CHECK: fwd all_gather.start @g on gather, handle 0: 128 bytes per rank from [[SHARD]] to [[GATHERED:[0-9]+]]
    %u = fsdp.all_gather.start %shard over ["dp"] fwd on gather : !fsdp.shard<@g, f32>
    // CHECK-NEXT: fwd wait for handle 0
    %w:3 = fsdp.all_gather.wait %u : tensor<16xf32>, tensor<5xf32>, tensor<4x8xf32>
    // CHECK-NEXT: fwd call %sum f32[] at {{[0-9]+}} = aten::sum(%x, none) in "l" loc {{.*}}flat.mlir:[[@LINE+1]]
    %s = aten.call "sum.default"(%x, none) fwd in "l" : (tensor<8x4xf32>) -> tensor<f32>
    // CHECK-NEXT: bwd call %neg f32[16] at [[BASE:[0-9]+]] = aten::neg(%w#0)
    %ga = aten.call "neg.default"(%w#0) bwd in "" : (tensor<16xf32>) -> tensor<16xf32>
    // CHECK-NEXT: bwd call %neg_0 f32[5]
    %gb = aten.call "neg.default"(%w#1) bwd in "" : (tensor<5xf32>) -> tensor<5xf32>
    // CHECK-NEXT: bwd view %t f32[4, 8] strides [1, 4] at [[X]] = aten::t(%x)
    %gc = aten.call "t.default"(%x) bwd in "" : (tensor<8x4xf32>) -> tensor<4x8xf32, #aten.strides<[1, 4]>>
    // CHECK-NEXT: bwd reshard @g
    fsdp.reshard %u bwd
    // CHECK-NEXT: bwd copy %t f32[4, 8] strides [1, 4] at [[X]] to c f32[4, 8] at
    // CHECK-NEXT: bwd zero 44 bytes at
    // CHECK-NEXT: bwd reduce_scatter.start @g on reduce, handle 1: 32 f32 per rank from [[BASE]] to [[REDUCED:[0-9]+]]
    %r = fsdp.reduce_scatter.start @g(%ga, %gb, %gc) over ["dp"] avg bwd on reduce : tensor<16xf32>, tensor<5xf32>, tensor<4x8xf32, #aten.strides<[1, 4]>>
    // CHECK-NEXT: bwd wait for handle 1
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    // CHECK-NEXT: bwd update @g with 32 f32 at [[REDUCED]]
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    // CHECK-NEXT: loss %sum f32[] at
    return %s : tensor<f32>
  }
}
