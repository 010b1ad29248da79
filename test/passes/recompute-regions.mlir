// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/full.yaml --fsdp-recompute="policy=none min-bytes=0" | FileCheck %s --check-prefix=FULL
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/selected.yaml --fsdp-recompute="policy=none min-bytes=0" | FileCheck %s --check-prefix=SELECTED
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/nested.yaml --fsdp-recompute="policy=none min-bytes=0" | FileCheck %s --check-prefix=NESTED
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/full.yaml" -o /dev/null
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/keep.yaml --fsdp-recompute="policy=none" 2>&1 | FileCheck %s --check-prefix=KEEP
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/inner.yaml --fsdp-recompute="policy=none" 2>&1 | FileCheck %s --check-prefix=INNER
// RUN: not fsdp-opt %t/root.mlir --fsdp-recompute="policy=none" 2>&1 | FileCheck %s --check-prefix=ROOT
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/nothing.yaml 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/twice.yaml 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/cheap.yaml 2>&1 | FileCheck %s --check-prefix=CHEAP
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/all.yaml 2>&1 | FileCheck %s --check-prefix=ALL

// Only what the region's own module computes is computed again, whatever the group's other modules
// and the pass's policy.
// FULL: fsdp.recompute_region "l.0.mlp" full
// FULL: "sum.default"
// FULL-NOT: "sigmoid.default"{{.*}} bwd in "l.0.attn"
// FULL: "mm.default"({{.*}}) bwd in "l.0.mlp"
// FULL-NEXT: "relu.default"({{.*}}) bwd in "l.0.mlp"
// FULL-NOT: "sigmoid.default"{{.*}} bwd
// FULL: return

// Results of the operators that are kept are not.
// SELECTED: fsdp.recompute_region "l.0.mlp" selected keep ["mm"]
// SELECTED: "sum.default"
// SELECTED-NOT: "mm.default"{{.*}} bwd in "l.0.mlp"
// SELECTED: "relu.default"({{.*}}) bwd in "l.0.mlp"
// SELECTED: return

// Of regions inside each other the inner one decides on what is its own.
// NESTED: fsdp.recompute_region "l.0" full
// NESTED-NEXT: fsdp.recompute_region "l.0.mlp" selected
// NESTED: "sum.default"
// NESTED-NOT: "mm.default"{{.*}} bwd
// NESTED: "relu.default"({{.*}}) bwd in "l.0.mlp"
// NESTED: "sigmoid.default"({{.*}}) bwd in "l.0.attn"
// NESTED: return

//--- full.yaml
groups: [{modules: ["l.*"]}]
activation_checkpointing: [{modules: ["**.mlp"]}]

//--- selected.yaml
groups: [{modules: ["l.*"]}]
activation_checkpointing: [{modules: ["l.*.mlp"], recompute: selected, keep: [mm]}]

//--- nested.yaml
groups: [{modules: ["l.*"]}]
activation_checkpointing: [{modules: ["l.*"]}, {modules: ["l.0.mlp"], recompute: selected}]

# KEEP: error: region 'l.0.mlp' keeps 'bmm', an operator that its forward does not call
//--- keep.yaml
groups: [{modules: ["l.*"]}]
activation_checkpointing: [{modules: ["l.*.mlp"], recompute: selected, keep: [bmm]}]

# INNER: error: region 'l.0' holds module 'l.0.mlp' of group @l.0.mlp
//--- inner.yaml
groups: [{modules: ["l.*.mlp"]}, {modules: ["l.*"]}]
activation_checkpointing: [{modules: ["l.*"]}]

# NOTHING: nothing.yaml:1:{{.*}}: error: pattern 'l.*.ffn' matches no module that computes something
//--- nothing.yaml
activation_checkpointing: [{modules: ["l.*.ffn"]}]

# TWICE: twice.yaml:1:{{.*}}: error: all modules of 'l.0.mlp' are given twice in activation_checkpointing: by 'l.*.mlp', which counts, and by 'l.0.mlp'
//--- twice.yaml
activation_checkpointing: [{modules: ["l.*.mlp", "l.0.mlp"]}]

# CHEAP: cheap.yaml:1:{{.*}}: error: recompute of activation_checkpointing is 'cheap', expected full or selected
//--- cheap.yaml
activation_checkpointing: [{modules: ["l.0.mlp"], recompute: cheap}]

# ALL: all.yaml:1:{{.*}}: error: keep is of recompute: selected
//--- all.yaml
activation_checkpointing: [{modules: ["l.0.mlp"], keep: [mm]}]

//--- step.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @l.0.attn.w : !m
  fsdp.param @l.0.mlp.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %a = fsdp.read @l.0.attn.w : !m
    %w = fsdp.read @l.0.mlp.w : !m
    %a0 = aten.call "sigmoid.default"(%a) fwd in "l.0.attn" : (!m) -> !m
    %a1 = aten.call "mul.Tensor"(%a0, %x) fwd in "l.0.attn" : (!m, !m) -> !m
    %b0 = aten.call "mm.default"(%a1, %w) fwd in "l.0.mlp" : (!m, !m) -> !m
    %b1 = aten.call "relu.default"(%b0) fwd in "l.0.mlp" : (!m) -> !m
    %b2 = aten.call "mul.Tensor"(%b1, %b0) fwd in "l.0.mlp" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%b2, none) fwd in "" : (!m) -> !s
    %db = aten.call "mul.Tensor"(%b1, %b0) bwd in "l.0.mlp" : (!m, !m) -> !m
    %dc = aten.call "mm.default"(%db, %a1) bwd in "l.0.mlp" : (!m, !m) -> !m
    fsdp.grad @l.0.mlp.w, %dc : !m
    %da = aten.call "mul.Tensor"(%dc, %a0) bwd in "l.0.attn" : (!m, !m) -> !m
    fsdp.grad @l.0.attn.w, %da : !m
    fsdp.update @l.0.attn.w step %step lr %lr
    fsdp.update @l.0.mlp.w step %step lr %lr
    return %loss : !s
  }
}

// A part of the root decides by itself what is computed again, unlike a part of a block.
// ROOT: error: region 'outer' holds module 'outer.inner' of group @outer.inner
//--- root.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @outer.w : !m frozen
  fsdp.param @outer.inner.w : !m frozen
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @outer.inner [@outer.inner.w] of ["outer.inner"] part_of "" over @mesh "dp" flat reshard_after_forward none
  fsdp.group @root [@outer.w] of [""] over @mesh "dp" flat reshard_after_forward none
  fsdp.recompute_region "outer" full
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @outer.w : !m
    %v = fsdp.read @outer.inner.w : !m
    %a = aten.call "mul.Tensor"(%w, %w) fwd in "outer" : (!m, !m) -> !m
    %b = aten.call "mul.Tensor"(%a, %v) fwd in "outer.inner" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%b, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}
