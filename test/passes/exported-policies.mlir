// RUN: split-file %s %t
// RUN: fsdp-opt %t/bare.mlir --fsdp-group-parameters=config=%t/blocks.yaml | FileCheck %s --check-prefix=BARE
// RUN: fsdp-opt %t/norms.mlir --fsdp-group-parameters=config=%t/norms.yaml | FileCheck %s --check-prefix=NORMS
// RUN: not fsdp-opt %t/norms.mlir --fsdp-group-parameters=config=%t/blocks.yaml 2>&1 | FileCheck %s --check-prefix=MIXED
// RUN: fsdp-opt %t/norms.mlir --fsdp-group-parameters="config=%t/blocks.yaml param-dtype=bfloat16" | FileCheck %s --check-prefix=SAID

// The policy of a module is the first that holds it: one for the model is that of all its groups.
// BARE: fsdp.group @l.0 {{.*}} mixed_precision <param_dtype = bf16, reduce_dtype = bf16>{{$}}
// BARE: fsdp.group @root {{.*}} mixed_precision <param_dtype = bf16, reduce_dtype = bf16>{{$}}
// NORMS: fsdp.group @l.0.norm {{.*}} mixed_precision <param_dtype = f32>{{$}}
// NORMS: fsdp.group @l.0 {{.*}} mixed_precision <param_dtype = bf16, reduce_dtype = f32>{{$}}
// NORMS: fsdp.group @root {{.*}} mixed_precision <param_dtype = bf16>{{$}}

// A group has one policy.
// MIXED: error: parameter 'l.0.norm.w' was exported with param_dtype f32 and reduce_dtype f32 of module 'l.0.norm', but belongs to the group of module 'l.0' with bf16 and f32: give that module a group of its own, or say mixed_precision of the group
// SAID: fsdp.group @l.0 {{.*}} mixed_precision <param_dtype = bf16>{{$}}

//--- blocks.yaml
groups: [{modules: ["l.*"]}]

//--- norms.yaml
groups: [{modules: ["l.*.norm"]}, {modules: ["l.*"]}]

//--- bare.mlir
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @l.0.norm.w : tensor<4xf32>
  fsdp.param @l.0.w : tensor<4xf32>
  fsdp.param @r : tensor<4xf32>
  fsdp.mixed_precision [""] param_dtype bf16 reduce_dtype bf16
  func.func @step() -> tensor<4xf32> {
    %n = fsdp.read @l.0.norm.w : tensor<4xf32>
    %w = fsdp.read @l.0.w : tensor<4xf32>
    %r = fsdp.read @r : tensor<4xf32>
    %a = aten.call "mul.Tensor"(%n, %w) fwd in "l.0.norm" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = aten.call "mul.Tensor"(%a, %r) fwd in "" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %b : tensor<4xf32>
  }
}

//--- norms.mlir
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @l.0.norm.w : tensor<4xf32>
  fsdp.param @l.0.w : tensor<4xf32>
  fsdp.param @r : tensor<4xf32>
  fsdp.mixed_precision ["l.0.norm"] param_dtype f32
  fsdp.mixed_precision ["l.0"] param_dtype bf16 reduce_dtype f32
  fsdp.mixed_precision [""] param_dtype bf16
  func.func @step() -> tensor<4xf32> {
    %n = fsdp.read @l.0.norm.w : tensor<4xf32>
    %w = fsdp.read @l.0.w : tensor<4xf32>
    %r = fsdp.read @r : tensor<4xf32>
    %a = aten.call "mul.Tensor"(%n, %w) fwd in "l.0.norm" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = aten.call "mul.Tensor"(%a, %r) fwd in "" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %b : tensor<4xf32>
  }
}
