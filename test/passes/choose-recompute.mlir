// RUN: fsdp-opt %s --fsdp-choose-recompute="memory-cap=340000" --remarks-filter-analyse=fsdp-choose-recompute -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s --check-prefix=ONE --input-file=%t.mlir
// RUN: fsdp-opt %s --fsdp-choose-recompute="memory-cap=700000" | FileCheck %s --check-prefix=CHEAP
// RUN: fsdp-opt %s --fsdp-choose-recompute="memory-cap=1" | FileCheck %s --check-prefix=LEAST
// RUN: fsdp-opt %s --fsdp-choose-recompute | FileCheck %s --check-prefix=CHEAP
// RUN: sed -e '/fsdp.group @.*l.0.w/ s/$/ recompute auto/' %s | fsdp-opt --fsdp-choose-recompute="memory-cap=340000 policy=none" | FileCheck %s --check-prefix=FREE
// RUN: sed -e 's/dp = 2/replicate = 4, dp = 1/' -e 's/"dp" flat/"dp" replicated "replicate" flat/' -e '/fsdp.group @.*l.0.w/ s/$/ recompute auto/' %s | fsdp-opt --fsdp-choose-recompute="memory-cap=340000" | FileCheck %s --check-prefix=WHOLE
// RUN: sed -e '/fsdp.group @.*l.0.w/ s/$/ recompute none/' -e 's/of \["l.1"\]\(.*\)/of [""]\1 recompute auto/' %s | fsdp-opt --fsdp-choose-recompute="memory-cap=340000 policy=none" | FileCheck %s --check-prefix=ROOT
// RUN: not fsdp-opt %s --fsdp-choose-recompute="memory-cap=many" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not fsdp-opt %s --fsdp-choose-recompute="memory-cap=1MiB device=abacus" 2>&1 | FileCheck %s --check-prefix=DEVICE

// Two blocks, each with a result of 64 KiB that its backward reads. Where the step fits as it is, or there is
// no cap, no block is recomputed.
// CHEAP-NOT: aten.call "sigmoid.default"({{.+}}) bwd
// CHEAP: return

// Else as few as fit: the first.
// ONE: fsdp.group @g0 {{.*}} reshard_after_forward auto recomputed full decisions [#fsdp.decision<recomputed, "the backward recomputes 1 of 2 blocks, policy full: the memory cap asks for as many">]
// ONE: fsdp.group @g1 {{.*}} reshard_after_forward auto recomputed cheap decisions [#fsdp.decision<recomputed, "the backward recomputes 1 of 2 blocks, policy full: the memory cap asks for as many">]
// ONE: aten.call "mul.Tensor"({{.+}}) bwd in "l.1"
// ONE: aten.call "sigmoid.default"({{.+}}) bwd in "l.0"
// REMARK-DAG: Blocks=2, OffloadedBlocks=0, Policy=full, PredictedNs={{.+}}, RecomputedBlocks=1
// REMARK-DAG: remark: the backward recomputes 1 of 2 blocks, policy full: the memory cap asks for as many

// Where nothing fits, what needs the least: the scheduler says so.
// LEAST: fsdp.group @g0 {{.*}} decisions [#fsdp.decision<recomputed, {{.*}}nothing fits the memory cap, and this needs the least">]
// LEAST: aten.call "sigmoid.default"({{.+}}) bwd in "l.0"

// Only groups that are left to the search count as blocks; the others do what the policy says. What
// was asked for stays.
// FREE: fsdp.recompute = #fsdp.recompute<{{selected|full}}, blocks = 1, for = memory>
// FREE: fsdp.group {{.*}}l.0.w{{.*}} recompute auto recomputed {{selected|full}} decisions
// FREE: fsdp.group {{.*}}l.1.w{{.*}} reshard_after_forward auto recomputed none{{$}}
// FREE-NOT: aten.call "sigmoid.default"({{.+}}) bwd in "l.1"
// FREE: aten.call "sigmoid.default"({{.+}}) bwd in "l.0"

// Where there is nothing to search for, auto means cheap.
// WHOLE: fsdp.group @g0 {{.*}} recompute auto recomputed cheap decisions [#fsdp.decision<recomputed, "where parameters are not sharded auto means cheap">]
// ROOT: fsdp.group @g1 {{.*}} recompute auto recomputed cheap decisions [#fsdp.decision<recomputed, "for the root group, which is no block, auto means cheap">]

// SIZE: error: memory-cap is 'many', expected a size as in 80000000, 70GiB or 80GB
// DEVICE: error: {{.*}}'abacus'
// EXAMPLE: fsdp-choose-recompute
!m = tensor<64x64xf32>
!h = tensor<256x64xf32>
module {
  fsdp.mesh @mesh <dp = 2>
  fsdp.param @l.0.w : !m
  fsdp.param @l.1.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.group @g0 [@l.0.w] of ["l.0"] over @mesh "dp" flat reshard_after_forward auto
  fsdp.group @g1 [@l.1.w] of ["l.1"] over @mesh "dp" flat reshard_after_forward auto
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !h
    %w0 = fsdp.read @l.0.w : !m
    %w1 = fsdp.read @l.1.w : !m
    %m0 = aten.call "mm.default"(%x, %w0) fwd in "l.0" : (!h, !m) -> !h
    %r0 = aten.call "sigmoid.default"(%m0) fwd in "l.0" : (!h) -> !h
    %y = aten.call "add.Tensor"(%r0, %x, 1) fwd in "l.0" : (!h, !h) -> !h
    %m1 = aten.call "mm.default"(%y, %w1) fwd in "l.1" : (!h, !m) -> !h
    %r1 = aten.call "sigmoid.default"(%m1) fwd in "l.1" : (!h) -> !h
    %z = aten.call "add.Tensor"(%r1, %y, 1) fwd in "l.1" : (!h, !h) -> !h
    %t = aten.call "tanh.default"(%z) fwd in "" : (!h) -> !h
    %loss = aten.call "sum.default"(%t, none) fwd in "" : (!h) -> tensor<f32>
    %d = aten.call "neg.default"(%t) bwd in "" : (!h) -> !h
    %d1 = aten.call "mul.Tensor"(%d, %r1) bwd in "l.1" : (!h, !h) -> !h
    %dw1 = aten.call "embedding_dense_backward.default"(%d1, 64) bwd in "l.1" : (!h) -> !m
    fsdp.grad @l.1.w, %dw1 : !m
    %d0 = aten.call "mul.Tensor"(%d1, %r0) bwd in "l.0" : (!h, !h) -> !h
    %dw0 = aten.call "embedding_dense_backward.default"(%d0, 64) bwd in "l.0" : (!h) -> !m
    fsdp.grad @l.0.w, %dw0 : !m
    fsdp.update @l.0.w step %step lr %lr
    fsdp.update @l.1.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
