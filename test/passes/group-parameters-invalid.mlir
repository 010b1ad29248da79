// RUN: split-file %s %t
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/none.yaml 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/twice.yaml 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/against.yaml 2>&1 | FileCheck %s --check-prefix=AGAINST
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/idle.yaml 2>&1 | FileCheck %s --check-prefix=IDLE
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/outer.yaml 2>&1 | FileCheck %s --check-prefix=OUTER
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/tied.yaml 2>&1 | FileCheck %s --check-prefix=TIED
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/root.yaml 2>&1 | FileCheck %s --check-prefix=ROOT
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/unknown.yaml 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/documents.yaml 2>&1 | FileCheck %s --check-prefix=DOCUMENTS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/both.yaml 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/word.yaml 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/mesh.yaml 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/number.yaml 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=mesh=x=2,x=2 2>&1 | FileCheck %s --check-prefix=AXES
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/ranks.yaml 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/syntax.yaml 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/betas.yaml 2>&1 | FileCheck %s --check-prefix=BETAS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/momentum.yaml 2>&1 | FileCheck %s --check-prefix=MOMENTUM
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/dtype.yaml 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/output.yaml 2>&1 | FileCheck %s --check-prefix=OUTPUT
// RUN: not fsdp-opt %t/bare.mlir --fsdp-group-parameters=config=%t/lacking.yaml 2>&1 | FileCheck %s --check-prefix=LACKING
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=mesh=4 2>&1 | FileCheck %s --check-prefix=MESHFLAG
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=mesh=dp=0 2>&1 | FileCheck %s --check-prefix=RANKSFLAG
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=layout=round 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=reshard-after-forward=some 2>&1 | FileCheck %s --check-prefix=RESHARD
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=prefetch=all 2>&1 | FileCheck %s --check-prefix=PREFETCH
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/sync.yaml 2>&1 | FileCheck %s --check-prefix=SYNC
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/kept.yaml 2>&1 | FileCheck %s --check-prefix=KEPT
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="config=%t/sync.yaml microbatches=2" 2>&1 | FileCheck %s --check-prefix=REPLICAS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=gradient-sync=last 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=microbatch-loss=sum 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=microbatches=2000 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="microbatches=2 gradient-sync=never" 2>&1 | FileCheck %s --check-prefix=NEVER
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="microbatches=2 microbatch-order=1f1b" 2>&1 | FileCheck %s --check-prefix=STAGELESS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="microbatches=2 stages=layers.0,layers.1" 2>&1 | FileCheck %s --check-prefix=ORDERLESS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="microbatch-order=1f1b stages=layers.*" 2>&1 | FileCheck %s --check-prefix=ONEORDER
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="microbatches=2 microbatch-order=2f2b" 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="microbatches=2 microbatch-order=1f1b stages=layers.0,blocks.*" 2>&1 | FileCheck %s --check-prefix=NOSTAGE
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/accumulation.yaml 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="config=%t/accumulation.yaml microbatches=1 microbatch-loss=sum" 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/factor.yaml 2>&1 | FileCheck %s --check-prefix=FACTOR
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters --fsdp-group-parameters 2>&1 | FileCheck %s --check-prefix=AGAIN

// Words on the command line are checked as those of the file.
// AXES: error: mesh is 'x=2,x=2': it has two axes 'x'
// MESHFLAG: error: mesh is '4', expected AXIS=RANKS with at least one rank, as in dp=4
// RANKSFLAG: error: mesh is 'dp=0', expected AXIS=RANKS with at least one rank, as in dp=4
// LAYOUT: error: layout is 'round', expected flat or per-param
// RESHARD: error: reshard_after_forward is 'some', expected true, false, none, auto or a number of ranks
// PREFETCH: error: prefetch is 'all', expected fsdp2 or none
// ONE: error: gradient_sync is for several microbatches, but there is one
// LOSS: error: the loss of microbatches is for several of them, but there is one
// MANY: error: microbatches is 2000, expected 1 to 1024
// NEVER: error: gradient_sync is 'never', expected each, reduce_scatter or last
// STAGELESS: error: order 1f1b interleaves stages, but accumulation has none: name the modules with which they begin (stages, --stages)
// ORDERLESS: error: stages are for order 1f1b (--microbatch-order 1f1b), but the order is sequential
// ONEORDER: error: the order of microbatches is for several of them, but there is one
// ORDER: error: the order of microbatches is '2f2b', expected sequential or 1f1b
// NOSTAGE: error: no module that runs matches 'layers.0' of accumulation.stages
// AGAIN: error: the module has a mesh or groups already
// AGAIN: note: declared here


// A pattern that matches nothing is an error at its place in the file.
// NONE: {{.*}}none.yaml:2:5: error: pattern 'blocks.*' matches no module of the model
//--- none.yaml
groups:
  - modules: ["blocks.*"]

# A module is given once.
# TWICE: {{.*}}twice.yaml:3:5: error: module 'layers.1' is given twice: by 'layers.*' in line 2 and by 'layers.1' in line 3; the first pattern that matches a module counts: write 'layers.1' before 'layers.*'
//--- twice.yaml
groups:
  - modules: ["layers.*"]
  - together: ["layers.1"]

# AGAINST: {{.*}}against.yaml:3:5: error: module 'layers.1' is given twice: by 'layers.1' in line 2 and by 'layers.1' in line 3{{$}}
//--- against.yaml
groups:
  - modules: ["layers.1"]
  - together: ["layers.1", "layers.0"]

# A pattern that names nothing new has no effect.
# IDLE: {{.*}}idle.yaml:3:5: error: all modules of 'layers.*' are given twice: by 'layers.0' in line 2 and by 'layers.*' in line 3{{$}}
//--- idle.yaml
groups:
  - together: ["layers.0", "layers.1"]
  - modules: ["layers.*"]

# Inner modules come before outer ones.
# OUTER: {{.*}}outer.yaml:3:5: error: all parameters of 'layers.0' are in group 'layers' already; name inner modules before outer ones, as fully_shard is called bottom-up
//--- outer.yaml
groups:
  - modules: ["layers"]
  - modules: ["layers.0"]

# A shared parameter is in one group with all modules that share it.
# TIED: error: parameter 'emb.weight' of group 'emb' is shared with 'head.weight' of the root group; put all modules that share it into one group: together: [emb, head]
//--- tied.yaml
groups:
  - modules: ["emb"]

# The root group needs no pattern.
# ROOT: {{.*}}root.yaml:2:5: error: the root group is implied; its options stand under 'root'
//--- root.yaml
groups:
  - modules: [""]

# What stands behind the first document would be ignored.
# DOCUMENTS: error: {{.*}}documents.yaml: several documents (---), expected one
//--- documents.yaml
mesh: {dp: 4}
---
layout: per-param

# Keys that the format does not know are errors.
# UNKNOWN: {{.*}}unknown.yaml:2:5: error: unknown key 'module'
//--- unknown.yaml
groups:
  - module: ["layers.*"]

# BOTH: {{.*}}both.yaml:2:5: error: a group has either 'modules' or 'together'
//--- both.yaml
groups:
  - modules: ["layers.0"]
    together: ["layers.1"]

# WORD: {{.*}}word.yaml:1:24: error: reshard_after_forward is 'some', expected true, false, none, auto or a number of ranks
//--- word.yaml
reshard_after_forward: some

# MESH: {{.*}}mesh.yaml:1:{{.*}}: error: mesh: it has 3 axes, expected one, as in dp=4, or two, as in replicate=2,shard=4
//--- mesh.yaml
mesh: {pp: 2, dp: 2, tp: 2}

# NUMBER: {{.*}}number.yaml:1:{{.*}}: error: mesh.dp is 'four', expected a number of ranks
//--- number.yaml
mesh: {dp: four}

# RANKS: {{.*}}ranks.yaml:1:{{.*}}: error: mesh: axis 'dp' has 0 ranks, expected at least 1 and at most 16777216
//--- ranks.yaml
mesh: {dp: 0}

# SYNTAX: {{.*}}syntax.yaml:{{.*}}: error: Unexpected token
//--- syntax.yaml
mesh: {dp: 2

# BETAS: {{.*}}betas.yaml:1:{{.*}}: error: betas holds 1 number, expected 2
//--- betas.yaml
optimizer: {betas: [0.9]}

# MOMENTUM: {{.*}}momentum.yaml:1:{{.*}}: error: adamw has no momentum
//--- momentum.yaml
optimizer: {name: adamw, momentum: 0.9}

# DTYPE: {{.*}}dtype.yaml:1:{{.*}}: error: the dtype is 'half', expected float32, bfloat16 or float16
//--- dtype.yaml
mixed_precision: {param_dtype: half}

# OUTPUT: {{.*}}output.yaml:1:{{.*}}: error: output_dtype of FSDP2's MixedPrecisionPolicy changes what the model computes: export it with fsdpc.export(..., mixed_precision=...)
//--- output.yaml
mixed_precision: {param_dtype: bfloat16, output_dtype: float32}

# LACKING: {{.*}}lacking.yaml:1:{{.*}}: error: the model's step has no optimizer whose values could be replaced
//--- lacking.yaml
optimizer: {lr: 0.1}

# What a group says is checked at its place.
# SYNC: {{.*}}sync.yaml:2:{{.*}}: error: gradient_sync is for several microbatches, but there is one
# REPLICAS: {{.*}}sync.yaml:2:{{.*}}: error: gradient_sync is reduce_scatter, but the mesh has no axis of replicas: say each or last
//--- sync.yaml
groups:
  - {modules: ["layers.*"], gradient_sync: reduce_scatter}

# KEPT: {{.*}}kept.yaml:1:{{.*}}: error: reshard_after_backward is for several microbatches, but there is one
//--- kept.yaml
root: {reshard_after_backward: false}

# What the file says of microbatches, or of all groups, is checked there.
# COUNT: {{.*}}accumulation.yaml:1:{{.*}}: error: microbatches is 2000, expected 1 to 1024
//--- accumulation.yaml
accumulation: {microbatches: 2000}

# FACTOR: {{.*}}factor.yaml:2:24: error: reshard_after_forward is 3, expected a factor of 4, the ranks of axis 'dp'
//--- factor.yaml
mesh: {dp: 4}
reshard_after_forward: 3

//--- step.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @emb.weight : !m aliases ["head.weight"]
  fsdp.param @layers.0.w : !m
  fsdp.param @layers.1.w : !m
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.01 betas = [0.9, 0.999] eps = 1.0e-8
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %w = fsdp.read @emb.weight : !m
    %h = aten.call "mm.default"(%x, %w) fwd in "emb" : (!m, !m) -> !m
    %y = aten.call "mm.default"(%h, %w) fwd in "head" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}

//--- bare.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @emb.weight : !m aliases ["head.weight"]
  fsdp.param @layers.0.w : !m
  fsdp.param @layers.1.w : !m
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}
