// RUN: fsdp-opt %s --fsdp-choose-recompute="device=h100" --remarks-filter-analyse=fsdp-choose-recompute -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s --check-prefixes=KEPT,DEVICE --input-file=%t.mlir
// RUN: fsdp-opt %s --fsdp-choose-recompute="device=h100 schedule=asap" | FileCheck %s --check-prefixes=KEPT,DEVICE
// RUN: fsdp-opt %s --fsdp-choose-recompute="device=h100 memory-cap=8GB" | FileCheck %s --check-prefixes=KEPT,CAP
// RUN: fsdp-opt %s --fsdp-choose-recompute="device=h100 memory-cap=7GB" | FileCheck %s --check-prefix=SOME
// RUN: sed 's/262144x/2839400x/' %s | fsdp-opt --fsdp-choose-recompute="device=h100" | FileCheck %s --check-prefixes=KEPT,NEAR
// RUN: sed 's/262144x/2840000x/' %s | fsdp-opt --fsdp-choose-recompute="device=h100" | FileCheck %s --check-prefixes=CHEAP,OVER
// RUN: sed 's/262144x/3000000x/' %s | fsdp-opt --fsdp-choose-recompute="device=h100" | FileCheck %s --check-prefixes=CHEAP,LARGE
// RUN: sed 's/x1024xf32/x32768xf32/; s/262144x/512x/; s/<1024x/<32768x/' %s | fsdp-opt --fsdp-choose-recompute="device=h100" | FileCheck %s --check-prefixes=CHEAP,LITTLE
// RUN: fsdp-opt %s --fsdp-choose-recompute | FileCheck %s --check-prefix=CHEAP
// RUN: fsdp-opt %s --fsdp-choose-recompute="device=h100 policy=cheap" | FileCheck %s --check-prefix=CHEAP

// Two blocks with squares that products of the backward read. To compute them again is cheap, and takes time: where
// nothing is, the step is faster and fits, on the device as under a cap. Near the device's memory an arena tells (NEAR, OVER).
// REMARK-DAG: Policy=none, RecomputedBlocks=0
// REMARK-DAG: remark: with nothing computed again the step takes {{[0-9.]+}} % less than by policy cheap, and fits the device: at most {{[0-9]+}} bytes are live at once, where there is room for 81438998528
// KEPT: fsdp.recompute = #fsdp.recompute<none, blocks = 0, for = time>
// DEVICE: fsdp.group @g0 {{.*}} recomputed none decisions [#fsdp.decision<recomputed, "with nothing computed again {{.*}} fits the device: {{.*}}">]
// CAP: fsdp.group @g0 {{.*}} recomputed none decisions [#fsdp.decision<recomputed, "with nothing computed again {{.*}} fits the memory cap">]
// NEAR: fsdp.group @g0 {{.*}} fits the device: an arena of 8142{{[0-9]+}} bytes, where there is room for 81438998528"
// KEPT-NOT: aten.call "mul.Tensor"(%[[X:.+]], %[[X]]) bwd
// KEPT: return

// Under a cap as many blocks recompute as it asks for.
// SOME: fsdp.recompute = #fsdp.recompute<auto, blocks = 0, for = memory>
// SOME: fsdp.group @g0 {{.*}} recomputed cheap decisions [#fsdp.decision<recomputed, "the backward recomputes what is cheap of 1 of 2 blocks: the memory cap asks for as many">]
// SOME: fsdp.group @g1 {{.*}} recomputed none
// SOME-NOT: bwd in "l.1" : (!h, !h) -> !h
// SOME: aten.call "mul.Tensor"(%[[X:mm.*]], %[[X]]) bwd in "l.0"

// What does not fit the device, gains too little, or is on a device of unknown memory: cheap, in both blocks.
// OVER: fsdp.group @g0 {{.*}} "with nothing computed again the arena would have 8144{{[0-9]+}} bytes, and the device has room for 81438998528"
// LARGE: fsdp.group @g0 {{.*}} "with nothing computed again at least 86{{[0-9]+}} bytes would be live at once, and the device has room for 81438998528"
// LITTLE: fsdp.group @g0 {{.*}} "with nothing computed again the step would take 0.{{[0-4]}} % less, too little for the memory"
// CHEAP: aten.call "mul.Tensor"(%[[X:.+]], %[[X]]) bwd in "l.1"
// CHEAP: aten.call "mul.Tensor"(%[[Y:.+]], %[[Y]]) bwd in "l.0"

!m = tensor<1024x1024xf32>
!h = tensor<262144x1024xf32>
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
    %r0 = aten.call "mul.Tensor"(%m0, %m0) fwd in "l.0" : (!h, !h) -> !h
    %y = aten.call "mm.default"(%r0, %w0) fwd in "l.0" : (!h, !m) -> !h
    %m1 = aten.call "mm.default"(%y, %w1) fwd in "l.1" : (!h, !m) -> !h
    %r1 = aten.call "mul.Tensor"(%m1, %m1) fwd in "l.1" : (!h, !h) -> !h
    %z = aten.call "mm.default"(%r1, %w1) fwd in "l.1" : (!h, !m) -> !h
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!h) -> tensor<f32>
    %e1 = aten.call "mm.default"(%r1, %w1) bwd in "l.1" : (!h, !m) -> !h
    %d1 = aten.call "mul.Tensor"(%z, %m1) bwd in "l.1" : (!h, !h) -> !h
    %dw1 = aten.call "embedding_dense_backward.default"(%e1, 64) bwd in "l.1" : (!h) -> !m
    fsdp.grad @l.1.w, %dw1 : !m
    %e0 = aten.call "mm.default"(%r0, %w0) bwd in "l.0" : (!h, !m) -> !h
    %d0 = aten.call "mul.Tensor"(%d1, %m0) bwd in "l.0" : (!h, !h) -> !h
    %f0 = aten.call "add.Tensor"(%e0, %d0, 1) bwd in "l.0" : (!h, !h) -> !h
    %dw0 = aten.call "embedding_dense_backward.default"(%f0, 64) bwd in "l.0" : (!h) -> !m
    fsdp.grad @l.0.w, %dw0 : !m
    fsdp.update @l.0.w step %step lr %lr
    fsdp.update @l.1.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
