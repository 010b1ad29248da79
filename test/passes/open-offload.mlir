// RUN: not fsdp-opt %s --fsdp-schedule --fsdp-assign-streams --fsdp-plan-memory 2>&1 | FileCheck %s
// RUN: fsdp-opt %s --fsdp-offload-optimizer --fsdp-schedule --fsdp-assign-streams --fsdp-plan-memory --fsdp-verify-planned -o /dev/null

// State that is to be offloaded and stays in the arena: a pass was left out.
// CHECK: error: 'fsdp.group' op @g asks for offload_optimizer, but its optimizer state stays in the arena; run fsdp-offload-optimizer
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false offload_optimizer true
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %s = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}
