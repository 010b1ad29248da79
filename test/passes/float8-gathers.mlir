// RUN: echo '{"mixed_precision": {"gather_dtype": "float8_e4m3fn"}}' > %t.yaml
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 config=%t.yaml report=%t.json" -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: fsdp-opt %t.mlir --fsdp-verify-planned -o /dev/null
// RUN: fsdp-compile %t.mlir --emit plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 config=%t.yaml" --fsdp-mixed-precision | FileCheck %s --check-prefix=CAPTURED
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 config=%t.yaml layout=per-param schedule=auto" | fsdp-compile - --emit plan | FileCheck %s --check-prefix=PERPARAM
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=1 config=%t.yaml" | FileCheck %s --check-prefix=ALONE

// The parameter that is only cast to float8 forms a group of its own. The step reads it as float8, and the largest absolute
// value in place of its computation; the scale remains.
// CAPTURED: fsdp.group @root.float8 [@w] {{.*}} float8_cast<dtype = f8E4M3FN, from = bf16, scale = f64, eps = 9.9999999999999998E-13 : f64, saturated = true> gather_dtype f8E4M3FN
// CAPTURED: fsdp.group @root [@b]
// CAPTURED: %[[W:.+]] = fsdp.read @w : tensor<4x8xf8E4M3FN>
// CAPTURED: %[[A:.+]] = fsdp.amax @w -> tensor<f32>
// CAPTURED-NOT: "abs.default"
// CAPTURED: %[[ROUNDED:.+]] = aten.call "_to_copy.default"(%[[A]], bf16
// CAPTURED: aten.call "_to_copy.default"(%[[ROUNDED]], f64
// CAPTURED: %[[S:.+]] = aten.call "_to_copy.default"({{.*}}, f32
// CAPTURED-NOT: "clamp.default"({{.*}}4.480000e+02
// CAPTURED: %[[T:.+]] = aten.call "t.default"(%[[W]])
// CAPTURED-SAME: tensor<8x4xf8E4M3FN, #aten.strides<[1, 8]>>
// CAPTURED: %[[WIDE:.+]] = aten.call "_to_copy.default"(%[[T]], f32
// CAPTURED: aten.call "div.Tensor"(%[[WIDE]], %[[S]])

// Each rank takes the largest absolute value of its part, one all-reduce takes the maximum, and the shard is cast once for all
// gathers, which carry a byte for each element.
// CHECK: %[[S:.+]] = fsdp.shard @root.float8 : !fsdp.shard<@root.float8, f32>
// CHECK: %[[PART:.+]] = fsdp.partial_amax(%[[S]]) at {{[0-9]+}} : (!fsdp.shard<@root.float8, f32>) -> tensor<1xf32>
// CHECK: %[[R:.+]] = fsdp.all_reduce.start %[[PART]] over ["dp"] max fwd on reduce : tensor<1xf32>
// CHECK: %[[TOTAL:.+]] = fsdp.all_reduce.wait %[[R]] : tensor<1xf32>
// CHECK: %[[Q:.+]] = fsdp.encode %[[S]] by %[[TOTAL]] at {{[0-9]+}} : !fsdp.shard<@root.float8, f32> by tensor<1xf32> to !fsdp.shard<@root.float8, f8E4M3FN>
// CHECK: fsdp.amax @w of %[[TOTAL]] : tensor<1xf32> -> tensor<f32>
// CHECK: %[[U:.+]] = fsdp.all_gather.start %[[Q]] over ["dp"] fwd on gather at {{[0-9]+}} : !fsdp.shard<@root.float8, f8E4M3FN>
// CHECK: fsdp.all_gather.wait %[[U]] : tensor<4x8xf8E4M3FN>
// CHECK-NOT: fsdp.encode

// REPORT: "kind": "all_reduce",
// REPORT-NEXT: "of": "parameter amax",
// REPORT-NEXT: "phase": "forward",
// REPORT-NEXT: "dtype": "f32",
// REPORT: "kind": "all_gather",
// REPORT-NEXT: "group": "root",
// REPORT: "dtype": "f8E4M3FN",
// REPORT-NEXT: "elements": 64,

// PLAN: group @root.float8 flat f32, 64 elements per rank at {{[0-9]+}}
// PLAN: call {{.*}} = fsdp_float8::amax({{.*}}, part of 2, 0, 32, {{.*}})
// PLAN: amax_all_reduce.start on reduce, handle [[H:[0-9]+]]: 1 f32
// PLAN: wait for handle [[H]]
// PLAN: call {{.*}} = fsdp_float8::cast({{.*}}, part of 2, 0, 32, {{.*}})
// PLAN: all_gather.start @root.float8

// In the per-param layout each rank has an equal part.
// PERPARAM: fsdp_float8::amax({{.*}}, 0, 0, 16, {{.*}})
// PERPARAM: fsdp_float8::cast({{.*}}, 0, 0, 16, {{.*}})

// On one rank nothing is gathered.
// ALONE-NOT: float8_cast
// ALONE: "abs.default"
!m = tensor<4x8xf32>
!h = tensor<4x8xbf16>
!t = tensor<8x4xbf16, #aten.strides<[1, 8]>>
!f = tensor<8x4xf32, #aten.strides<[1, 8]>>
!q = tensor<8x4xf8E4M3FN, #aten.strides<[1, 8]>>
!v = tensor<3xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !m
  fsdp.param @b : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %b = fsdp.read @b : !v
    %h = aten.call "_to_copy.default"(%w, bf16, none, none, none, false, none) fwd in "" : (!m) -> !h
    %t = aten.call "t.default"(%h) fwd in "" : (!h) -> !t
    %abs = aten.call "abs.default"(%t) fwd in "" : (!t) -> !t
    %max = aten.call "max.default"(%abs) fwd in "" : (!t) -> tensor<bf16>
    %wide = aten.call "_to_copy.default"(%max, f64, none, none, none, false, none) fwd in "" : (tensor<bf16>) -> tensor<f64>
    %above = aten.call "clamp.default"(%wide, 9.9999999999999998E-13, none) fwd in "" : (tensor<f64>) -> tensor<f64>
    %inverse = aten.call "reciprocal.default"(%above) fwd in "" : (tensor<f64>) -> tensor<f64>
    %scale64 = aten.call "mul.Tensor"(%inverse, 4.480000e+02) fwd in "" : (tensor<f64>) -> tensor<f64>
    %scale = aten.call "_to_copy.default"(%scale64, f32, none, none, none, false, none) fwd in "" : (tensor<f64>) -> !s
    %f = aten.call "_to_copy.default"(%t, f32, none, none, none, false, none) fwd in "" : (!t) -> !f
    %product = aten.call "mul.Tensor"(%f, %scale) fwd in "" : (!f, !s) -> !f
    %limited = aten.call "clamp.default"(%product, -4.480000e+02, 4.480000e+02) fwd in "" : (!f) -> !f
    %q = aten.call "_to_copy.default"(%limited, f8E4M3FN, none, none, none, false, none) fwd in "" : (!f) -> !q
    %back = aten.call "_to_copy.default"(%q, f32, none, none, none, false, none) fwd in "" : (!q) -> !f
    %unscaled = aten.call "div.Tensor"(%back, %scale) fwd in "" : (!f, !s) -> !f
    %sum = aten.call "sum.default"(%unscaled, none) fwd in "" : (!f) -> !s
    %sumb = aten.call "sum.default"(%b, none) fwd in "" : (!v) -> !s
    %loss = aten.call "add.Tensor"(%sum, %sumb, 1) fwd in "" : (!s, !s) -> !s
    %g = aten.call "ones.default"([4, 8], f32, none, none, false) bwd in "" : () -> !m
    %k = aten.call "ones_like.default"(%b, none, none, none, none, none) bwd in "" : (!v) -> !v
    fsdp.grad @w, %g : !m
    fsdp.grad @b, %k : !v
    fsdp.update @w step %step lr %lr
    fsdp.update @b step %step lr %lr
    return %loss : !s
  }
}
