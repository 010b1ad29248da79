// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 config=%t/largest.yaml" | FileCheck %s --check-prefix=LARGEST
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=replicate=2,shard=2 config=%t/largest.yaml" | FileCheck %s --check-prefix=REPLICAS
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 config=%t/names.yaml" | FileCheck %s --check-prefix=NAMES
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 config=%t/groups.yaml" | FileCheck %s --check-prefix=GROUPS
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 config=%t/rows.yaml" | FileCheck %s --check-prefix=ROWS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 layout=flat config=%t/largest.yaml" 2>&1 | FileCheck %s --check-prefix=FLAT
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 config=%t/bias.yaml" 2>&1 | FileCheck %s --check-prefix=BIAS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=3 config=%t/names.yaml" 2>&1 | FileCheck %s --check-prefix=UNEVEN
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 config=%t/conflict.yaml" 2>&1 | FileCheck %s --check-prefix=CONFLICT
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 config=%t/nowhere.yaml" 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 config=%t/word.yaml" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 config=%t/list.yaml" 2>&1 | FileCheck %s --check-prefix=LIST

// The largest dimension that the ranks divide, of equal ones the first; where they divide none, 0.
// LARGEST: fsdp.group @layers.0 [@layers.0.w, @layers.0.b] {{.*}} per_param shard_dims [2, 0] reshard
// LARGEST: fsdp.group @layers.1 [@layers.1.w, @layers.1.b] {{.*}} per_param shard_dims [1, 0] reshard
// LARGEST: fsdp.group @root [@emb.weight] {{.*}} per_param reshard
// REPLICAS: fsdp.group @layers.0 {{.*}} over @mesh "shard" replicated "replicate" per_param shard_dims [2, 0]
// REPLICAS: fsdp.group @layers.1 {{.*}} per_param reshard
//--- largest.yaml
layout: per-param
shard_placement: largest

# Names and patterns, a negative number from the last dimension; what none names is cut on dimension 0.
# Two patterns may say the same.
# NAMES: fsdp.group @layers.0 {{.*}} shard_dims [2, 0]
# NAMES: fsdp.group @layers.1 {{.*}} shard_dims [1, 0]
# NAMES: fsdp.group @root {{.*}} shard_dims [1]
# UNEVEN: {{.*}}names.yaml:2:{{[0-9]+}}: error: shard_placement of parameter 'layers.0.w' is -1, but dimension 2 has size 8, which the 3 ranks of axis 'dp' do not divide; only dimension 0 is padded, and 'largest' takes the largest dimension that they divide
//--- names.yaml
layout: per-param
shard_placement: {"layers.0.w": -1, "layers.1.*": largest, "layers.1.w": 1, "head.weight": 1}

# What a group or the root says holds there in place of what the file says for all.
# GROUPS: fsdp.group @layers.0 {{.*}} shard_dims [1, 0]
# GROUPS: fsdp.group @layers.1 {{.*}} shard_dims [1, 0]
# GROUPS: fsdp.group @root {{.*}} per_param reshard
//--- groups.yaml
layout: per-param
shard_placement: {"layers.1.w": 1}
groups:
  - {modules: ["layers.0"], shard_placement: {"**.w": 1}}
  - {modules: ["layers.1"]}
root: {shard_placement: 0}

# Dimension 0 is the default.
# ROWS-NOT: shard_dims
//--- rows.yaml
layout: per-param
shard_placement: 0

# FLAT: {{.*}}largest.yaml:2:18: error: shard_placement is for the per-param layout; the flat one lays a group out as one buffer and cuts no dimension. Say 'layout: per-param'

# BIAS: {{.*}}bias.yaml:2:18: error: shard_placement of parameter 'layers.0.b' is 1, but it has 1 dimension
//--- bias.yaml
layout: per-param
shard_placement: 1

# CONFLICT: {{.*}}conflict.yaml:4:15: error: shard_placement cuts parameter 'layers.0.w' on dimension 2 by '**.w' and on dimension 1 by 'layers.0.*'
//--- conflict.yaml
layout: per-param
shard_placement:
  "**.w": 2
  layers.0.*: 1

# NOWHERE: {{.*}}nowhere.yaml:2:31: error: pattern 'blocks.*' of shard_placement matches no parameter of its groups
//--- nowhere.yaml
layout: per-param
shard_placement: {"blocks.*": 1}

# WORD: {{.*}}word.yaml:2:18: error: shard_placement is 'rows', expected a dimension, from 0 or, from the last one, from -1 on, or largest
//--- word.yaml
layout: per-param
shard_placement: rows

# LIST: {{.*}}list.yaml:2:{{[0-9]+}}: error: shard_placement is a list, expected a dimension, largest, or a mapping of parameters to these
//--- list.yaml
layout: per-param
shard_placement: [1]

//--- step.mlir
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @emb.weight : tensor<4x4xf32> aliases ["head.weight"]
  fsdp.param @layers.0.w : tensor<3x4x8xf32>
  fsdp.param @layers.0.b : tensor<5xf32>
  fsdp.param @layers.1.w : tensor<6x4x3xf32>
  fsdp.param @layers.1.b : tensor<4xf32>
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.01 betas = [0.9, 0.999] eps = 1.0e-8
  func.func @step() -> !s {
    %x = fsdp.input "x" : !s
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!s) -> !s
    return %loss : !s
  }
}
