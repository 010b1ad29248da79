// RUN: echo '{"layout": "per-param", "all_gather_extension": "int8", "all_reduce_hook": "shrink"}' > %t.yaml
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 config=%t.yaml report=%t.json" -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: fsdp-opt %t.mlir --fsdp-verify-planned | FileCheck %s
// RUN: fsdp-compile %t.mlir --emit plan | FileCheck %s --check-prefix=PLAN
// RUN: echo '{"layout": "per-param", "all_gather_extension": {"name": "fp6", "bytes_per_element": 2, "bytes_per_part": 8}, "root": {"all_reduce_hook": "none"}}' > %t.own.yaml
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 config=%t.own.yaml" | FileCheck %s --check-prefix=OWN
// RUN: echo '{"layout": "per-param", "all_gather_extension": "int8", "root": {"all_gather_extension": "none"}}' > %t.none.yaml
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 config=%t.none.yaml" | FileCheck %s --check-prefix=NONE

// The shard is encoded once, before the step computes; every gather carries these bytes: of each parameter one for each
// element of a rank's part and 4 for the scale.
// CHECK: fsdp.group @root {{.*}} all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4> all_reduce_hook "shrink"
// CHECK: %[[S:.+]] = fsdp.shard @root : !fsdp.shard<@root, f32>
// CHECK: %[[Q:.+]] = fsdp.encode %[[S]] at {{[0-9]+}} : !fsdp.shard<@root, f32> to !fsdp.shard<@root, ui8>
// CHECK: %[[U:.+]] = fsdp.all_gather.start %[[Q]] over ["dp"] fwd on gather at {{[0-9]+}} : !fsdp.shard<@root, ui8>
// CHECK: fsdp.all_gather.wait %[[U]] at [{{.*}}] : tensor<4x8xf32>, tensor<3xf32>
// CHECK-NOT: fsdp.encode

// The hook takes the reduced gradient, and the update what the hook has left.
// CHECK: %[[D:.+]] = fsdp.reduce_scatter.wait
// CHECK-NEXT: %[[H:.+]] = fsdp.all_reduce_hook %[[D]] : !fsdp.shard<@root, f32>
// CHECK: fsdp.update @root with %[[H]]

// REPORT: "all_gather_extension": "int8",
// REPORT-NEXT: "all_reduce_hook": "shrink"
// REPORT: "kind": "all_gather",
// REPORT: "dtype": "ui8",
// REPORT-NEXT: "elements": 26,
// REPORT: "kind": "reduce_scatter",
// REPORT: "elements": 36,

// PLAN: group @root per_param f32, 18 elements per rank at {{[0-9]+}}
// PLAN: fsdp_extension::int8_encode
// PLAN: fsdp_extension::int8_encode
// PLAN: all_gather
// PLAN: fsdp_extension::int8_decode
// PLAN: fsdp_extension::int8_decode
// PLAN: fsdp_extension::shrink_hook

// OWN: fsdp.group @root {{.*}} all_gather_extension<"fp6", bytes_per_element = 2, bytes_per_part = 8>
// OWN-NOT: all_reduce_hook

// NONE-NOT: fsdp.encode
!m = tensor<4x8xf32>
!v = tensor<3xf32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !m
  fsdp.param @b : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %b = fsdp.read @b : !v
    %s = aten.call "sum.default"(%w, none) fwd in "" : (!m) -> tensor<f32>
    %t = aten.call "sum.default"(%b, none) fwd in "" : (!v) -> tensor<f32>
    %loss = aten.call "add.Tensor"(%s, %t, 1) fwd in "" : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %g = aten.call "ones_like.default"(%w, none, none, none, none, none) bwd in "" : (!m) -> !m
    %h = aten.call "ones_like.default"(%b, none, none, none, none, none) bwd in "" : (!v) -> !v
    fsdp.grad @w, %g : !m
    fsdp.grad @b, %h : !v
    fsdp.update @w step %step lr %lr
    fsdp.update @b step %step lr %lr
    return %loss : tensor<f32>
  }
}
