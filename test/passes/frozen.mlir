// RUN: fsdp-opt %s --fsdp-verify-captured --fsdp-group-parameters=mesh=dp=2 | FileCheck %s --check-prefix=FLAT
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param" | FileCheck %s --check-prefix=PARAM
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 up-to=sharded" | FileCheck %s --check-prefix=SHARDED
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 layout=per-param" | FileCheck %s --check-prefix=PLANNED
// RUN: echo "{mesh: {dp: 2}, groups: [{modules: [layers.*], offload_optimizer: true}]}" > %t.yaml
// RUN: fsdp-opt %s --fsdp-pipeline=config=%t.yaml | FileCheck %s --check-prefixes=OWN,OFFLOAD
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 offload-optimizer=all" | FileCheck %s --check-prefixes=ALL,OFFLOAD
// RUN: echo 'groups: [{modules: ["layers.*"], offload_activations: true}]' > %t.asked.yaml
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 config=%t.asked.yaml" | FileCheck %s --check-prefix=ASKED

// In the flat layout what is frozen is a group of its own, with the same modules; in the per-param
// layout it stands behind the others. A module that is not used is in the root group.
// FLAT: fsdp.group @layers.0.frozen [@layers.0.base] of ["layers.0"]
// FLAT-NEXT: fsdp.group @layers.0 [@layers.0.lora] of ["layers.0"]
// FLAT-NEXT: fsdp.group @layers.1 [@layers.1.base] of ["layers.1"]
// FLAT-NEXT: fsdp.group @root [@unused] of [""]
// PARAM: fsdp.group @layers.0 [@layers.0.lora, @layers.0.base] of ["layers.0"]
// PARAM-NEXT: fsdp.group @layers.1 [@layers.1.base] of ["layers.1"]

// All are gathered where their modules run, in the backward too, and those with gradients reduced.
// What nothing uses is not gathered: the root's modules run, but its only parameter is unused.
// SHARDED: fsdp.all_gather.start {{.*}} : !fsdp.shard<@layers.0.frozen, f32>
// SHARDED: fsdp.all_gather.start {{.*}} : !fsdp.shard<@layers.0, f32>
// SHARDED: fsdp.all_gather.start {{.*}} fwd {{.*}} : !fsdp.shard<@layers.1, f32>
// SHARDED: fsdp.all_gather.start {{.*}} bwd {{.*}} : !fsdp.shard<@layers.1, f32>
// SHARDED: fsdp.reduce_scatter.start @layers.0(
// SHARDED: fsdp.update @layers.0 with
// SHARDED-NOT: fsdp.reduce_scatter.start
// SHARDED-NOT: fsdp.update

// The gradient and the states of the optimizer are those of 2 x 4 elements, the shard of 2 x 20.
// PLANNED: fsdp.group @layers.0 {{.*}} at shard {{[0-9]+}} states [{{[0-9]+, [0-9]+}}]{{$}}
// PLANNED: fsdp.group @layers.1 {{.*}} at shard {{[0-9]+$}}
// Of frozen parameters there is nothing to offload, asked for or not.
// Asked for activations on the host, the group of the trained parameters answers for both.
// ASKED: fsdp.group @layers.0.frozen {{.*}} offload_activations true at shard
// ASKED: fsdp.group @layers.0 {{.*}} offload_activations true decisions [#fsdp.decision<activations, "nothing of its forward
// ASKED: fsdp.group @layers.1 {{.*}} offload_activations true decisions [#fsdp.decision<activations, "nothing of its forward
// OWN: fsdp.group @layers.0.frozen {{.*}} offload_optimizer true decisions [#fsdp.decision<optimizer_state, "the optimizer keeps nothing of frozen parameters">] at shard
// ALL: fsdp.group @layers.0.frozen {{.*}} reshard_after_forward none recomputed cheap at shard
// OFFLOAD: fsdp.group @layers.0 {{.*}} optimizer_state host
// OFFLOAD: fsdp.fetch_state.start @layers.0
// OFFLOAD-NOT: fsdp.fetch_state.start
!m = tensor<4x4xf32>
!v = tensor<4xf32>
!s = tensor<f32>
module {
  fsdp.param @layers.0.base : !m frozen
  fsdp.param @layers.0.lora : !v
  fsdp.param @layers.1.base : !m frozen
  fsdp.param @unused : !v frozen
  fsdp.optimizer adam lr = 0.1 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @layers.0.base : !m
    %h = aten.call "mm.default"(%x, %w) fwd in "layers.0" : (!m, !m) -> !m
    %a = fsdp.read @layers.0.lora : !v
    %y = aten.call "mul.Tensor"(%h, %a) fwd in "layers.0" : (!m, !v) -> !m
    %u = fsdp.read @layers.1.base : !m
    %z = aten.call "mm.default"(%y, %u) fwd in "layers.1" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "expand.default"(%g, [4, 4], false) bwd in "" : (!s) -> tensor<4x4xf32, #aten.strides<[0, 0]>>
    %t = aten.call "t.default"(%u) bwd in "layers.1" : (!m) -> tensor<4x4xf32, #aten.strides<[1, 4]>>
    %dy = aten.call "mm.default"(%e, %t) bwd in "layers.1" : (tensor<4x4xf32, #aten.strides<[0, 0]>>, tensor<4x4xf32, #aten.strides<[1, 4]>>) -> !m
    %p = aten.call "mul.Tensor"(%dy, %h) bwd in "layers.0" : (!m, !m) -> !m
    %da = aten.call "sum.dim_IntList"(%p, [0], false, none) bwd in "layers.0" : (!m) -> !v
    fsdp.grad @layers.0.lora, %da : !v
    fsdp.update @layers.0.lora step %step lr %lr
    return %loss : !s
  }
}
