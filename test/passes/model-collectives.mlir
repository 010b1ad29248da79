// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2" -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fsdp-compile %t.mlir --emit plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=replicate=2,shard=1" | fsdp-compile - --emit plan | FileCheck %s --check-prefix=REPLICAS
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=dp=4" 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: sed 's/ fsdp.ranks = 2 : i64,//' %s > %t.any.mlir
// RUN: not fsdp-opt %t.any.mlir --fsdp-pipeline="mesh=dp=4" 2>&1 | FileCheck %s --check-prefix=CALL
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 recompute=selected" | FileCheck %s --check-prefix=KEPT

// Collectives of the model's own code stay calls, in their places.
// CHECK: aten.call "fsdpc::all_gather.default"(%{{.+}}, 2) fwd in "layers.0" at [{{[0-9]+}}]
// CHECK: aten.call "fsdpc::all_reduce.default"(%{{.+}}, "avg") fwd in "" at [{{[0-9]+}}]
// CHECK: aten.call "fsdpc::reduce_scatter.default"(%{{.+}}, "sum") bwd in "layers.0" at [{{[0-9]+}}]

// They have a communicator of all ranks, on the stream of the computation.
// PLAN: communicator model: 2 ranks over dp on compute
// PLAN: fwd all_gather 36 bytes per rank from [[AT:[0-9]+]] to {{[0-9]+}} in "layers.0"
// PLAN: fwd call %{{.+}} = aten::select_copy.int(%{{.+}}, 0, part of 2)
// PLAN: fwd all_reduce 1 f32 from {{[0-9]+}} to {{[0-9]+}} in "", average
// PLAN: bwd reduce_scatter 9 f32 per rank from {{[0-9]+}} to {{[0-9]+}} in "layers.0", sum

// REPLICAS: communicator model: 2 ranks over replicate, shard on compute

// MESH: error: M1: the model was exported for 2 ranks (fsdpc.export(ranks=2)), the mesh has 4
// CALL: error: S9: 'fsdpc::all_gather.default' in module 'layers.0' is of 2 ranks, the mesh has 4

// Selective recomputation keeps what other ranks have sent.
// KEPT: "fsdpc::all_gather.default"
// KEPT-NOT: "fsdpc::all_gather.default"

!m = tensor<3x3xf32>
!a = tensor<2x3x3xf32>
!s = tensor<f32>
module attributes {fsdp.model = "gather",  fsdp.ranks = 2 : i64, fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @layers.0.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @layers.0.w : !m
    %y = aten.call "mm.default"(%x, %w) fwd in "layers.0" : (!m, !m) -> !m
    %all = aten.call "fsdpc::all_gather.default"(%y, 2) fwd in "layers.0" : (!m) -> !a
    %square = aten.call "mul.Tensor"(%all, %all) fwd in "layers.0" : (!a, !a) -> !a
    %ranks = aten.constant dense<[0.0, 1.0]> : tensor<2xf32>
    %rank = aten.call "fsdpc::own_part.default"(%ranks) fwd in "" : (tensor<2xf32>) -> !s
    %sum = aten.call "sum.default"(%square, none) fwd in "" : (!a) -> !s
    %own = aten.call "add.Tensor"(%sum, %rank, 1) fwd in "" : (!s, !s) -> !s
    %loss = aten.call "fsdpc::all_reduce.default"(%own, "avg") fwd in "" : (!s) -> !s
    %g = aten.call "mul.Tensor"(%all, 2.0) bwd in "layers.0" : (!a) -> !a
    %dy = aten.call "fsdpc::reduce_scatter.default"(%g, "sum") bwd in "layers.0" : (!a) -> !m
    %dw = aten.call "mm.default"(%x, %dy) bwd in "layers.0" : (!m, !m) -> !m
    fsdp.grad @layers.0.w, %dw : !m
    fsdp.update @layers.0.w step %step lr %lr
    return %loss : !s
  }
}
