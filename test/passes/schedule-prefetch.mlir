// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/depth.yaml | FileCheck %s --check-prefix=DEPTH
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/lists.yaml | FileCheck %s --check-prefix=LISTS
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="config=%t/depth.yaml up-to=scheduled" | FileCheck %s --check-prefix=AHEAD
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="config=%t/back.yaml up-to=scheduled" | FileCheck %s --check-prefix=BACK
// RUN: not fsdp-opt %t/step.mlir --fsdp-pipeline="config=%t/lists.yaml prefetch=none" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %t/step.mlir --fsdp-pipeline="config=%t/lists.yaml schedule=auto" 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/unknown.yaml 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/empty.yaml 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/root.yaml 2>&1 | FileCheck %s --check-prefix=ROOT
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/itself.yaml 2>&1 | FileCheck %s --check-prefix=ITSELF
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/zero.yaml 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/mapping.yaml 2>&1 | FileCheck %s --check-prefix=MAPPING

// How many of the next groups, in the order of forward or backward; the root is none of them.
// DEPTH: fsdp.group @b.0 {{.*}} forward_prefetch [@b.1, @b.2]{{$}}
// DEPTH: fsdp.group @b.1 {{.*}} forward_prefetch [@b.2] backward_prefetch [@b.0]
// DEPTH: fsdp.group @b.2 {{.*}} reshard_after_forward true backward_prefetch [@b.1, @b.0]
// DEPTH: fsdp.group @root {{.*}} reshard_after_forward none{{$}}
//--- depth.yaml
mesh: {dp: 2}
reshard_after_forward: true
groups: [{modules: ["b.*"], forward_prefetch: 2, backward_prefetch: 2}]
root: {reshard_after_forward: none}

# Modules, in the order that the user gives.
# LISTS: fsdp.group @b.0 {{.*}} forward_prefetch [@b.2, @b.1]
# LISTS: fsdp.group @b.1 {{.*}} reshard_after_forward true{{$}}
# LISTS: fsdp.group @root {{.*}} backward_prefetch [@b.2]
//--- lists.yaml
mesh: {dp: 2}
reshard_after_forward: true
groups:
  - {modules: ["b.0"], forward_prefetch: ["b.2", "b.1"]}
  - modules: ["b.1", "b.2"]
root: {backward_prefetch: ["b.2"]}

# Gathers start behind the wait of the group that prefetches them, and are not started again.
# AHEAD: %[[U0:.+]] = fsdp.all_gather.start {{.*}} fwd on gather : !fsdp.shard<@b.0, f32>
# AHEAD-NEXT: fsdp.all_gather.wait %[[U0]]
# AHEAD-NEXT: %[[U1:.+]] = fsdp.all_gather.start {{.*}} fwd on gather : !fsdp.shard<@b.1, f32>
# AHEAD-NEXT: %[[U2:.+]] = fsdp.all_gather.start {{.*}} fwd on gather : !fsdp.shard<@b.2, f32>
# AHEAD-NEXT: aten.call "mm.default"
# AHEAD-NEXT: fsdp.reshard %[[U0]] fwd
# AHEAD-NEXT: fsdp.all_gather.wait %[[U1]]
# AHEAD: fsdp.all_gather.wait %[[U2]]
# AHEAD: %[[V2:.+]] = fsdp.all_gather.start {{.*}} bwd on gather : !fsdp.shard<@b.2, f32>
# AHEAD-NEXT: fsdp.all_gather.wait %[[V2]]
# AHEAD-NEXT: fsdp.all_gather.start {{.*}} bwd on gather : !fsdp.shard<@b.1, f32>
# AHEAD-NEXT: fsdp.all_gather.start {{.*}} bwd on gather : !fsdp.shard<@b.0, f32>
# AHEAD-NOT: fsdp.all_gather.start

# What is gathered in the forward after its use there is kept for the backward.
# BACK: fsdp.all_gather.start {{.*}} fwd on gather : !fsdp.shard<@b.2, f32>
# BACK: %[[U:.+]] = fsdp.all_gather.start {{.*}} fwd on gather : !fsdp.shard<@b.0, f32>
# BACK-NOT: fsdp.all_gather.start {{.*}} : !fsdp.shard<@b.0, f32>
# BACK: fsdp.all_gather.wait %[[U]]
# BACK: aten.call {{.*}} bwd in "b.0"
# BACK: fsdp.reshard %[[U]] bwd
//--- back.yaml
mesh: {dp: 2}
reshard_after_forward: true
groups:
  - modules: ["b.0", "b.1"]
  - {modules: ["b.2"], forward_prefetch: ["b.0"]}

# NONE: lists.yaml:4:{{.*}}: error: group @b.0 has a list of groups to prefetch, but prefetch is none
# AUTO: lists.yaml:4:{{.*}}: error: group @b.0 has a {{(forward|backward)}}_prefetch, an order of its own; leave it out where the schedule is searched for

# UNKNOWN: unknown.yaml:1:{{.*}}: error: forward_prefetch of group 'b.0' names module 'b.7', which is no module of a group
//--- unknown.yaml
groups: [{modules: ["b.0"], forward_prefetch: ["b.7"]}]

# A module whose parameters inner groups have makes no group, and neither does the root of such a model.
# EMPTY: empty.yaml:4:{{.*}}: error: forward_prefetch is of group 'b', which has no parameters of its own; give the list to a group that has some
//--- empty.yaml
mesh: {dp: 2}
groups:
  - modules: ["b.*"]
  - {modules: ["b"], forward_prefetch: ["b.1"]}

# ROOT: root.yaml:2:{{.*}}: error: backward_prefetch is of the root group, which has no parameters of its own;
//--- root.yaml
groups: [{modules: ["e", "b.*"]}]
root: {backward_prefetch: ["b.1"]}

# ITSELF: itself.yaml:1:{{.*}}: error: backward_prefetch of group 'b.0' names module 'b.0', its own
//--- itself.yaml
groups: [{modules: ["b.0"], backward_prefetch: ["b.0"]}]

# ZERO: {{.*}}zero.yaml:1:{{.*}}: error: groups[0].backward_prefetch is '0', expected a number of groups, at least 1, or a list of modules
//--- zero.yaml
groups: [{modules: ["b.0"], backward_prefetch: 0}]

# MAPPING: {{.*}}mapping.yaml:1:{{.*}}: error: groups[0].backward_prefetch is a mapping, expected a number of groups, at least 1, or a list of modules
//--- mapping.yaml
groups: [{modules: ["b.0"], backward_prefetch: {b: 1}}]

//--- step.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "chain", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @b.0.w : !m
  fsdp.param @b.1.w : !m
  fsdp.param @b.2.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %we = fsdp.read @e.w : !m
    %w0 = fsdp.read @b.0.w : !m
    %w1 = fsdp.read @b.1.w : !m
    %w2 = fsdp.read @b.2.w : !m
    %ye = aten.call "mm.default"(%x, %we) fwd in "e" : (!m, !m) -> !m
    %y0 = aten.call "mm.default"(%ye, %w0) fwd in "b.0" : (!m, !m) -> !m
    %y1 = aten.call "mm.default"(%y0, %w1) fwd in "b.1" : (!m, !m) -> !m
    %y2 = aten.call "mm.default"(%y1, %w2) fwd in "b.2" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y2, none) fwd in "" : (!m) -> !s
    %g2 = aten.call "mul.Tensor"(%w2, %y1) bwd in "b.2" : (!m, !m) -> !m
    fsdp.grad @b.2.w, %g2 : !m
    %g1 = aten.call "mul.Tensor"(%w1, %g2) bwd in "b.1" : (!m, !m) -> !m
    fsdp.grad @b.1.w, %g1 : !m
    %g0 = aten.call "mul.Tensor"(%w0, %g1) bwd in "b.0" : (!m, !m) -> !m
    fsdp.grad @b.0.w, %g0 : !m
    %ge = aten.call "mul.Tensor"(%x, %g0) bwd in "e" : (!m, !m) -> !m
    fsdp.grad @e.w, %ge : !m
    fsdp.update @e.w step %step lr %lr
    fsdp.update @b.0.w step %step lr %lr
    fsdp.update @b.1.w step %step lr %lr
    fsdp.update @b.2.w step %step lr %lr
    return %loss : !s
  }
}
