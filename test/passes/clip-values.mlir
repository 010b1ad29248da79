// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/groups.yaml" -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t/planned.mlir
// RUN: fsdp-compile %t/planned.mlir --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/adam.yaml | FileCheck %s --check-prefix=YAML
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/zero.yaml 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/norm.yaml 2>&1 | FileCheck %s --check-prefix=NORM

// An optimizer that clips each element of the gradients: updates need no norm, and the block's update is
// before the reduction of the root's gradients.
// PLANNED: fsdp.optimizer sgd {{.*}} clip_grad_value = 5.000000e-01
// PLANNED-NOT: fsdp.partial_norm
// PLANNED: %[[D:.+]] = fsdp.reduce_scatter.wait
// PLANNED-NEXT: fsdp.update @layers.0 with %[[D]] step %{{.+}} lr %{{[^ ]+}} : !fsdp.shard
// PLANNED: fsdp.reduce_scatter.start @root
// PLANNED: fsdp.update @root

// PLAN: optimizer sgd {{.*}} clip_grad_value 5.000000e-01{{$}}

// A file's value wins over the capture's, also with another optimizer.
// YAML: fsdp.optimizer adamw {{.*}} clip_grad_value = 2.000000e+00
// ZERO: zero.yaml:1:{{.*}} clip_grad_value is 0, expected a finite number above 0 (in fp32)

// The captured value stays, beside which a norm is refused.
// NORM: norm.yaml:1:{{.*}} the optimizer clips gradients by both 'clip_grad_norm' and 'clip_grad_value', expected one of them; what the file leaves out stays as captured

//--- groups.yaml
groups: [{modules: ["layers.*"]}]

//--- adam.yaml
optimizer: {name: adamw, clip_grad_value: 2.0}

//--- zero.yaml
optimizer: {clip_grad_value: 0.0}

//--- norm.yaml
optimizer: {clip_grad_norm: 1.0}

//--- step.mlir
!m = tensor<3x3xf32>
!s = tensor<f32>
module attributes {fsdp.model = "clip", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @layers.0.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_value = 0.5
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %e = fsdp.read @e.w : !m
    %h = aten.call "mm.default"(%x, %e) fwd in "e" : (!m, !m) -> !m
    %w0 = fsdp.read @layers.0.w : !m
    %y0 = aten.call "mm.default"(%h, %w0) fwd in "layers.0" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y0, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones_like.default"(%y0, none, none, none, none, none) bwd in "" : (!m) -> !m
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
