// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=3 config=%t/groups.yaml" | FileCheck %s --check-prefix=GROUPS
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=3 config=%t/groups.yaml" --fsdp-mixed-precision --fsdp-insert-collectives --fsdp-verify-sharded | FileCheck %s --check-prefix=SHARDS
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=replicate=4,shard=3 config=%t/groups.yaml" --fsdp-mixed-precision --fsdp-insert-collectives --fsdp-verify-sharded | FileCheck %s --check-prefix=REPLICAS
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters="mesh=dp=4 reduce-dtype=float16" --fsdp-mixed-precision --fsdp-insert-collectives --fsdp-verify-sharded | FileCheck %s --check-prefix=HALF
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=replicate=2,shard=6 reduce-dtype=float16" -o %t/half.mlir
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t/half.mlir
// RUN: fsdp-compile %t/half.mlir --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 schedule=auto device=h100 config=%t/groups.yaml" -o /dev/null
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=1 config=%t/alone.yaml" -o %t/alone.mlir
// RUN: FileCheck %s --check-prefix=ALONE --input-file=%t/alone.mlir
// RUN: fsdp-compile %t/alone.mlir --emit=plan | FileCheck %s --check-prefix=ALONE-PLAN
// RUN: not fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=1 config=%t/groups.yaml" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/negative.yaml 2>&1 | FileCheck %s --check-prefix=NEGATIVE

// A group says it for itself, or the file for all.
// GROUPS: fsdp.group @layers.0 {{.*}} gradient_divide_factor 3.0{{[^ ]*}}
// GROUPS-NOT: force_sum
// GROUPS: fsdp.group @layers.1 {{.*}} gradient_divide_factor 6.0{{[^ ]*}} force_sum_reduction
// GROUPS: fsdp.group @root {{.*}} gradient_divide_factor 5.0{{[^ ]*}}

// A factor that is the number of shards is their average, another one is multiplied before the sum; where
// sums are forced, the division follows.
// SHARDS: fsdp.reduce_scatter.start @layers.1({{.*}}) over ["dp"] sum postdivide 6.0{{[^ ]*}} bwd
// SHARDS: fsdp.reduce_scatter.start @layers.0({{.*}}) over ["dp"] avg bwd
// SHARDS: fsdp.reduce_scatter.start @root({{.*}}) over ["dp"] premul_sum predivide 5.0{{[^ ]*}} bwd

// Over replicas it is divided once, behind all sums.
// REPLICAS: fsdp.reduce_scatter.start @layers.1({{.*}}) over ["shard"] sum bwd
// REPLICAS: fsdp.all_reduce.start {{.*}} over ["replicate"] sum postdivide 6.0{{[^ ]*}} bwd
// REPLICAS: fsdp.reduce_scatter.start @layers.0({{.*}}) over ["shard"] avg bwd
// REPLICAS: fsdp.all_reduce.start {{.*}} over ["replicate"] sum bwd
// REPLICAS: fsdp.reduce_scatter.start @root({{.*}}) over ["shard"] premul_sum predivide 5.0{{[^ ]*}} bwd
// REPLICAS: fsdp.all_reduce.start {{.*}} over ["replicate"] sum bwd

// Sums of f16 may overflow: a part of the divisor goes before them.
// HALF: fsdp.reduce_scatter.start @layers.1({{.*}}) over ["dp"] sum predivide 2.0{{[^ ]*}} postdivide 2.0{{[^ ]*}} bwd

// The part before is the power of two at the root, as far as it divides the 12 ranks.
// PLANNED: fsdp.reduce_scatter.start @layers.1({{.*}}) over ["shard"] sum predivide 4.0{{[^ ]*}} bwd on reduce
// PLANNED: fsdp.all_reduce.start {{.*}} over ["replicate"] sum postdivide 3.0{{[^ ]*}} bwd on replicate
// PLAN: bwd reduce_scatter.start @layers.1 {{.*}} f16 per rank from {{[0-9]+}} to {{[0-9]+}}, sum predivide 4
// PLAN: bwd all_reduce.start @layers.1 {{.*}} f16 at {{[0-9]+}}, sum postdivide 3

// On one rank the gradients are divided where they are packed.
// ALONE: fsdp.pack @layers.1(%{{.*}}) postdivide 3.0{{[^ ]*}} at
// ALONE-PLAN: bwd call none = aten::div_.Scalar(root, 3

// FSDP2 divides twice there, where it divides by itself.
// TWICE: groups.yaml:3:{{.*}}: error: group @layers.1: gradient_divide_factor is 6 and reductions are to be sums: where a parameter lies on one rank alone, FSDP2 divides twice then; leave gradient_divide_factor to its default

// NEGATIVE: negative.yaml:1:{{.*}}: error: gradient_divide_factor is {{.*}}, expected a finite number above 0

//--- groups.yaml
groups:
  - {modules: [layers.0], gradient_divide_factor: 3}
  - {modules: [layers.1], gradient_divide_factor: 6, force_sum_reduction_for_comms: true}
gradient_divide_factor: 5

//--- alone.yaml
gradient_divide_factor: 3

//--- negative.yaml
{gradient_divide_factor: -1}

//--- step.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "replicas", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @layers.0.w : !m
  fsdp.param @layers.1.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %e = fsdp.read @e.w : !m
    %h = aten.call "mm.default"(%x, %e) fwd in "e" : (!m, !m) -> !m
    %w0 = fsdp.read @layers.0.w : !m
    %y0 = aten.call "mm.default"(%h, %w0) fwd in "layers.0" : (!m, !m) -> !m
    %w1 = fsdp.read @layers.1.w : !m
    %y1 = aten.call "mm.default"(%y0, %w1) fwd in "layers.1" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y1, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones_like.default"(%y1, none, none, none, none, none) bwd in "" : (!m) -> !m
    %dw1 = aten.call "mm.default"(%y0, %g) bwd in "layers.1" : (!m, !m) -> !m
    fsdp.grad @layers.1.w, %dw1 : !m
    %d1 = aten.call "mm.default"(%g, %w1) bwd in "layers.1" : (!m, !m) -> !m
    %dw0 = aten.call "mm.default"(%h, %d1) bwd in "layers.0" : (!m, !m) -> !m
    fsdp.grad @layers.0.w, %dw0 : !m
    %d0 = aten.call "mm.default"(%d1, %w0) bwd in "layers.0" : (!m, !m) -> !m
    %de = aten.call "mm.default"(%x, %d0) bwd in "e" : (!m, !m) -> !m
    fsdp.grad @e.w, %de : !m
    fsdp.update @layers.1.w step %step lr %lr
    fsdp.update @layers.0.w step %step lr %lr
    fsdp.update @e.w step %step lr %lr
    return %loss : !s
  }
}
