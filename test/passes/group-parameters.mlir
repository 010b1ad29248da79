// RUN: split-file %s %t
// RUN: fsdp-opt %t/blocks.mlir --fsdp-group-parameters="mesh=dp=4 reshard-after-forward=true layout=per-param prefetch=none" --fsdp-verify-captured | FileCheck %s --check-prefix=BLOCKS
// RUN: fsdp-opt %t/blocks.mlir --fsdp-group-parameters | FileCheck %s --check-prefix=DEFAULT
// RUN: fsdp-opt %t/blocks.mlir --fsdp-group-parameters=config=%t/config.yaml | FileCheck %s --check-prefix=CONFIG
// RUN: fsdp-opt %t/blocks.mlir --fsdp-group-parameters="config=%t/config.yaml mesh=data=8 layout=flat prefetch=fsdp2 reshard-after-forward=false" | FileCheck %s --check-prefix=WIN
// RUN: fsdp-opt %t/blocks.mlir --fsdp-group-parameters=config=%t/adam.yaml | FileCheck %s --check-prefix=ADAM
// RUN: fsdp-opt %t/blocks.mlir --fsdp-group-parameters=config=%t/sgd.yaml | FileCheck %s --check-prefix=SGD
// RUN: fsdp-opt %t/blocks.mlir --fsdp-group-parameters=config=%t/inner.yaml | FileCheck %s --check-prefix=INNER
// RUN: fsdp-opt %t/blocks.mlir --fsdp-group-parameters=config=%t/apart.yaml | FileCheck %s --check-prefix=APART
// RUN: fsdp-opt %t/renamed.mlir --fsdp-group-parameters | FileCheck %s --check-prefix=RENAMED
// RUN: fsdp-opt %t/renamed.mlir --fsdp-group-parameters=config=%t/renamed.yaml | FileCheck %s --check-prefix=SECOND
// RUN: fsdp-opt %t/blocks.mlir --fsdp-group-parameters=config=%t/policy.yaml | FileCheck %s --check-prefix=POLICY
// RUN: fsdp-opt %t/blocks.mlir --fsdp-group-parameters="config=%t/policy.yaml reduce-dtype=float32" | FileCheck %s --check-prefix=REDUCE
// RUN: fsdp-opt %t/symbols.mlir --fsdp-group-parameters=config=%t/symbols.yaml | FileCheck %s --check-prefix=SYMBOLS

// Without a file each repeated block is a group (the outermost: not the experts inside), and the
// rest is the root's. Options of the command line hold for all groups.
// EXAMPLE: fsdp-group-parameters
// BLOCKS: module attributes {{.*}}fsdp.prefetch = #fsdp.prefetch<none>
// BLOCKS: fsdp.mesh @mesh <dp = 4>
// BLOCKS-NEXT: fsdp.group @layers.0 [@layers.0.wq, @layers.0.experts.0.w, @layers.0.experts.1.w] of ["layers.0"] over @mesh "dp" per_param reshard_after_forward true
// BLOCKS-NEXT: fsdp.group @layers.1 [@layers.1.wq] of ["layers.1"] over @mesh "dp" per_param reshard_after_forward true
// BLOCKS-NEXT: fsdp.group @root [@emb.weight, @norm.weight, @head.weight] of [""] over @mesh "dp" per_param reshard_after_forward true
// BLOCKS-NEXT: func.func

// The defaults are FSDP2's: one rank, flat, reshard_after_forward none.
// DEFAULT-NOT: fsdp.prefetch
// DEFAULT: fsdp.mesh @mesh <dp = 1>
// DEFAULT: fsdp.group @root {{.*}} flat reshard_after_forward none

// A file: one group per module that a pattern matches, one of several modules together, options per
// group, the root's, and the optimizer's values.
// CONFIG: module attributes {{.*}}fsdp.prefetch = #fsdp.prefetch<none>
// CONFIG: fsdp.optimizer adamw lr = 5.000000e-01 weight_decay = 1.000000e-02 betas = [9.000000e-01, 9.500000e-01]
// CONFIG: fsdp.mesh @mesh <shard = 2>
// CONFIG-NEXT: fsdp.group @layers.0 [{{.*}}] of ["layers.0"] over @mesh "shard" per_param reshard_after_forward false
// CONFIG-NEXT: fsdp.group @layers.1 [{{.*}}] of ["layers.1"] over @mesh "shard" per_param reshard_after_forward false
// CONFIG-NEXT: fsdp.group @"norm, head" [@norm.weight, @head.weight] of ["norm", "head"] over @mesh "shard" per_param reshard_after_forward true
// CONFIG-NEXT: fsdp.group @root [@emb.weight] of [""] over @mesh "shard" per_param reshard_after_forward none

// The command line wins over the file, but not over a group's own choice.
// WIN: fsdp.prefetch = #fsdp.prefetch<fsdp2>
// WIN: fsdp.mesh @mesh <data = 8>
// WIN: fsdp.group @layers.0 {{.*}} "data" flat reshard_after_forward false
// WIN: fsdp.group @"norm, head" {{.*}} flat reshard_after_forward false
// WIN: fsdp.group @root {{.*}} flat reshard_after_forward none

// Another optimizer takes torch's defaults for what the file does not say.
// ADAM: fsdp.optimizer adam lr = 1.000000e-03 weight_decay = 0.000000e+00 betas = [9.000000e-01, 9.990000e-01] eps = 1.000000e-08
// SGD: fsdp.optimizer sgd lr = 1.000000e-01 weight_decay = 0.000000e+00 momentum = 9.000000e-01

// A parameter belongs to the first call that takes it: inner modules come first, and a module whose
// parameters they have taken makes no group.
// INNER: fsdp.group @layers.0.experts.0 [@layers.0.experts.0.w]
// INNER-NEXT: fsdp.group @layers.0.experts.1 [@layers.0.experts.1.w]
// INNER-NEXT: fsdp.group @layers.0 [@layers.0.wq]
// INNER-NEXT: fsdp.group @layers.1 [@layers.1.wq]

// A pattern is about the modules that nothing before it names: one block is wrapped apart, the others
// alike.
// APART: fsdp.group @layers.1 [@layers.1.wq] {{.*}} reshard_after_forward false
// APART-NEXT: fsdp.group @layers.0 [@layers.0.wq, {{.*}}] {{.*}} reshard_after_forward true
// APART-NEXT: fsdp.group @root

// A name from which no operation comes is another one of the module that its parameters name first: it makes no
// block of its own, and a file may say either.
// RENAMED: fsdp.group @enc.layers.0 [@enc.layers.0.w] of ["enc.layers.0"]
// RENAMED-NEXT: fsdp.group @enc.layers.1 [@enc.layers.1.w] of ["enc.layers.1"]
// RENAMED-NEXT: func.func
// SECOND: fsdp.group @enc.layers.1 [@enc.layers.1.w] of ["enc.layers.1"] {{.*}} reshard_after_forward false
// SECOND-NEXT: fsdp.group @enc.layers.0 [@enc.layers.0.w] of ["enc.layers.0"] {{.*}} reshard_after_forward true
// SECOND-NEXT: func.func

// FSDP2's policy holds for all groups.
// POLICY: fsdp.group @layers.0 {{.*}} reshard_after_forward none mixed_precision <param_dtype = bf16>{{$}}
// POLICY: fsdp.group @root {{.*}} reshard_after_forward none mixed_precision <param_dtype = bf16>{{$}}
// REDUCE: fsdp.group @layers.0 {{.*}} reshard_after_forward none mixed_precision <param_dtype = bf16, reduce_dtype = f32>{{$}}

// Names that the model has already get a number.
// SYMBOLS: fsdp.mesh @mesh_0 <dp = 2>
// SYMBOLS: fsdp.group @step_0 [@step.w] of ["step"] over @mesh_0
// SYMBOLS: fsdp.group @root_0 [@mesh, @root] of [""] over @mesh_0

//--- policy.yaml
mixed_precision: {param_dtype: bfloat16}

//--- blocks.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @emb.weight : !m
  fsdp.param @layers.0.wq : !m
  fsdp.param @layers.0.experts.0.w : !m
  fsdp.param @layers.0.experts.1.w : !m
  fsdp.param @layers.1.wq : !m
  fsdp.param @norm.weight : !m
  fsdp.param @head.weight : !m
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.01 betas = [0.9, 0.999] eps = 1.0e-8
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    fsdp.grad @emb.weight, %x : !m
    fsdp.grad @layers.0.wq, %x : !m
    fsdp.grad @layers.0.experts.0.w, %x : !m
    fsdp.grad @layers.0.experts.1.w, %x : !m
    fsdp.grad @layers.1.wq, %x : !m
    fsdp.grad @norm.weight, %x : !m
    fsdp.grad @head.weight, %x : !m
    fsdp.update @emb.weight step %step lr %lr
    fsdp.update @layers.0.wq step %step lr %lr
    fsdp.update @layers.0.experts.0.w step %step lr %lr
    fsdp.update @layers.0.experts.1.w step %step lr %lr
    fsdp.update @layers.1.wq step %step lr %lr
    fsdp.update @norm.weight step %step lr %lr
    fsdp.update @head.weight step %step lr %lr
    return %loss : !s
  }
}

//--- symbols.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @mesh : !m
  fsdp.param @root : !m
  fsdp.param @step.w : !m
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}

//--- renamed.yaml
groups:
  - {modules: ["last"], reshard_after_forward: false}
  - {modules: ["all.*"], reshard_after_forward: true}

//--- renamed.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @enc.layers.0.w : !m aliases ["all.0.w"] frozen
  fsdp.param @enc.layers.1.w : !m aliases ["all.1.w", "last.w"] frozen
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %w0 = fsdp.read @enc.layers.0.w : !m
    %w1 = fsdp.read @enc.layers.1.w : !m
    %h = aten.call "mm.default"(%x, %w0) fwd in "enc.layers.0" : (!m, !m) -> !m
    %y = aten.call "mm.default"(%h, %w1) fwd in "enc.layers.1" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!m) -> !s
    return %loss : !s
  }
}

//--- apart.yaml
groups:
  - {modules: ["layers.1"], reshard_after_forward: false}
  - {modules: ["layers.*"], reshard_after_forward: true}

//--- config.yaml
# FSDP2's words.
mesh: {shard: 2}
layout: per-param
prefetch: none
reshard_after_forward: true
groups:
  - modules: ["layers.*"]
    reshard_after_forward: false
  - together: ["norm", "head"]
root: {reshard_after_forward: none}
optimizer: {lr: 0.5, betas: [0.9, 0.95]}

//--- adam.yaml
optimizer: {name: adam}

//--- sgd.yaml
optimizer: {name: sgd, lr: 0.1, momentum: 0.9}

//--- inner.yaml
mesh: {dp: 2}
groups:
  - modules: ["layers.*.experts.*", "layers.*.experts", "layers.*"]

//--- symbols.yaml
mesh: {dp: 2}
groups:
  - modules: ["step"]
