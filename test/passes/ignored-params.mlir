// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/ignored.yaml up-to=sharded" | FileCheck %s
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/ignored.yaml" -o /dev/null
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/trained.yaml 2>&1 | FileCheck %s --check-prefix=TRAINED
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/shared.yaml | FileCheck %s --check-prefix=SHARED
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/nothing.yaml 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/repeated.yaml 2>&1 | FileCheck %s --check-prefix=REPEATED

// An ignored parameter is whole on every rank, as a buffer is, and in no group.
// The optimizer has no values for it.
// CHECK: fsdp.buffer @k.base : tensor<4x4xf32>
// CHECK: fsdp.buffer @l.base : tensor<4x4xf32>
// CHECK: fsdp.optimizer sgd
// CHECK-NEXT: fsdp.optimizer_group [@l.w] weight_decay = 1.000000e-01
// CHECK-NOT: fsdp.optimizer_group
// CHECK-NOT: fsdp.group {{.*}}@l.base{{[],]}}
// CHECK: fsdp.read @l.base : tensor<4x4xf32>

//--- comments
# REPEATED: repeated.yaml:1:{{.*}}: error: pattern 'l.base' of ignored_params matches only parameters that patterns before it match, too
# TRAINED: trained.yaml:2:{{.*}}: error: ignored parameter 'l.w' is trained: each rank would update its copy with the gradient of its own batch, which FSDP2 leaves to be reduced by hand; freeze it (requires_grad_(False)), or do not ignore it
//--- trained.yaml
ignored_params:
  - l.w

# A pattern may match any name of a parameter.
# SHARED: fsdp.buffer @tied : tensor<4x4xf32> aliases ["head.weight"]
//--- shared.yaml
ignored_params: [head.weight]

# NOTHING: nothing.yaml:1:{{.*}}: error: pattern 'l.other' of ignored_params matches no parameter of the model
//--- nothing.yaml
ignored_params: ["*.base", l.other]

//--- repeated.yaml
ignored_params: ["*.base", l.base]

//--- ignored.yaml
ignored_params: ["**.base"]

//--- step.mlir
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @k.base : !m frozen
  fsdp.param @l.base : !m frozen
  fsdp.param @l.w : !m
  fsdp.param @tied : !m aliases ["head.weight"] frozen
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.optimizer_group [@l.base, @l.w] weight_decay = 0.1
  fsdp.optimizer_group [@k.base] lr = 0.5
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %b = fsdp.read @l.base : !m
    %w = fsdp.read @l.w : !m
    %t = fsdp.read @tied : !m
    %h = aten.call "mm.default"(%x, %b) fwd in "l" : (!m, !m) -> !m
    %k = aten.call "mm.default"(%h, %t) fwd in "l" : (!m, !m) -> !m
    %y = aten.call "mm.default"(%k, %w) fwd in "l" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones_like.default"(%y, none, none, none, none, none) bwd in "" : (!m) -> !m
    %dw = aten.call "mm.default"(%k, %g) bwd in "l" : (!m, !m) -> !m
    fsdp.grad @l.w, %dw : !m
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}
