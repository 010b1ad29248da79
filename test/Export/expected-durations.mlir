// RUN: fsdp-compile %s --emit=plan | FileCheck %s --check-prefix=UNKNOWN
// RUN: fsdp-compile %s --emit=plan --network dgx-h100 | FileCheck %s
// RUN: not fsdp-compile %s --emit=plan --network dgx-h1 2>&1 | FileCheck %s --check-prefix=ERROR

// Collectives are expected to take what the network's model says of the whole group's bytes: here
// 14 us and a hop of 1.9 us, and next to nothing for 128 bytes. Without a device or a network
// nothing is expected.
// UNKNOWN-NOT: , expected
// ERROR: fsdp-compile: error: {{.*}}dgx-h1
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @a : tensor<32xf32>
  fsdp.group @g [@a] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %shard = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    // CHECK: all_gather.start @g on gather, {{.*}}, expected 15900 ns
    %u = fsdp.all_gather.start %shard over ["dp"] fwd on gather : !fsdp.shard<@g, f32>
    %w = fsdp.all_gather.wait %u : tensor<32xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<32xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<32xf32>) -> tensor<32xf32>
    fsdp.reshard %u bwd
    // CHECK: reduce_scatter.start @g on reduce, {{.*}}, expected 15900 ns
    %r = fsdp.reduce_scatter.start @g(%g) over ["dp"] avg bwd on reduce : tensor<32xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}
