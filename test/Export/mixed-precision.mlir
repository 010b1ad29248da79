// RUN: fsdp-compile %s --emit=plan | FileCheck %s
// RUN: sed 's/ flat / per_param /' %s > %t.mlir
// RUN: fsdp-compile %t.mlir --emit=plan | FileCheck %s --check-prefix=PERPARAM

// A group that travels in bf16: its gather starts at the copy of the shard, its gradients and their
// reduced shard are bf16, its parameter and state f32. Parameters begin at multiples of 64 bytes in
// every dtype: @b at element 32.
// CHECK: group @g flat f32, 32 elements per rank at {{[0-9]+}}, gathered as bf16 from [[COPY:[0-9]+]], reduced as bf16, state at
// CHECK-NEXT: parameter a f32[5, 4], rank 0 holds 0 + 20 at 0
// CHECK-NEXT: parameter b f32[5], rank 1 holds 0 + 5 at 0
// CHECK: fwd all_gather.start @g on gather, handle 0: 64 bytes per rank from [[COPY]] to [[GATHERED:[0-9]+]]
// CHECK: aten::sum(%w#0, f32)
// CHECK: bwd reduce_scatter.start @g on reduce, handle 1: 32 bf16 per rank
// CHECK: bwd update @g with 32 bf16
// PERPARAM: group @g per_param f32, 15 elements per rank at {{[0-9]+}}, gathered as bf16 from [[COPY:[0-9]+]]
// PERPARAM: fwd all_gather.start @g on gather, handle 0: 30 bytes per rank from [[COPY]]
// PERPARAM: fwd copy a bf16[1, 3, 4] {{.*}} to a bf16[1, 3, 4]
module attributes {fsdp.model = "tiny", fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @a : tensor<5x4xf32>
  fsdp.param @b : tensor<5xf32>
  fsdp.group @g [@a, @b] of [""] over @mesh "dp" flat reshard_after_forward false gather_dtype bf16 reduce_dtype bf16
  func.func @step() -> tensor<f32> {
    %shard = fsdp.shard @g : !fsdp.shard<@g, bf16>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %u = fsdp.all_gather.start %shard over ["dp"] fwd on gather : !fsdp.shard<@g, bf16>
    %w:2 = fsdp.all_gather.wait %u : tensor<5x4xbf16>, tensor<5xbf16>
    %s = aten.call "sum.default"(%w#0, f32) fwd in "l" : (tensor<5x4xbf16>) -> tensor<f32>
    %ga = aten.call "neg.default"(%w#0) bwd in "" : (tensor<5x4xbf16>) -> tensor<5x4xbf16>
    %gb = aten.call "neg.default"(%w#1) bwd in "" : (tensor<5xbf16>) -> tensor<5xbf16>
    fsdp.reshard %u bwd
    %r = fsdp.reduce_scatter.start @g(%ga, %gb) over ["dp"] avg bwd on reduce : tensor<5x4xbf16>, tensor<5xbf16>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, bf16>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, bf16>
    return %s : tensor<f32>
  }
}
