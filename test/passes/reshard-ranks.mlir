// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 config=%t/groups.yaml reshard-after-forward=2 up-to=sharded" | FileCheck %s --check-prefix=SHARDED
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 config=%t/groups.yaml reshard-after-forward=2 report=%t/report.json" -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t/planned.mlir
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t/report.json
// RUN: fsdp-compile %t/planned.mlir --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 config=%t/groups.yaml reshard-after-forward=2 layout=per-param" | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=PERPARAM
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=replicate=2,shard=4 config=%t/groups.yaml reshard-after-forward=2 up-to=scheduled" | FileCheck %s --check-prefix=REPLICAS
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 config=%t/one-module.yaml" | FileCheck %s --check-prefix=MODULE
// RUN: not fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 config=%t/one-module.yaml schedule=auto device=h100" 2>&1 | FileCheck %s --check-prefix=SEARCH
// RUN: not fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 config=%t/groups.yaml reshard-after-forward=2 schedule=asap device=h100" 2>&1 | FileCheck %s --check-prefix=SEARCH
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 config=%t/groups.yaml reshard-after-forward=1 up-to=sharded" | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 config=%t/groups.yaml reshard-after-forward=4 up-to=sharded" | FileCheck %s --check-prefix=ALL
// RUN: not fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 reshard-after-forward=3" 2>&1 | FileCheck %s --check-prefix=THREE
// RUN: not fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 config=%t/eight.yaml" 2>&1 | FileCheck %s --check-prefix=EIGHT
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=8 config=%t/two-numbers.yaml up-to=sharded" | FileCheck %s --check-prefix=NUMBERS
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=8 config=%t/two-numbers.yaml" | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=TWOPLANS
// RUN: fsdp-opt %t/frozen.mlir --fsdp-pipeline="mesh=dp=4 config=%t/blocks.yaml reshard-after-forward=2 up-to=sharded" | FileCheck %s --check-prefix=FROZEN
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=4 config=%t/groups.yaml reshard-after-forward=2 microbatches=2 microbatch-loss=sum up-to=sharded" | FileCheck %s --check-prefix=MICROBATCHES

// After forward every rank keeps a half of the gathered parameters. Two neighbours gather them for
// the backward, behind which nothing is kept.
// SHARDED: fsdp.group @layers.0 {{.*}} reshard_after_forward true to 2
// SHARDED: %[[U:.+]] = fsdp.all_gather.start %{{.+}} over ["dp"] fwd on compute : !fsdp.shard<@layers.0, f32>
// SHARDED: %[[W:.+]] = fsdp.all_gather.wait %[[U]]
// SHARDED: %[[K:.+]] = fsdp.chunk(%[[W]]) : (tensor<6x3xf32>) -> !fsdp.shard<@layers.0, f32, 2>
// SHARDED-NEXT: fsdp.reshard %[[U]] fwd
// SHARDED: %[[V:.+]] = fsdp.all_gather.start %[[K]] over ["dp"] bwd on compute : !fsdp.shard<@layers.0, f32, 2>
// SHARDED-NOT: fsdp.chunk
// SHARDED: fsdp.reshard %[[V]] bwd

// The chunk has a place from forward to the backward's gather: of 64 gathered elements (6 x 3,
// padded) a half.
// PLANNED: %[[K:.+]] = fsdp.chunk(%{{.+}}) at [[#]] : (tensor<6x3xf32>) -> !fsdp.shard<@layers.0, f32, 2>
// PLANNED: fsdp.all_gather.start %[[K]] over ["dp"] bwd on gather at [[#]]

// Counted by its input: a quarter in forward, a half in backward.
// REPORT: "collectives"
// REPORT: "group": "layers.0",
// REPORT-NEXT: "phase": "forward",
// REPORT-NEXT: "dtype": "f32",
// REPORT-NEXT: "elements": 16,
// REPORT: "group": "layers.0",
// REPORT-NEXT: "phase": "backward",
// REPORT-NEXT: "dtype": "f32",
// REPORT-NEXT: "elements": 32,

// PLAN: communicator gather: 4 ranks over dp on gather
// PLAN-NEXT: communicator chunk: 2 ranks on gather
// PLAN-NEXT: communicator reduce: 4 ranks over dp on reduce
// PLAN: fwd chunk @layers.0 of {{.*}}: 128 bytes to [[#PLACE:]]
// PLAN: bwd all_gather.start @layers.0 on gather, handle {{.*}}: 128 bytes per rank from [[#PLACE]] to {{[0-9]+}}, over 2 ranks

// Where each parameter is cut by itself, the 6 rows are padded to 8 as FSDP2 does for 4 ranks, of
// which each of 2 ranks keeps 4.
// PERPARAM: fwd all_gather.start @layers.0 {{.*}}: 24 bytes per rank
// PERPARAM: fwd chunk @layers.0 of {{.*}}: 48 bytes to [[#PLACE:]]
// PERPARAM: bwd all_gather.start @layers.0 {{.*}}: 48 bytes per rank from [[#PLACE]] to {{[0-9]+}}, over 2 ranks

// REPLICAS: fsdp.all_gather.start %{{.+}} over ["shard"] bwd on gather : !fsdp.shard<@layers.0, f32, 2>

// One module of the file says a number.
// MODULE: fsdp.group @layers.0 {{.*}} reshard_after_forward true to 2
// MODULE: fsdp.group @root {{.*}} reshard_after_forward none
// MODULE: fsdp.chunk(
// MODULE-NOT: fsdp.chunk(

// Searches decide that themselves.
// SEARCH: schedules are searched for where it is decided which groups keep chunks, but reshard_after_forward of group @layers.0 is 2; use schedule=fsdp2, or reshard_after_forward true, false or auto

// As in FSDP2, 1 rank means that nothing is resharded, all ranks that nothing is kept.
// ONE: fsdp.group @layers.0 {{.*}} reshard_after_forward false
// ONE-NOT: fsdp.chunk
// ALL: fsdp.group @layers.0 {{.*}} reshard_after_forward true
// ALL-NOT: fsdp.chunk
// THREE: reshard_after_forward is 3, expected a factor of 4, the ranks of axis 'dp'
// EIGHT: eight.yaml:1:{{.*}} reshard_after_forward is 8, expected a factor of 4, the ranks of axis 'dp'

// Groups may keep chunks over different numbers of ranks.
// NUMBERS-DAG: fsdp.group @layers.0 {{.*}} reshard_after_forward true to 2
// NUMBERS-DAG: fsdp.group @e {{.*}} reshard_after_forward true to 4

// Each number has a communicator of its own, which the gathers of its groups use.
// TWOPLANS: communicator gather: 8 ranks over dp on gather
// TWOPLANS-NEXT: communicator chunk: 2 ranks on gather
// TWOPLANS-NEXT: communicator chunk 2: 4 ranks on gather
// TWOPLANS: bwd all_gather.start @layers.0 on gather, {{.*}}, over 2 ranks
// TWOPLANS: bwd all_gather.start @e on gather, {{.*}}, over 4 ranks

// No backward gathers a group up to which all is frozen: nothing is kept of it.
// FROZEN: fsdp.all_gather.start {{.*}}!fsdp.shard<@e, f32>
// FROZEN-NOT: fsdp.chunk{{.*}}@e
// FROZEN: fsdp.chunk{{.*}}@layers.0
// FROZEN-NOT: fsdp.chunk

// A chunk lasts for its own microbatch: the next forward gathers the shards.
// MICROBATCHES: fsdp.all_gather.start {{.*}} fwd on compute : !fsdp.shard<@layers.0, f32>
// MICROBATCHES: %[[K:.+]] = fsdp.chunk({{.*}}@layers.0
// MICROBATCHES: fsdp.all_gather.start %[[K]] {{.*}} bwd on compute : !fsdp.shard<@layers.0, f32, 2>
// MICROBATCHES: fsdp.all_gather.start {{.*}} fwd on compute : !fsdp.shard<@layers.0, f32>
// MICROBATCHES: %[[L:.+]] = fsdp.chunk({{.*}}@layers.0
// MICROBATCHES: fsdp.all_gather.start %[[L]] {{.*}} bwd on compute : !fsdp.shard<@layers.0, f32, 2>

//--- groups.yaml
groups: [{modules: ["layers.0"]}]

//--- blocks.yaml
groups: [{modules: ["layers.0"]}, {modules: ["e"]}]

//--- one-module.yaml
groups: [{modules: ["layers.0"], reshard_after_forward: 2}]

//--- eight.yaml
groups: [{modules: ["layers.0"], reshard_after_forward: 8}]

//--- two-numbers.yaml
groups: [{modules: ["layers.0"], reshard_after_forward: 2}, {modules: ["e"], reshard_after_forward: 4}]

//--- step.mlir
!e = tensor<3x6xf32>
!w = tensor<6x3xf32>
!m = tensor<3x3xf32>
!s = tensor<f32>
module attributes {fsdp.model = "chunks", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !e
  fsdp.param @layers.0.w : !w
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %e = fsdp.read @e.w : !e
    %h = aten.call "mm.default"(%x, %e) fwd in "e" : (!m, !e) -> !e
    %w = fsdp.read @layers.0.w : !w
    %y = aten.call "mm.default"(%h, %w) fwd in "layers.0" : (!e, !w) -> !m
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!m) -> !s
    %one = aten.call "ones_like.default"(%y, none, none, none, none, none) bwd in "" : (!m) -> !m
    %wt = aten.call "t.default"(%w) bwd in "layers.0" : (!w) -> tensor<3x6xf32, #aten.strides<[1, 3]>>
    %dh = aten.call "mm.default"(%one, %wt) bwd in "layers.0" : (!m, tensor<3x6xf32, #aten.strides<[1, 3]>>) -> !e
    %ht = aten.call "t.default"(%h) bwd in "layers.0" : (!e) -> tensor<6x3xf32, #aten.strides<[1, 6]>>
    %dw = aten.call "mm.default"(%ht, %one) bwd in "layers.0" : (tensor<6x3xf32, #aten.strides<[1, 6]>>, !m) -> !w
    fsdp.grad @layers.0.w, %dw : !w
    %xt = aten.call "t.default"(%x) bwd in "e" : (!m) -> tensor<3x3xf32, #aten.strides<[1, 3]>>
    %de = aten.call "mm.default"(%xt, %dh) bwd in "e" : (tensor<3x3xf32, #aten.strides<[1, 3]>>, !e) -> !e
    fsdp.grad @e.w, %de : !e
    fsdp.update @e.w step %step lr %lr
    fsdp.update @layers.0.w step %step lr %lr
    return %loss : !s
  }
}

//--- frozen.mlir
!e = tensor<3x6xf32>
!w = tensor<6x3xf32>
!m = tensor<3x3xf32>
!s = tensor<f32>
module attributes {fsdp.model = "chunks", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !e frozen
  fsdp.param @layers.0.w : !w
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %e = fsdp.read @e.w : !e
    %h = aten.call "mm.default"(%x, %e) fwd in "e" : (!m, !e) -> !e
    %w = fsdp.read @layers.0.w : !w
    %y = aten.call "mm.default"(%h, %w) fwd in "layers.0" : (!e, !w) -> !m
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!m) -> !s
    %one = aten.call "ones_like.default"(%y, none, none, none, none, none) bwd in "" : (!m) -> !m
    %ht = aten.call "t.default"(%h) bwd in "layers.0" : (!e) -> tensor<6x3xf32, #aten.strides<[1, 6]>>
    %dw = aten.call "mm.default"(%ht, %one) bwd in "layers.0" : (tensor<6x3xf32, #aten.strides<[1, 6]>>, !m) -> !w
    fsdp.grad @layers.0.w, %dw : !w
    fsdp.update @layers.0.w step %step lr %lr
    return %loss : !s
  }
}
