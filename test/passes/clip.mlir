// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=mesh=dp=2 --fsdp-insert-collectives --fsdp-verify-sharded | FileCheck %s --check-prefix=SHARDED
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 report=%t/report.json" -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t/planned.mlir
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t/report.json
// RUN: fsdp-compile %t/planned.mlir --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-compile %t/planned.mlir --emit=plan --network dgx-h100 | FileCheck %s --check-prefix=EXPECTED
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 schedule=auto device=h100" | FileCheck %s --check-prefix=SEARCHED
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 schedule=asap device=h100" | FileCheck %s --check-prefix=SEARCHED
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 schedule=auto device=h100 offload-optimizer=all config=%t/adam.yaml" | FileCheck %s --check-prefix=HOST
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=replicate=2,shard=2 up-to=scheduled" | FileCheck %s --check-prefix=REPLICAS
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=1" | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=1" | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=ONEPLAN
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/adam.yaml | FileCheck %s --check-prefix=YAML
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/zero.yaml 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/inf.yaml" -o %t/inf.mlir
// RUN: FileCheck %s --check-prefix=INF --input-file=%t/inf.mlir
// RUN: fsdp-compile %t/inf.mlir --emit=plan | FileCheck %s --check-prefix=INFPLAN
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 up-to=sharded config=%t/one.yaml" | FileCheck %s --check-prefix=ONENORM
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/three.yaml 2>&1 | FileCheck %s --check-prefix=THREE
// RUN: sed 's/ clip_grad_norm = 0.5//' %t/step.mlir | not fsdp-opt --fsdp-group-parameters=config=%t/inf.yaml 2>&1 | FileCheck %s --check-prefix=NOTHING

// An optimizer that clips: the updates stand behind the reductions of all groups and the norm of all
// gradients, which the ranks add up.
// SHARDED: %[[D1:.+]] = fsdp.reduce_scatter.wait
// SHARDED-NOT: fsdp.update
// SHARDED: %[[D0:.+]] = fsdp.reduce_scatter.wait
// SHARDED-NOT: fsdp.update
// SHARDED: %[[R:.+]] = fsdp.reduce_scatter.start @root
// SHARDED-NEXT: %[[D:.+]] = fsdp.reduce_scatter.wait %[[R]]
// SHARDED-NEXT: %[[PART:.+]] = fsdp.partial_norm 2(%[[D1]], %[[D0]], %[[D]]) : {{.*}} -> tensor<f64>
// SHARDED-NEXT: %[[N:.+]] = fsdp.all_reduce.start %[[PART]] over ["dp"] sum bwd on compute : tensor<f64>
// SHARDED-NEXT: %[[TOTAL:.+]] = fsdp.all_reduce.wait %[[N]] : tensor<f64>
// SHARDED-NEXT: %[[CLIP:.+]] = fsdp.clip_factor %[[TOTAL]] : tensor<f64>
// SHARDED-NEXT: fsdp.update @layers.1 with %[[D1]] step %{{.+}} lr %{{.+}} clip %[[CLIP]]
// SHARDED-NEXT: fsdp.update @layers.0 with %[[D0]] {{.*}} clip %[[CLIP]]
// SHARDED-NEXT: fsdp.update @root with %[[D]] {{.*}} clip %[[CLIP]]
// SHARDED-NEXT: return

// In FSDP2's order each reduction is waited for before the next, the last one before the norm. All
// reduced gradients have places of their own until their updates.
// PLANNED: %[[R1:.+]] = fsdp.reduce_scatter.start @layers.1({{.*}}) over ["dp"] avg bwd on reduce at [{{[0-9]+, [0-9]+}}]
// PLANNED: %[[D1:.+]] = fsdp.reduce_scatter.wait %[[R1]]
// PLANNED: %[[R0:.+]] = fsdp.reduce_scatter.start @layers.0({{.*}}) over ["dp"] avg bwd on reduce at [{{[0-9]+, [0-9]+}}]
// PLANNED: %[[D0:.+]] = fsdp.reduce_scatter.wait %[[R0]]
// PLANNED: %[[R:.+]] = fsdp.reduce_scatter.start @root({{.*}}) over ["dp"] avg bwd on reduce at [{{[0-9]+, [0-9]+}}]
// PLANNED-NEXT: %[[D:.+]] = fsdp.reduce_scatter.wait %[[R]]
// PLANNED-NEXT: %[[PART:.+]] = fsdp.partial_norm 2(%[[D1]], %[[D0]], %[[D]]) at {{[0-9]+}} : {{.*}} -> tensor<f64>
// PLANNED-NEXT: fsdp.all_reduce.start %[[PART]] over ["dp"] sum bwd on reduce
// PLANNED-NEXT: fsdp.all_reduce.wait
// PLANNED-NEXT: fsdp.clip_factor
// PLANNED-NEXT: fsdp.update @layers.1 with %[[D1]]
// PLANNED-NEXT: fsdp.update @layers.0 with %[[D0]]
// PLANNED-NEXT: fsdp.update @root with %[[D]]

// The report lists the collective.
// REPORT: "kind": "all_reduce",
// REPORT-NEXT: "of": "gradient norm",
// REPORT-NEXT: "phase": "backward",
// REPORT-NEXT: "dtype": "f64",
// REPORT-NEXT: "elements": 1,
// REPORT-NEXT: "axis": "dp"
// REPORT: "all_reduce": {
// REPORT-NEXT: "forward": 0,
// REPORT-NEXT: "backward": 1

// PLAN: optimizer sgd {{.*}} clip_grad_norm 5.000000e-01
// PLAN: bwd reduce_scatter.start @layers.1 {{.*}} to [[#G1:]]
// PLAN: bwd reduce_scatter.start @layers.0 {{.*}} to [[#G0:]]
// PLAN: bwd reduce_scatter.start @root {{.*}} to [[#G:]]
// PLAN: bwd partial_norm to [[#PLACE:]]
// PLAN-NEXT: bwd norm_all_reduce.start on reduce, handle [[#N:]]: 1 f64 at [[#PLACE]]
// PLAN-NEXT: bwd wait for handle [[#N]]
// PLAN-NEXT: bwd clip_factor of [[#PLACE]]
// PLAN-NEXT: bwd update @layers.1 with 16 f32 at [[#G1]]
// PLAN-NEXT: bwd update @layers.0 with 16 f32 at [[#G0]]
// PLAN-NEXT: bwd update @root with 16 f32 at [[#G]]
// EXPECTED: norm_all_reduce.start {{.*}}, expected {{[0-9]+}} ns

// A search keeps the order.
// SEARCHED-COUNT-3: fsdp.reduce_scatter.wait
// SEARCHED-NOT: fsdp.update
// SEARCHED: fsdp.partial_norm 2({{.*}}) at
// SEARCHED-NEXT: fsdp.all_reduce.start {{.*}} over ["dp"] sum bwd on reduce
// SEARCHED-NEXT: fsdp.all_reduce.wait
// SEARCHED-NEXT: fsdp.clip_factor
// SEARCHED-COUNT-3: fsdp.update

// State on the host is fetched for updates that clip, too.
// HOST: fsdp.partial_norm 2({{.*}}) at
// HOST: fsdp.update @layers.1 {{.*}} clip %{{.+}} state %[[X:[^ ]+]] :
// HOST: fsdp.store_state.start %[[X]]

// On replicas the averages over all ranks are waited for.
// REPLICAS: %[[F1:.+]] = fsdp.all_reduce.wait
// REPLICAS: %[[F0:.+]] = fsdp.all_reduce.wait
// REPLICAS: %[[F:.+]] = fsdp.all_reduce.wait
// REPLICAS-NEXT: fsdp.partial_norm 2(%[[F1]], %[[F0]], %[[F]]) :

// On one rank nothing is reduced, and the padding between gradients is zero before their norm is taken.
// ONE-NOT: all_reduce
// ONE: %[[D1:.+]] = fsdp.pack @layers.1(
// ONE: %[[D0:.+]] = fsdp.pack @layers.0(
// ONE: %[[D:.+]] = fsdp.pack @root(
// ONE: %[[PART:.+]] = fsdp.partial_norm 2(%[[D1]], %[[D0]], %[[D]]) at {{[0-9]+}}
// ONE-NEXT: %[[CLIP:.+]] = fsdp.clip_factor %[[PART]]
// ONE-NEXT: fsdp.update @layers.1 with %[[D1]] {{.*}} clip %[[CLIP]]
// ONEPLAN-COUNT-3: bwd zero 28 bytes
// ONEPLAN-NEXT: bwd partial_norm to
// ONEPLAN-NEXT: bwd clip_factor of
// ONEPLAN-NEXT: bwd update

// A file's word wins over the capture's.
// YAML: fsdp.optimizer adamw {{.*}} clip_grad_norm = 2.0
// ZERO: zero.yaml:1:{{.*}} clip_grad_norm is 0, expected a finite number above 0 (in fp32)

// Of norm inf the ranks take the largest part, of norm 1 the sum.
// INF: fsdp.optimizer sgd {{.*}} clip_grad_norm = 5.000000e-01 clip_norm_type = inf
// INF: %[[PART:.+]] = fsdp.partial_norm inf(
// INF-NEXT: fsdp.all_reduce.start %[[PART]] over ["dp"] max bwd on reduce
// INFPLAN: clip_grad_norm 5.000000e-01 clip_norm_type inf
// ONENORM: %[[PART:.+]] = fsdp.partial_norm 1(
// ONENORM-NEXT: fsdp.all_reduce.start %[[PART]] over ["dp"] sum bwd
// THREE: three.yaml:1:{{.*}} clip_norm_type is '3', expected 1, 2 or inf
// NOTHING: inf.yaml:1:{{.*}} clip_norm_type is inf, but there is no clip_grad_norm, here or in the captured step

//--- inf.yaml
optimizer: {clip_norm_type: inf}

//--- one.yaml
optimizer: {clip_norm_type: 1}

//--- three.yaml
optimizer: {clip_norm_type: 3}

//--- adam.yaml
optimizer: {name: adamw, clip_grad_norm: 2.0}

//--- zero.yaml
optimizer: {clip_grad_norm: 0.0}

//--- step.mlir
!m = tensor<3x3xf32>
!s = tensor<f32>
module attributes {fsdp.model = "clip", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @layers.0.w : !m
  fsdp.param @layers.1.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_norm = 0.5
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
