// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param split-blocks=40" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param split-blocks=40" | FileCheck %s --check-prefix=GROUPS
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param split-blocks=81" | FileCheck %s --check-prefix=WHOLE
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param split-blocks=true" | FileCheck %s --check-prefix=WHOLE
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=1 layout=per-param split-blocks=40" | FileCheck %s --check-prefix=WHOLE
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 layout=per-param up-to=sharded" | FileCheck %s --check-prefix=WHOLE
// RUN: echo '{split_blocks: 40, groups: [{modules: ["layers.0", "layers.1"]}]}' > %t.yaml
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param config=%t.yaml" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param config=%t.yaml split-blocks=false" | FileCheck %s --check-prefix=WHOLE
// RUN: echo '{split_blocks: 40, groups: [{together: ["layers.0", "layers.1"]}]}' > %t.together.yaml
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param config=%t.together.yaml" | FileCheck %s --check-prefix=TOGETHER
// RUN: not fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param split-blocks=0" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param split-blocks=40" --fsdp-recompute="policy=full min-bytes=0" | FileCheck %s --check-prefixes=POLICY,RECOMPUTED
// RUN: echo '{split_blocks: 40, activation_checkpointing: [{modules: ["layers.0"]}]}' > %t.region.yaml
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param config=%t.region.yaml" --fsdp-recompute="policy=none min-bytes=0" | FileCheck %s --check-prefix=RECOMPUTED
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param split-blocks=40" --fsdp-insert-collectives --fsdp-verify-sharded | FileCheck %s --check-prefix=GATHERS

// A block of 160 elements becomes four parts of about 40: the first stays, with the parameter of the block itself, that of
// `mlp`, which is divided, one that is used outside of its module, one that two modules share, and one that nothing uses.
// CHECK-DAG: fsdp.group @layers.0.mlp.e0 [@layers.0.mlp.e0.a, @layers.0.mlp.e0.b] of ["layers.0.mlp.e0"] part_of "layers.0" over @mesh "dp" per_param reshard_after_forward none
// CHECK-DAG: fsdp.group @"layers.0.mlp.e1, layers.0.mlp.e2" [@layers.0.mlp.e2.w, @layers.0.mlp.e1.w] of ["layers.0.mlp.e1", "layers.0.mlp.e2"] part_of "layers.0" over
// CHECK-DAG: fsdp.group @layers.0 [@layers.0.attn.w, @layers.0.scale, @layers.0.mlp.w, @layers.0.outside.w, @layers.0.shared.w, @layers.0.unused.w] of ["layers.0"] over
// CHECK-DAG: fsdp.group @layers.1 [@layers.1.w] of ["layers.1"] over

// Inner groups come first, as they do in FSDP2.
// GROUPS: fsdp.group @layers.0.mlp.e0
// GROUPS: fsdp.group @"layers.0.mlp.e1, layers.0.mlp.e2"
// GROUPS: fsdp.group @layers.0 [
// GROUPS: fsdp.group @layers.1

// WHOLE-NOT: part_of
// WHOLE: fsdp.group @layers.0 [@layers.0.attn.w, @layers.0.mlp.e2.w, @layers.0.scale, @layers.0.mlp.w,

// TOGETHER-NOT: part_of
// TOGETHER: fsdp.group @"layers.0, layers.1" [

// WORD: split_blocks is '0', expected true, false or the least number of parameters of a part

// The block is recomputed as a whole, from its input on: each part is gathered before the first of its operations that is
// computed again, and resharded behind its backward.
// POLICY: fsdp.group @layers.0.mlp.e0 {{.*}} recomputed full
// POLICY: fsdp.group @layers.0 {{.*}} recomputed full
// RECOMPUTED: "sum.default"
// RECOMPUTED: %[[A:.*]] = aten.call "mul.Tensor"(%x, %{{.*}}) bwd in "layers.0" :
// RECOMPUTED: %[[B:.*]] = aten.call "mul.Tensor"(%[[A]], %{{.*}}) bwd in "layers.0.attn" :
// RECOMPUTED: %[[C:.*]] = aten.call "mul.Tensor"(%[[B]], %{{.*}}) bwd in "layers.0.mlp" :
// RECOMPUTED: %[[D:.*]] = aten.call "mul.Tensor"(%[[C]], %{{.*}}) bwd in "layers.0.mlp.e0" :
// RECOMPUTED: aten.call "mul.Tensor"(%{{.*}}, %[[A]]) bwd in "layers.0.attn" :

// GATHERS: "mul.Tensor"(%{{.*}}) fwd in "layers.0.mlp" :
// GATHERS-NEXT: %[[U:.*]] = fsdp.all_gather.start %{{.*}} fwd on compute : !fsdp.shard<@layers.0.mlp.e0, f32>
// GATHERS-NEXT: %[[W:.*]]:2 = fsdp.all_gather.wait %[[U]]
// GATHERS-NEXT: "mul.Tensor"(%{{.*}}, %[[W]]#0) fwd in "layers.0.mlp.e0" :
// GATHERS-NEXT: "mul.Tensor"(%{{.*}}, %[[W]]#1) fwd in "layers.0.mlp.e0" :
// GATHERS-NEXT: fsdp.reshard %[[U]] fwd
// GATHERS: fsdp.reduce_scatter.start @"layers.0.mlp.e1, layers.0.mlp.e2"
// GATHERS: fsdp.update @"layers.0.mlp.e1, layers.0.mlp.e2"
// GATHERS: bwd in "layers.0.attn"
// GATHERS: fsdp.reduce_scatter.start @layers.0(

!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "split", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @layers.0.scale : !m frozen
  fsdp.param @layers.0.attn.w : !m
  fsdp.param @layers.0.mlp.w : !m frozen
  fsdp.param @layers.0.mlp.e0.a : !m frozen
  fsdp.param @layers.0.mlp.e0.b : !m frozen
  fsdp.param @layers.0.mlp.e1.w : !m frozen
  fsdp.param @layers.0.mlp.e2.w : !m
  fsdp.param @layers.0.outside.w : !m frozen
  fsdp.param @layers.0.shared.w : !m aliases ["layers.0.again.w"] frozen
  fsdp.param @layers.0.unused.w : !m frozen
  fsdp.param @layers.1.w : !m frozen
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w0 = fsdp.read @layers.0.scale : !m
    %w1 = fsdp.read @layers.0.attn.w : !m
    %w2 = fsdp.read @layers.0.mlp.w : !m
    %w3 = fsdp.read @layers.0.mlp.e0.a : !m
    %w4 = fsdp.read @layers.0.mlp.e0.b : !m
    %w5 = fsdp.read @layers.0.mlp.e1.w : !m
    %w6 = fsdp.read @layers.0.mlp.e2.w : !m
    %w7 = fsdp.read @layers.0.outside.w : !m
    %w8 = fsdp.read @layers.0.shared.w : !m
    %v = fsdp.read @layers.1.w : !m
    %h0 = aten.call "mul.Tensor"(%x, %w0) fwd in "layers.0" : (!m, !m) -> !m
    %h1 = aten.call "mul.Tensor"(%h0, %w1) fwd in "layers.0.attn" : (!m, !m) -> !m
    %h2 = aten.call "mul.Tensor"(%h1, %w2) fwd in "layers.0.mlp" : (!m, !m) -> !m
    %h3 = aten.call "mul.Tensor"(%h2, %w3) fwd in "layers.0.mlp.e0" : (!m, !m) -> !m
    %h4 = aten.call "mul.Tensor"(%h3, %w4) fwd in "layers.0.mlp.e0" : (!m, !m) -> !m
    %h5 = aten.call "mul.Tensor"(%h4, %w5) fwd in "layers.0.mlp.e1" : (!m, !m) -> !m
    %h6 = aten.call "mul.Tensor"(%h5, %w6) fwd in "layers.0.mlp.e2" : (!m, !m) -> !m
    %h7 = aten.call "mul.Tensor"(%h6, %w7) fwd in "layers.0" : (!m, !m) -> !m
    %h8 = aten.call "mul.Tensor"(%h7, %w8) fwd in "layers.0.shared" : (!m, !m) -> !m
    %k0 = aten.call "mul.Tensor"(%h8, %w8) fwd in "layers.0.again" : (!m, !m) -> !m
    %k1 = aten.call "mul.Tensor"(%k0, %v) fwd in "layers.1" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%k1, none) fwd in "" : (!m) -> !s
    %g6 = aten.call "mul.Tensor"(%h5, %k1) bwd in "layers.0.mlp.e2" : (!m, !m) -> !m
    fsdp.grad @layers.0.mlp.e2.w, %g6 : !m
    %d6 = aten.call "mul.Tensor"(%g6, %w6) bwd in "layers.0.mlp.e2" : (!m, !m) -> !m
    %d5 = aten.call "mul.Tensor"(%d6, %w5) bwd in "layers.0.mlp.e1" : (!m, !m) -> !m
    %g1 = aten.call "mul.Tensor"(%d5, %h0) bwd in "layers.0.attn" : (!m, !m) -> !m
    fsdp.grad @layers.0.attn.w, %g1 : !m
    fsdp.update @layers.0.attn.w step %step lr %lr
    fsdp.update @layers.0.mlp.e2.w step %step lr %lr
    return %loss : !s
  }
}
