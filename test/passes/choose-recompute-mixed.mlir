// RUN: fsdp-opt %s --fsdp-choose-recompute="memory-cap=800000" --remarks-filter-analyse=fsdp-choose-recompute -o %t.mlir 2>&1 | FileCheck %s --check-prefix=CHEAPER
// RUN: fsdp-opt %s --fsdp-choose-recompute="memory-cap=700000" --remarks-filter-analyse=fsdp-choose-recompute -o %t.mlir 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: FileCheck %s --check-prefix=MIXED --input-file=%t.mlir
// RUN: sed -e 's/optimizer sgd .*/optimizer adam lr = 0.1 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8/' %s > %t.adam.mlir
// RUN: fsdp-opt %t.adam.mlir --fsdp-choose-recompute="memory-cap=800000 offload=auto" 2>&1 | FileCheck %s --check-prefix=HOST
// RUN: fsdp-opt %t.adam.mlir --fsdp-choose-recompute="memory-cap=800000 offload=auto device=h100" 2>&1 | FileCheck %s --check-prefix=DEVICE

// Four blocks, each of a product and a sigmoid whose results the backward reads. The sigmoid is the cheaper one to
// compute again for its bytes, so that all blocks do that before one repeats its product.
// CHEAPER-DAG: Blocks=4, OffloadedBlocks=0, Policy=selected, PredictedNs={{.+}}, RecomputedBlocks=3
// CHEAPER-DAG: remark: the backward recomputes 3 of 4 blocks, policy selected: the memory cap asks for as many
// BOTH-DAG: Blocks=4, OffloadedBlocks=0, Policy=auto, PredictedNs={{.+}}, RecomputedBlocks=4
// BOTH-DAG: remark: the backward recomputes 4 of 4 blocks, 3 by policy selected and 1 by policy full: the memory cap asks for as many

// MIXED: fsdp.recompute = #fsdp.recompute<auto, blocks = 4, for = memory>
// MIXED: fsdp.group @g0 {{.*}} recomputed full
// MIXED: fsdp.group @g1 {{.*}} recomputed selected
// MIXED: fsdp.group @g2 {{.*}} recomputed selected
// MIXED: fsdp.group @g3 {{.*}} recomputed selected
// Of the first block the product runs again, too.
// MIXED-COUNT-3: "sigmoid.default"({{.*}}) bwd
// MIXED: "mm.default"({{.*}}) bwd in "l.0"
// MIXED: "sigmoid.default"({{.*}}) bwd in "l.0"
// MIXED-NOT: "mm.default"({{.*}}) bwd

// Of Adam's state the memory may be cheaper than that of results to compute again. On a GPU so small copies are not.
// HOST: remark: the backward recomputes 3 of 4 blocks, policy selected: the memory cap asks for as many
// HOST: remark: optimizer state is on the host between updates: the memory that this leaves to activations saves more time than the copies take
// HOST: fsdp.group @g0 {{.*}} optimizer_state host {{.*}}#fsdp.decision<optimizer_state, "the memory that this leaves to activations saves more time than the copies take">
// DEVICE: remark: the backward recomputes 4 of 4 blocks, 3 by policy selected and 1 by policy full: the memory cap asks for as many
// DEVICE-NOT: optimizer_state host
!w = tensor<64x64xf32>
!h = tensor<256x64xf32>
module {
  fsdp.mesh @mesh <dp = 2>
  fsdp.param @l.0.w : !w
  fsdp.param @l.1.w : !w
  fsdp.param @l.2.w : !w
  fsdp.param @l.3.w : !w
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.group @g0 [@l.0.w] of ["l.0"] over @mesh "dp" flat reshard_after_forward auto
  fsdp.group @g1 [@l.1.w] of ["l.1"] over @mesh "dp" flat reshard_after_forward auto
  fsdp.group @g2 [@l.2.w] of ["l.2"] over @mesh "dp" flat reshard_after_forward auto
  fsdp.group @g3 [@l.3.w] of ["l.3"] over @mesh "dp" flat reshard_after_forward auto
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %y0 = fsdp.input "x" : !h
    %w0 = fsdp.read @l.0.w : !w
    %w1 = fsdp.read @l.1.w : !w
    %w2 = fsdp.read @l.2.w : !w
    %w3 = fsdp.read @l.3.w : !w
    %m0 = aten.call "mm.default"(%y0, %w0) fwd in "l.0" : (!h, !w) -> !h
    %r0 = aten.call "sigmoid.default"(%m0) fwd in "l.0" : (!h) -> !h
    %y1 = aten.call "add.Tensor"(%r0, %y0, 1) fwd in "l.0" : (!h, !h) -> !h
    %m1 = aten.call "mm.default"(%y1, %w1) fwd in "l.1" : (!h, !w) -> !h
    %r1 = aten.call "sigmoid.default"(%m1) fwd in "l.1" : (!h) -> !h
    %y2 = aten.call "add.Tensor"(%r1, %y1, 1) fwd in "l.1" : (!h, !h) -> !h
    %m2 = aten.call "mm.default"(%y2, %w2) fwd in "l.2" : (!h, !w) -> !h
    %r2 = aten.call "sigmoid.default"(%m2) fwd in "l.2" : (!h) -> !h
    %y3 = aten.call "add.Tensor"(%r2, %y2, 1) fwd in "l.2" : (!h, !h) -> !h
    %m3 = aten.call "mm.default"(%y3, %w3) fwd in "l.3" : (!h, !w) -> !h
    %r3 = aten.call "sigmoid.default"(%m3) fwd in "l.3" : (!h) -> !h
    %y4 = aten.call "add.Tensor"(%r3, %y3, 1) fwd in "l.3" : (!h, !h) -> !h
    %t = aten.call "tanh.default"(%y4) fwd in "" : (!h) -> !h
    %loss = aten.call "sum.default"(%t, none) fwd in "" : (!h) -> tensor<f32>
    %d4 = aten.call "neg.default"(%t) bwd in "" : (!h) -> !h
    %e3 = aten.call "mul.Tensor"(%d4, %r3) bwd in "l.3" : (!h, !h) -> !h
    %f3 = aten.call "mul.Tensor"(%e3, %m3) bwd in "l.3" : (!h, !h) -> !h
    %d3 = aten.call "mul.Tensor"(%f3, %y3) bwd in "l.3" : (!h, !h) -> !h
    %dw3 = aten.call "embedding_dense_backward.default"(%d3, 64) bwd in "l.3" : (!h) -> !w
    fsdp.grad @l.3.w, %dw3 : !w
    %e2 = aten.call "mul.Tensor"(%d3, %r2) bwd in "l.2" : (!h, !h) -> !h
    %f2 = aten.call "mul.Tensor"(%e2, %m2) bwd in "l.2" : (!h, !h) -> !h
    %d2 = aten.call "mul.Tensor"(%f2, %y2) bwd in "l.2" : (!h, !h) -> !h
    %dw2 = aten.call "embedding_dense_backward.default"(%d2, 64) bwd in "l.2" : (!h) -> !w
    fsdp.grad @l.2.w, %dw2 : !w
    %e1 = aten.call "mul.Tensor"(%d2, %r1) bwd in "l.1" : (!h, !h) -> !h
    %f1 = aten.call "mul.Tensor"(%e1, %m1) bwd in "l.1" : (!h, !h) -> !h
    %d1 = aten.call "mul.Tensor"(%f1, %y1) bwd in "l.1" : (!h, !h) -> !h
    %dw1 = aten.call "embedding_dense_backward.default"(%d1, 64) bwd in "l.1" : (!h) -> !w
    fsdp.grad @l.1.w, %dw1 : !w
    %e0 = aten.call "mul.Tensor"(%d1, %r0) bwd in "l.0" : (!h, !h) -> !h
    %f0 = aten.call "mul.Tensor"(%e0, %m0) bwd in "l.0" : (!h, !h) -> !h
    %d0 = aten.call "mul.Tensor"(%f0, %y0) bwd in "l.0" : (!h, !h) -> !h
    %dw0 = aten.call "embedding_dense_backward.default"(%d0, 64) bwd in "l.0" : (!h) -> !w
    fsdp.grad @l.0.w, %dw0 : !w
    fsdp.update @l.0.w step %step lr %lr
    fsdp.update @l.1.w step %step lr %lr
    fsdp.update @l.2.w step %step lr %lr
    fsdp.update @l.3.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
