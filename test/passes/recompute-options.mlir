// RUN: not fsdp-opt %s --fsdp-recompute="policy=selected blocks=layers.*" 2>&1 | FileCheck %s --check-prefix=BLOCKS
// RUN: not fsdp-opt %s --fsdp-recompute="policy=full blocks=[" 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not fsdp-opt %s --fsdp-recompute="blocks=l" 2>&1 | FileCheck %s --check-prefix=CHEAP
// RUN: not fsdp-opt %s --fsdp-recompute="policy=selected keep=mm,conv3d" 2>&1 | FileCheck %s --check-prefix=KEEP
// RUN: not fsdp-opt %s --fsdp-recompute="policy=full keep=mm" 2>&1 | FileCheck %s --check-prefix=FULL
// RUN: not fsdp-opt %source/test/Inputs/llama.mlir --fsdp-recompute="policy=full" 2>&1 | FileCheck %s --check-prefix=GROUPS
// RUN: not fsdp-opt %s --fsdp-recompute="policy=most" 2>&1 | FileCheck %s --check-prefix=WORD

// What cannot be recomputed, or is misspelt, is an error that names it.
// BLOCKS: error: blocks: 'layers.*' matches no module of a group
// PATTERN: error: blocks: pattern '[': {{.+}}
// CHEAP: error: policy=cheap has no blocks; it takes no 'blocks'
// KEEP: error: keep: the forward calls no operator 'conv3d'
// FULL: error: 'keep' is an option of policy=selected
// GROUPS: error: the module has no groups, whose modules are the blocks to recompute; run fsdp-group-parameters first
// WORD: {{.*}}policy{{.*}}most
!m = tensor<4x4xf32>
module {
  fsdp.mesh @mesh <dp = 2>
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.group @g [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @l.w : !m
    %m = aten.call "mm.default"(%w, %w) fwd in "l" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%m, none) fwd in "" : (!m) -> tensor<f32>
    %g = aten.call "mul.Tensor"(%m, %w) bwd in "l" : (!m, !m) -> !m
    fsdp.grad @l.w, %g : !m
    fsdp.update @l.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
