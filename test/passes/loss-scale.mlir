// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 up-to=sharded config=%t/groups.yaml" -o %t/sharded.mlir
// RUN: FileCheck %s --check-prefix=SHARDED --input-file=%t/sharded.mlir
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/groups.yaml" -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t/planned.mlir
// RUN: fsdp-compile %t/planned.mlir --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=microbatches=2 --fsdp-accumulate-gradients | FileCheck %s --check-prefix=MICROBATCHES
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/other.yaml | FileCheck %s --check-prefix=YAML
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/zero.yaml 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/group.yaml 2>&1 | FileCheck %s --check-prefix=GROUP
// RUN: sed -e 's/ loss_scale = 65536.*2000//' -e '/fsdp.loss_scale/d' -e 's/%loss, %loss_scale/%loss, %loss/' -e 's/%one, %loss_scale/%one, %one/' %t/step.mlir > %t/plain.mlir
// RUN: not fsdp-opt %t/plain.mlir --fsdp-group-parameters=config=%t/other.yaml 2>&1 | FileCheck %s --check-prefix=PLAIN
// RUN: sed 's/%ones_like, %loss_scale/%ones_like, %ones_like/' %t/sharded.mlir > %t/unscaled.mlir
// RUN: not fsdp-opt %t/unscaled.mlir --fsdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UNSCALED
// RUN: sed 's/ scale %loss_scale : !fsdp.shard/ : !fsdp.shard/' %t/sharded.mlir > %t/scaled.mlir
// RUN: not fsdp-opt %t/scaled.mlir --fsdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=SCALED

// The updates stand behind the norm of all gradients, which is finite if all of them are, and divide
// gradients by the scale that the backward began with.
// SHARDED: %[[SCALE:.+]] = fsdp.loss_scale : tensor<f32>
// SHARDED: "mul.Tensor"(%{{.+}}, %[[SCALE]]) bwd
// SHARDED: %[[D0:.+]] = fsdp.reduce_scatter.wait
// SHARDED-NOT: fsdp.update
// SHARDED: %[[D:.+]] = fsdp.reduce_scatter.wait
// SHARDED-NEXT: %[[PART:.+]] = fsdp.partial_norm 2(%[[D0]], %[[D]])
// SHARDED-NEXT: %[[N:.+]] = fsdp.all_reduce.start %[[PART]] over ["dp"] sum
// SHARDED-NEXT: %[[TOTAL:.+]] = fsdp.all_reduce.wait %[[N]]
// SHARDED-NEXT: %[[CLIP:.+]] = fsdp.clip_factor %[[TOTAL]] scale %[[SCALE]] : tensor<f64>
// SHARDED-NEXT: fsdp.update @layers.0 with %[[D0]] step %{{.+}} lr %{{.+}} clip %[[CLIP]] scale %[[SCALE]] :
// SHARDED-NEXT: fsdp.update @root with %[[D]] {{.*}} clip %[[CLIP]] scale %[[SCALE]] :

// PLANNED: fsdp.loss_scale at {{[0-9]+}} : tensor<f32>

// PLAN: optimizer sgd {{.*}} loss_scale 6.553600e+04 growth_factor 2.000000e+00 backoff_factor 5.000000e-01 growth_interval 2000
// PLAN: loss scale %loss_scale f32[] at [[#PLACE:]]
// PLAN: bwd clip_factor of

// All microbatches begin with one scale, behind the division of each loss.
// MICROBATCHES: %[[SCALE:.+]] = fsdp.loss_scale
// MICROBATCHES-NOT: fsdp.loss_scale
// MICROBATCHES: %[[MEAN:.+]] = aten.call "div.Tensor"(%{{.+}}, 2) fwd
// MICROBATCHES: "mul.Tensor"(%[[MEAN]], %[[SCALE]]) fwd
// MICROBATCHES: %[[G:.+]] = aten.call "mul.Tensor"(%{{.+}}, %[[SCALE]]) bwd
// MICROBATCHES: "div.Tensor"(%[[G]], 2) bwd
// MICROBATCHES: "mul.Tensor"(%{{.+}}, %[[SCALE]]) fwd {{.*}}microbatch 1
// MICROBATCHES: "mul.Tensor"(%{{.+}}, %[[SCALE]]) bwd {{.*}}microbatch 1

// A file's values replace the captured ones; what it leaves out is GradScaler's default.
// YAML: fsdp.optimizer sgd {{.*}} loss_scale = 8.000000e+00 growth_factor = 2.000000e+00 backoff_factor = 2.500000e-01 growth_interval = 2000
// ZERO: zero.yaml:1:{{.*}} init of loss_scale is 0, expected a normal number above 0 (in fp32)
// GROUP: group.yaml:1:{{.*}} loss_scale is of the whole optimizer, not of a group of it
// PLAIN: other.yaml:1:{{.*}} the file has a loss_scale, but the step was captured without one: capture it with --loss-scale

// A backward that begins with 1 computes something else, and updates divide by the scale.
// UNSCALED: S9: the step computes something else than what was captured
// SCALED: S8: does not divide gradients by the loss scale

//--- groups.yaml
groups: [{modules: ["layers.*"]}]

//--- other.yaml
optimizer: {loss_scale: {init: 8.0, backoff_factor: 0.25}}

//--- zero.yaml
optimizer: {loss_scale: {init: 0.0}}

//--- group.yaml
optimizer: {groups: [{max_dims: 1, loss_scale: {init: 1.0}}]}

//--- step.mlir
!m = tensor<3x3xf32>
!s = tensor<f32>
module attributes {fsdp.model = "scaled", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @layers.0.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 loss_scale = 65536.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 2000
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %loss_scale = fsdp.loss_scale : !s
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %e = fsdp.read @e.w : !m
    %h = aten.call "mm.default"(%x, %e) fwd in "e" : (!m, !m) -> !m
    %w0 = fsdp.read @layers.0.w : !m
    %y0 = aten.call "mm.default"(%h, %w0) fwd in "layers.0" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y0, none) fwd in "" : (!m) -> !s
    %scaled = aten.call "mul.Tensor"(%loss, %loss_scale) fwd in "" : (!s, !s) -> !s
    %one = aten.call "ones_like.default"(%scaled, none, none, none, none, none) bwd in "" : (!s) -> !s
    %dl = aten.call "mul.Tensor"(%one, %loss_scale) bwd in "" : (!s, !s) -> !s
    %g = aten.call "mul.Tensor"(%y0, %dl) bwd in "" : (!m, !s) -> !m
    %dw0 = aten.call "mm.default"(%h, %g) bwd in "layers.0" : (!m, !m) -> !m
    fsdp.grad @layers.0.w, %dw0 : !m
    %d0 = aten.call "mm.default"(%g, %w0) bwd in "layers.0" : (!m, !m) -> !m
    %de = aten.call "mm.default"(%x, %d0) bwd in "e" : (!m, !m) -> !m
    fsdp.grad @e.w, %de : !m
    fsdp.update @layers.0.w step %step lr %lr
    fsdp.update @e.w step %step lr %lr
    return %loss : !s
  }
}
