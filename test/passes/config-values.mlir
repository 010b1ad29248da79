// A value of the wrong kind in the configuration file: the error names its key, the value and what was expected.
// RUN: split-file %s %t
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/mapping.yaml 2>&1 | FileCheck %t/mapping.yaml
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/empty.yaml 2>&1 | FileCheck %t/empty.yaml
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/file.yaml 2>&1 | FileCheck %t/file.yaml
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/list.yaml 2>&1 | FileCheck %t/list.yaml
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/entry.yaml 2>&1 | FileCheck %t/entry.yaml
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/whole.yaml 2>&1 | FileCheck %t/whole.yaml
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/scalar.yaml 2>&1 | FileCheck %t/scalar.yaml
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/boolean.yaml 2>&1 | FileCheck %t/boolean.yaml
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/number.yaml 2>&1 | FileCheck %t/number.yaml
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/depth.yaml 2>&1 | FileCheck %t/depth.yaml
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/alias.yaml 2>&1 | FileCheck %t/alias.yaml

//--- mapping.yaml
mesh: 3
# CHECK: mapping.yaml:1:7: error: mesh is '3', expected a mapping of keys to values

//--- empty.yaml
mesh:
layout: flat
# CHECK: empty.yaml:{{.*}}: error: mesh is empty, expected a mapping of keys to values

//--- file.yaml
layers
# CHECK: file.yaml:1:1: error: the file is 'layers', expected a mapping of keys to values

//--- list.yaml
groups:
  - modules: [layers.1]
  - modules: layers.0
# CHECK: list.yaml:3:14: error: groups[1].modules is 'layers.0', expected a list

// The first entry of a list has the list's place in the file.
//--- entry.yaml
activation_checkpointing: [full]
# CHECK: entry.yaml:1:28: error: activation_checkpointing[0] is 'full', expected a mapping of keys to values

//--- whole.yaml
root: [full]
# CHECK: whole.yaml:1:8: error: root is a list, expected a mapping of keys to values

//--- scalar.yaml
groups:
  - modules: [layers.0]
    mixed_precision: {param_dtype: [bfloat16]}
# CHECK: scalar.yaml:3:{{.*}}: error: groups[0].mixed_precision.param_dtype is a list, expected one word or number

//--- boolean.yaml
split_root: maybe
# CHECK: boolean.yaml:1:13: error: split_root is 'maybe', expected true or false

//--- number.yaml
optimizer: {betas: [high, 0.9]}
# CHECK: number.yaml:1:21: error: optimizer.betas[0] is 'high', expected a number

//--- depth.yaml
root: {forward_prefetch: 0}
# CHECK: depth.yaml:1:26: error: root.forward_prefetch is '0', expected a number of groups, at least 1, or a list of modules

//--- alias.yaml
mesh: &mesh {dp: 2}
root: {mesh: *mesh}
# CHECK: alias.yaml:2:{{.*}}: error: root.mesh is *mesh, expected a value; aliases are not read

//--- step.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @layers.0.w : !m
  fsdp.param @layers.1.w : !m
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}
