// RUN: split-file %s %t

// Only scheduled and planned modules are compiled.
// RUN: not fsdp-compile %t/captured.mlir --object -o %t.o 2>&1 | FileCheck %s --check-prefix=CAPTURED
// CAPTURED: error: the module is 'captured', expected 'scheduled' or 'planned'

// RUN: not fsdp-compile %t/no-phase.mlir --object -o %t.o 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: the module is 'of no phase', expected 'scheduled' or 'planned'

// A planned module whose offsets were edited is refused, and so is one that lacks some.
// RUN: not fsdp-compile %t/overlap.mlir --object -o %t.o 2>&1 | FileCheck %s --check-prefix=OVERLAP
// OVERLAP: error: {{.*}}P2: result #0 of 'sum.default' in "" at bytes [128, 132) overlaps input "x" at bytes [128, 192), which is live

// RUN: not fsdp-compile %t/missing.mlir --no-verify --object -o %t.o 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: 'aten.call' op has no arena offset; run fsdp-plan-memory

// RUN: not fsdp-compile %t/recomputed.mlir --no-verify --object -o %t.o 2>&1 | FileCheck %s --check-prefix=RECOMPUTED
// RECOMPUTED: error: attribute 'fsdp.recomputed_flops' says that {{1.0*e\+03}} operations are computed again, but the step has {{0.0*e\+00}}

//--- captured.mlir
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
}
//--- no-phase.mlir
module {
}
//--- overlap.mlir
module attributes {fsdp.arena_bytes = 256 : i64, fsdp.peak_live_bytes = 256 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<16xf32>
    %s = aten.call "sum.default"(%x, none) fwd in "" at [128] : (tensor<16xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}
//--- missing.mlir
module attributes {fsdp.arena_bytes = 256 : i64, fsdp.peak_live_bytes = 256 : i64, fsdp.phase = #fsdp.module_phase<planned>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<16xf32>
    %s = aten.call "sum.default"(%x, none) fwd in "" : (tensor<16xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}
//--- recomputed.mlir
module attributes {fsdp.arena_bytes = 256 : i64, fsdp.peak_live_bytes = 256 : i64, fsdp.phase = #fsdp.module_phase<planned>, fsdp.recomputed_flops = 1000 : i64} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" at 128 : tensor<16xf32>
    %s = aten.call "sum.default"(%x, none) fwd in "" at [0] : (tensor<16xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}
