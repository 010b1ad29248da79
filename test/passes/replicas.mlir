// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=mesh=outer=2,inner=4 | FileCheck %s --check-prefixes=GROUPS,FLAG
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/mesh.yaml | FileCheck %s --check-prefixes=GROUPS,YAML
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=mesh=replicate=2,shard=2 --fsdp-insert-collectives --fsdp-verify-sharded -o %t/sharded.mlir
// RUN: FileCheck %s --check-prefix=SHARDED --input-file=%t/sharded.mlir
// RUN: fsdp-opt %t/sharded.mlir --fsdp-schedule --fsdp-assign-streams --fsdp-verify-scheduled --fsdp-report=file=%t/report.json -o %t/scheduled.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULED --input-file=%t/scheduled.mlir
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t/report.json
// RUN: fsdp-opt %t/scheduled.mlir --emit-bytecode | fsdp-opt --fsdp-plan-memory --fsdp-verify-planned | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-compile %t/scheduled.mlir --emit=plan --network dgx-h100 | FileCheck %s --check-prefix=EXPECTED
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline=mesh=replicate=1,shard=2 | FileCheck %s --check-prefix=ONE

// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=replicate=2,shard=2 schedule=auto device=h100 up-to=scheduled" | FileCheck %s --check-prefix=AUTO
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=replicate=2,shard=2 schedule=asap device=h100" -o /dev/null

// The first axis replicates, the second shards; a file keeps their order, whatever their names.
// FLAG: fsdp.mesh @mesh <outer = 2, inner = 4>
// YAML: fsdp.mesh @mesh <zone = 3, host = 2>
// FLAG: fsdp.group @layers.0 {{.*}} over @mesh "inner" replicated "outer" flat
// YAML: fsdp.group @layers.0 {{.*}} over @mesh "host" replicated "zone" flat
// GROUPS: fsdp.group @root

// Each reduce-scatter is followed by an all-reduce over the replicas that goes on with it.
// SHARDED: %[[R1:.+]] = fsdp.reduce_scatter.start @layers.1(
// SHARDED-NEXT: fsdp.reduce_scatter.wait %[[R1]]
// SHARDED-NEXT: %[[A1:.+]] = fsdp.all_reduce.start %[[R1]] over ["replicate"] avg bwd on compute
// SHARDED-NEXT: %[[F1:.+]] = fsdp.all_reduce.wait %[[A1]]
// SHARDED-NEXT: fsdp.update @layers.1 with %[[F1]]
// SHARDED-COUNT-2: fsdp.all_reduce.start

// It is issued with the reduce-scatter, on a stream of its own. The wait for the reduce-scatter, which
// frees the gradients, stands before the next reduction, that for the all-reduce one later.
// SCHEDULED: %[[R1:.+]] = fsdp.reduce_scatter.start @layers.1({{.*}}) over ["shard"] avg bwd on reduce
// SCHEDULED-NEXT: %[[A1:.+]] = fsdp.all_reduce.start %[[R1]] over ["replicate"] avg bwd on replicate
// SCHEDULED: fsdp.reduce_scatter.wait %[[R1]]
// SCHEDULED-NEXT: %[[R0:.+]] = fsdp.reduce_scatter.start @layers.0({{.*}}) over ["shard"] avg bwd on reduce
// SCHEDULED-NEXT: %[[A0:.+]] = fsdp.all_reduce.start %[[R0]] over ["replicate"] avg bwd on replicate
// SCHEDULED: %[[F1:.+]] = fsdp.all_reduce.wait %[[A1]]
// SCHEDULED-NEXT: fsdp.update @layers.1 with %[[F1]]
// SCHEDULED-NEXT: fsdp.reduce_scatter.wait %[[R0]]
// SCHEDULED-NEXT: %[[R:.+]] = fsdp.reduce_scatter.start @root
// SCHEDULED-NEXT: %[[A:.+]] = fsdp.all_reduce.start %[[R]] over ["replicate"] avg bwd on replicate
// SCHEDULED: %[[F0:.+]] = fsdp.all_reduce.wait %[[A0]]
// SCHEDULED-NEXT: fsdp.update @layers.0 with %[[F0]]
// SCHEDULED-NEXT: fsdp.reduce_scatter.wait %[[R]]
// SCHEDULED-NEXT: %[[F:.+]] = fsdp.all_reduce.wait %[[A]]
// SCHEDULED-NEXT: fsdp.update @root with %[[F]]

// Its elements are those of a shard, its axis is that of the replicas.
// REPORT: "mesh": {
// REPORT-NEXT: "replicate": 2
// REPORT-NEXT: "shard": 2
// REPORT: "kind": "reduce_scatter"
// REPORT-NEXT: "group": "layers.1"
// REPORT-NEXT: "phase": "backward"
// REPORT-NEXT: "dtype": "f32"
// REPORT-NEXT: "elements": 32
// REPORT-NEXT: "axis": "shard"
// REPORT: "kind": "all_reduce"
// REPORT-NEXT: "group": "layers.1"
// REPORT-NEXT: "phase": "backward"
// REPORT-NEXT: "dtype": "f32"
// REPORT-NEXT: "elements": 16
// REPORT-NEXT: "axis": "replicate"
// REPORT: "all_reduce": {
// REPORT-NEXT: "forward": 0
// REPORT-NEXT: "backward": 3

// In the plan it works in place on what the reduce-scatter leaves.
// PLAN: mesh replicate = 2, shard = 2
// PLAN-NEXT: communicator gather: 2 ranks over shard on gather
// PLAN-NEXT: communicator reduce: 2 ranks over shard on reduce
// PLAN-NEXT: communicator replicate: 2 ranks over replicate with stride 2 on replicate
// PLAN: bwd reduce_scatter.start @layers.1 on reduce, handle [[#R:]]: 16 f32 per rank from {{[0-9]+}} to [[#PLACE:]]
// PLAN-NEXT: bwd all_reduce.start @layers.1 after handle [[#R]] on replicate, handle [[#A:]]: 16 f32 at [[#PLACE]]
// PLAN: bwd wait for handle [[#R]]
// PLAN: bwd wait for handle [[#A]]
// PLAN: bwd update @layers.1 with 16 f32 at [[#PLACE]]

// What it is expected to take: 10 us and, in a tree of two devices of one host, a hop there and back.
// EXPECTED: all_reduce.start @layers.1 {{.*}}, expected 16500 ns

// A schedule that is searched for launches them behind the reductions, in the same buckets, and waits
// for each before the update that needs it.
// AUTO: %[[R1:.+]] = fsdp.reduce_scatter.start @layers.1({{.*}}) over ["shard"] avg bwd on {{reduce|gather}}
// AUTO: %[[A1:.+]] = fsdp.all_reduce.start %[[R1]] over ["replicate"] avg bwd on replicate
// AUTO: fsdp.reduce_scatter.wait %[[R1]]
// AUTO: %[[F1:.+]] = fsdp.all_reduce.wait %[[A1]]
// AUTO-NEXT: fsdp.update @layers.1 with %[[F1]]

// One replica needs no all-reduce.
// ONE: fsdp.mesh @mesh <replicate = 1, shard = 2>
// ONE-NOT: all_reduce

//--- mesh.yaml
mesh: {zone: 3, host: 2}

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
