// A kernel has what it reads and writes in memory at once. Where a step fits a cap without kernels only, fusion=auto makes
// none and says so: in FSDP2's order, by a search, and by a search that chooses what is recomputed.
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 memory-cap=380000" 2>&1 | FileCheck %s --check-prefix=WITHOUT
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 memory-cap=380000 schedule=auto recompute=none" 2>&1 | FileCheck %s --check-prefix=WITHOUT
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 memory-cap=380000 schedule=auto" 2>&1 | FileCheck %s --check-prefix=WITHOUT
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=off up-to=scheduled" | fsdp-compile --fusion auto --memory-cap 380000 --emit plan 2>&1 | FileCheck %s --check-prefix=PLAN
// WITHOUT: remark: no kernels are generated: the step fits the memory cap without them only
// WITHOUT-NOT: fsdp.launch
// PLAN: remark: no kernels are generated
// PLAN-NOT: launch

// Where it fits with kernels it has them.
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 memory-cap=430000" 2>&1 | FileCheck %s --check-prefix=WITH
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 memory-cap=430000 schedule=auto" 2>&1 | FileCheck %s --check-prefix=WITH
// WITH-NOT: remark
// WITH: fsdp.launch

// Kernels that were asked for are refused with what the step takes without them. What nothing fits is refused by what
// takes less.
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=dp=2 memory-cap=380000 schedule=auto fusion=exact" 2>&1 | FileCheck %s --check-prefix=EXACT
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=dp=2 memory-cap=100000 schedule=auto" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=dp=2 memory-cap=100000" 2>&1 | FileCheck %s --check-prefix=ORDER
// EXACT: error: no schedule fits the memory cap of 380000 bytes: at least 417792 bytes are live at once, at kernel fused_mul_mul
// EXACT: note: fusion=off: at least 352256 bytes, which fits
// NONE-NOT: remark
// NONE: error: no schedule fits the memory cap of 100000 bytes: at least 352256 bytes are live at once, at 'mul.Tensor'
// NONE-NOT: fusion=off
// ORDER-NOT: remark
// ORDER: error: the step needs an arena of 417920 bytes, more than the memory cap of 100000 bytes

!m = tensor<64x64xf32>
!h = tensor<256x64xf32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @l.0.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !h
    %w = fsdp.read @l.0.w : !m
    %a = aten.call "mm.default"(%x, %w) fwd in "l.0" : (!h, !m) -> !h
    %b = aten.call "mm.default"(%a, %w) fwd in "l.0" : (!h, !m) -> !h
    %s = aten.call "mm.default"(%b, %w) fwd in "l.0" : (!h, !m) -> !h
    %p = aten.call "mul.Tensor"(%a, %s) fwd in "l.0" : (!h, !h) -> !h
    %q = aten.call "mul.Tensor"(%b, %s) fwd in "l.0" : (!h, !h) -> !h
    %pm = aten.call "mm.default"(%p, %w) fwd in "l.0" : (!h, !m) -> !h
    %qm = aten.call "mm.default"(%q, %w) fwd in "l.0" : (!h, !m) -> !h
    %ps = aten.call "sum.default"(%pm, none) fwd in "" : (!h) -> tensor<f32>
    %qs = aten.call "sum.default"(%qm, none) fwd in "" : (!h) -> tensor<f32>
    %loss = aten.call "add.Tensor"(%ps, %qs, 1) fwd in "" : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %d = aten.call "ones_like.default"(%x, none, none, none, none, none) bwd in "" : (!h) -> !h
    %dw = aten.call "embedding_dense_backward.default"(%d, 64) bwd in "l.0" : (!h) -> !m
    fsdp.grad @l.0.w, %dw : !m
    fsdp.update @l.0.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
