// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/meshes.yaml | FileCheck %s --check-prefix=GROUPS
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/meshes.yaml --fsdp-insert-collectives --fsdp-verify-sharded -o %t/sharded.mlir
// RUN: FileCheck %s --check-prefix=SHARDED --input-file=%t/sharded.mlir
// RUN: fsdp-opt %t/sharded.mlir --fsdp-schedule --fsdp-assign-streams --fsdp-verify-scheduled --fsdp-report=file=%t/report.json -o %t/scheduled.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULED --input-file=%t/scheduled.mlir
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t/report.json
// RUN: fsdp-opt %t/scheduled.mlir --emit-bytecode | fsdp-opt --fsdp-plan-memory --fsdp-verify-planned | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/same.yaml | FileCheck %s --check-prefix=SAME
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="config=%t/even.yaml up-to=sharded" | FileCheck %s --check-prefix=EVEN
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters="config=%t/meshes.yaml microbatches=2 gradient-sync=reduce_scatter" | FileCheck %s --check-prefix=SYNC
// RUN: fsdp-explain %t/scheduled.mlir --log-decisions - | FileCheck %s --check-prefix=LOG
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="config=%t/stages.yaml up-to=scheduled" | fsdp-explain - --log-decisions - | FileCheck %s --check-prefix=STAGES
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/ranks.yaml 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/root.yaml 2>&1 | FileCheck %s --check-prefix=ROOT
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="config=%t/meshes.yaml mesh=dp=8" 2>&1 | FileCheck %s --check-prefix=FLAG
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/chunks.yaml 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters="config=%t/sync.yaml microbatches=2" 2>&1 | FileCheck %s --check-prefix=NOREPLICAS
// RUN: not fsdp-opt %t/step.mlir --fsdp-pipeline="config=%t/meshes.yaml schedule=auto device=h100" 2>&1 | FileCheck %s --check-prefix=SEARCH
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="config=%t/hybrid.yaml schedule=auto device=h100 up-to=scheduled report=%t/searched.json" | FileCheck %s --check-prefix=SEARCHED
// RUN: FileCheck %s --check-prefix=PREDICTED --input-file=%t/searched.json

// The model's mesh is declared first, then those that groups name, each once.
// GROUPS: fsdp.mesh @mesh <dp = 4>
// GROUPS-NEXT: fsdp.mesh @mesh_0 <replicate = 2, shard = 2>
// GROUPS-NEXT: fsdp.mesh @mesh_1 <replicate = 4, shard = 1>
// GROUPS-NEXT: fsdp.group @layers.0 {{.*}} over @mesh_0 "shard" replicated "replicate" flat
// GROUPS-NEXT: fsdp.group @layers.1 {{.*}} over @mesh_1 "shard" replicated "replicate" flat
// GROUPS-NEXT: fsdp.group @root {{.*}} over @mesh "dp" flat

// A group that names the model's mesh has that.
// SAME: fsdp.mesh @mesh <dp = 4>
// SAME-NEXT: fsdp.group @layers.0 {{.*}} over @mesh "dp" flat

// Of all groups that are reduced later over replicas those without are reduced each time.
// SYNC: fsdp.group @layers.0 {{.*}} gradient_sync reduce_scatter
// SYNC: fsdp.group @root {{.*}} gradient_sync each

// Each group is gathered and reduced over its own axes; what lies whole on a rank is read.
// SHARDED: fsdp.all_gather.start %{{.+}} over ["dp"] fwd
// SHARDED: fsdp.all_gather.start %{{.+}} over ["shard"] fwd
// SHARDED: fsdp.read @layers.1.w
// SHARDED: %[[P:.+]] = fsdp.pack @layers.1(
// SHARDED-NEXT: %[[A1:.+]] = fsdp.all_reduce.start %[[P]] over ["replicate"] avg bwd
// SHARDED-NEXT: %[[F1:.+]] = fsdp.all_reduce.wait %[[A1]]
// SHARDED: %[[R0:.+]] = fsdp.reduce_scatter.start @layers.0({{.*}}) over ["shard"] avg bwd
// SHARDED: %[[A0:.+]] = fsdp.all_reduce.start %[[R0]] over ["replicate"] avg bwd
// SHARDED-NEXT: %[[F0:.+]] = fsdp.all_reduce.wait %[[A0]]
// SHARDED: %[[R:.+]] = fsdp.reduce_scatter.start @root({{.*}}) over ["dp"] avg bwd
// SHARDED-NEXT: %[[F:.+]] = fsdp.reduce_scatter.wait %[[R]]
// SHARDED-NOT: fsdp.all_reduce.start %[[R]]

// The norm's parts are added up over all ranks.
// SHARDED: %[[PART:.+]] = fsdp.partial_norm 2(%[[F1]], %[[F0]], %[[F]])
// SHARDED-NEXT: fsdp.all_reduce.start %[[PART]] over ["dp"] sum bwd

// Where all groups have as many shards, over these.
// EVEN: %[[PART:.+]] = fsdp.partial_norm 2(
// EVEN-NEXT: fsdp.all_reduce.start %[[PART]] over ["half"] sum bwd

// SCHEDULED: fsdp.all_gather.start %{{.+}} over ["shard"] fwd on gather
// SCHEDULED: fsdp.reduce_scatter.start @layers.0({{.*}}) over ["shard"] avg bwd on reduce

// The report says which mesh a group has that is not the model's.
// REPORT: "mesh": {
// REPORT-NEXT: "dp": 4
// REPORT: "group": "layers.0"
// REPORT: "mesh": {
// REPORT-NEXT: "replicate": 2
// REPORT-NEXT: "shard": 2
// REPORT: "group": "root"
// REPORT-NOT: "mesh"
// REPORT: "events"

// PLAN: mesh dp = 4
// PLAN-NEXT: communicator gather: 4 ranks over dp on gather
// PLAN-NEXT: communicator gather 1: 2 ranks over shard on gather
// PLAN-NEXT: communicator replicate: 4 ranks over replicate on replicate
// PLAN-NEXT: communicator reduce: 2 ranks over shard on reduce
// PLAN-NEXT: communicator replicate 4: 2 ranks over replicate with stride 2 on replicate
// PLAN-NEXT: communicator reduce 5: 4 ranks over dp on reduce
// PLAN: group @layers.0 flat f32, 16 elements per rank at {{[0-9]+}}, over 2 ranks
// PLAN: group @layers.1 flat f32, 16 elements per rank at {{[0-9]+}}, over 1 ranks
// PLAN: group @root flat f32, 16 elements per rank at {{[0-9]+}}

// LOG: mesh dp = 4
// LOG: group layers.0: mesh of its own: replicate = 2, shard = 2
// LOG: group layers.0: gradients by avg over shard, then by avg over replicate
// LOG: group layers.1: whole on each rank: neither gathered nor resharded
// LOG-NEXT: group layers.1: gradients by avg over replicate
// LOG: group root: gradients by avg over dp

// STAGES: microbatches 2 in order 1f1b of stages e, layers.1
// STAGES: group layers.0: mesh of its own: replicate = 2, shard = 2

// SEARCH: meshes.yaml:{{[0-9]+}}:{{[0-9]+}}: error: schedules are searched for where all groups are sharded or none, but the mesh of group @layers.1 has one shard; use schedule=fsdp2, or leave out the mesh of groups
// Launches of several groups are of one mesh; reductions go on where there are replicas.
// SEARCHED-NOT: over ["shard"] {{.*}} coalesced
// SEARCHED: %[[R0:.+]] = fsdp.reduce_scatter.start @layers.0({{.*}}) over ["shard"] avg bwd on {{gather|reduce}} :
// SEARCHED-NEXT: fsdp.all_reduce.start %[[R0]] over ["replicate"] avg bwd on replicate
// SEARCHED-NOT: over ["shard"] {{.*}} coalesced
// SEARCHED: fsdp.reduce_scatter.start @layers.1({{.*}}) over ["dp"] avg bwd on {{gather|reduce}} :
// SEARCHED-NEXT: fsdp.reduce_scatter.start @root({{.*}}) over ["dp"] avg bwd on {{gather|reduce}} coalesced :

// PREDICTED: "launches": [
// PREDICTED: "kind": "all_reduce",
// PREDICTED-NEXT: "groups": [
// PREDICTED-NEXT: "layers.0"
// PREDICTED-NOT: "kind": "all_reduce"

// FLAG: meshes.yaml:4:{{[0-9]+}}: error: mesh of group 'layers.0' is replicate=2,shard=2, of 4 ranks, but the model's is dp=8, of 8; give the group a mesh of as many ranks, or leave its mesh out

//--- meshes.yaml
mesh: {dp: 4}
groups:
  - modules: ["layers.0"]
    mesh: {replicate: 2, shard: 2}
  - {modules: ["layers.1"], mesh: {replicate: 4, shard: 1}}

//--- hybrid.yaml
mesh: {dp: 4}
groups:
  - modules: ["layers.0"]
    mesh: {replicate: 2, shard: 2}
  - {modules: ["layers.1"]}

//--- stages.yaml
mesh: {dp: 4}
groups: [{modules: ["layers.0"], mesh: {replicate: 2, shard: 2}}, {modules: ["e"]}, {modules: ["layers.1"]}]
accumulation: {microbatches: 2, loss: sum, order: 1f1b, stages: ["e", "layers.1"]}

//--- same.yaml
mesh: {dp: 4}
groups: [{modules: ["layers.*"], mesh: {dp: 4}}]

//--- even.yaml
mesh: {dp: 4}
groups: [{modules: ["layers.*"], mesh: {all: 2, half: 2}}]
root: {mesh: {all: 2, half: 2}}

# All ranks of the run are on each mesh.
# RANKS: ranks.yaml:4:{{[0-9]+}}: error: mesh of group 'layers.1' is a=2,b=4, of 8 ranks, but the model's is dp=4, of 4;
//--- ranks.yaml
mesh: {dp: 4}
groups:
  - modules: ["layers.1"]
    mesh: {a: 2, b: 4}

# ROOT: root.yaml:2:{{[0-9]+}}: error: mesh of the root group is dp=2, of 2 ranks, but the model's is dp=4, of 4;
//--- root.yaml
mesh: {dp: 4}
root: {mesh: {dp: 2}}

# A number of ranks divides the group's own axis.
# CHUNKS: chunks.yaml:3:{{[0-9]+}}: error: reshard_after_forward is 4, expected a factor of 2, the ranks of axis 'shard'
//--- chunks.yaml
mesh: {dp: 4}
groups:
  - {modules: ["layers.*"], mesh: {replicate: 2, shard: 2}, reshard_after_forward: 4}

# NOREPLICAS: sync.yaml:3:{{[0-9]+}}: error: gradient_sync is reduce_scatter, but the mesh has no axis of replicas: say each or last
//--- sync.yaml
mesh: {replicate: 2, shard: 2}
groups:
  - {modules: ["layers.*"], mesh: {dp: 4}, gradient_sync: reduce_scatter}

//--- step.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "meshes", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @layers.0.w : !m
  fsdp.param @layers.1.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 1.0
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
