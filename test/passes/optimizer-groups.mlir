// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/groups.yaml | FileCheck %s
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/groups.yaml | fsdp-opt --fsdp-verify-captured | FileCheck %s
// RUN: fsdp-opt %t/captured.mlir --fsdp-group-parameters=config=%t/rate.yaml | FileCheck %s --check-prefix=KEPT
// RUN: fsdp-opt %t/captured.mlir --fsdp-group-parameters=config=%t/sgd.yaml | FileCheck %s --check-prefix=SGD
// RUN: fsdp-opt %t/captured.mlir --fsdp-group-parameters=config=%t/empty.yaml | FileCheck %s --check-prefix=EMPTY
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/groups.yaml" | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/rmsprop.yaml" | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=RMSPROP
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/adagrad.yaml" | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=ADAGRAD
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/centered.yaml 2>&1 | FileCheck %s --check-prefix=CENTERED
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/lion.yaml 2>&1 | FileCheck %s --check-prefix=LION
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/nothing.yaml 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/emptied.yaml 2>&1 | FileCheck %s --check-prefix=EMPTIED
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/bare.yaml 2>&1 | FileCheck %s --check-prefix=BARE
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/momentum.yaml 2>&1 | FileCheck %s --check-prefix=MOMENTUM
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/betas.yaml 2>&1 | FileCheck %s --check-prefix=BETAS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/nesterov.yaml 2>&1 | FileCheck %s --check-prefix=NESTEROV
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/amsgrad.yaml 2>&1 | FileCheck %s --check-prefix=AMSGRAD
// RUN: not fsdp-opt %t/twice.mlir --fsdp-verify-captured 2>&1 | FileCheck %s --check-prefix=TWICE

// A parameter belongs to the first entry that matches it, by any of its names; `**` stands for any
// number of components, also none. Values that an entry leaves out are the optimizer's.
// CHECK: fsdp.optimizer adamw lr = 1.000000e-03 weight_decay = 1.000000e-01 betas = {{.*}} eps = 1.000000e-08 amsgrad maximize
// CHECK-NEXT: fsdp.optimizer_group [@bias, @layers.0.norm.weight] weight_decay = 0.000000e+00
// CHECK-NEXT: fsdp.optimizer_group [@layers.0.w] lr = 1.000000e-04 betas = [5.000000e-01, 9.000000e-01] eps = 2.500000e-01
// CHECK-NEXT: fsdp.optimizer_group [@wte] lr = 5.000000e-01
// CHECK-NOT: fsdp.optimizer_group

// Captured groups stay where the file says nothing of them, and go with the optimizer.
// KEPT: fsdp.optimizer adamw lr = 5.000000e-01
// KEPT: fsdp.optimizer_group [@bias] weight_decay = 0.000000e+00
// SGD: fsdp.optimizer sgd lr = 1.000000e-01 weight_decay = 0.000000e+00 momentum = 9.000000e-01 nesterov
// SGD-NOT: fsdp.optimizer_group
// EMPTY: fsdp.optimizer adamw
// EMPTY-NOT: fsdp.optimizer_group

// The plan has the values, and each parameter's.
// PLAN: optimizer adamw lr 1.000000e-03 weight_decay 1.000000e-01 betas [9.000000e-01, 9.990000e-01] eps 1.000000e-08 amsgrad maximize{{$}}
// PLAN-NEXT: optimizer group 1 adamw lr 1.000000e-03 weight_decay 0.000000e+00 {{.*}} amsgrad maximize{{$}}
// PLAN-NEXT: optimizer group 2 adamw lr 1.000000e-04 weight_decay 1.000000e-01 betas [5.000000e-01, 9.000000e-01] eps 2.500000e-01 amsgrad maximize own_lr
// PLAN-NEXT: optimizer group 3 adamw lr 5.000000e-01 {{.*}} own_lr
// PLAN-NEXT: group @layers.0 flat f32, {{.*}}, state at {{[0-9]+}}, state at {{[0-9]+}}, state at {{[0-9]+$}}
// PLAN-NEXT: parameter layers.0.norm.weight f32[4] optimizer group 1, rank 0
// PLAN-NEXT: parameter layers.0.w f32[4, 4] alias layers.0.head optimizer group 2, rank 1
// PLAN-NEXT: group @root
// PLAN-NEXT: parameter wte f32[4, 4] optimizer group 3, rank 0
// PLAN-NEXT: parameter bias f32[4] optimizer group 1, rank 1

// An optimizer of another kind takes torch's defaults. Each has its states.
// RMSPROP: optimizer rmsprop lr 1.000000e-02 weight_decay 0.000000e+00 momentum 5.000000e-01 alpha 9.900000e-01 eps 1.000000e-08 centered{{$}}
// RMSPROP-NEXT: optimizer group 1 rmsprop {{.*}} momentum 5.000000e-01 alpha 5.000000e-01 eps 1.000000e-08 centered{{$}}
// RMSPROP-NEXT: group @layers.0 flat f32, {{.*}}, state at {{[0-9]+}}, state at {{[0-9]+}}, state at {{[0-9]+$}}
// ADAGRAD: optimizer adagrad lr 1.000000e-02 weight_decay 0.000000e+00 eps 1.000000e-10 initial_accumulator_value 2.500000e-01{{$}}
// ADAGRAD-NEXT: group @layers.0 flat f32, {{.*}}, state at {{[0-9]+$}}

//--- rmsprop.yaml
groups: [{modules: ["layers.*"]}]
optimizer: {name: rmsprop, momentum: 0.5, centered: true, groups: [{max_dims: 1, alpha: 0.5}]}

//--- adagrad.yaml
groups: [{modules: ["layers.*"]}]
optimizer: {name: adagrad, initial_accumulator_value: 0.25}

# CENTERED: centered.yaml:1:{{.*}}: error: centered is of the whole optimizer, not of a group of it
//--- centered.yaml
optimizer: {name: rmsprop, groups: [{max_dims: 1, centered: true}]}

# LION: lion.yaml:1:{{.*}}: error: optimizer name is 'lion', expected sgd, adam, adamw, rmsprop, adagrad, adamax, nadam, radam or adadelta
//--- lion.yaml
optimizer: {name: lion}

//--- groups.yaml
groups: [{modules: ["layers.*"]}]
optimizer:
  weight_decay: 0.1
  amsgrad: true
  maximize: true
  groups:
    - {max_dims: 1, weight_decay: 0.0}
    - {parameters: ["**.head"], lr: 1.0e-4, betas: [0.5, 0.9], eps: 0.25}
    - {parameters: ["layers.**", "wte"], lr: 0.5}

# EMPTIED: emptied.yaml:2:{{.*}}: error: the entry takes no parameter: the parameters that it names belong to earlier entries, or have more than max_dims dimensions
//--- emptied.yaml
optimizer: {groups: [{parameters: ["**"], lr: 0.1},
                     {parameters: ["layers.**"], lr: 0.5}]}

//--- rate.yaml
optimizer: {lr: 0.5}

//--- sgd.yaml
optimizer: {name: sgd, lr: 0.1, momentum: 0.9, nesterov: true}

//--- empty.yaml
optimizer: {groups: []}

# NOTHING: nothing.yaml:1:{{.*}}: error: pattern 'layers.*.weight' matches no parameter of the model
//--- nothing.yaml
optimizer: {groups: [{parameters: ["layers.*.weight"], lr: 0.1}]}

# BARE: bare.yaml:1:{{.*}}: error: a group of the optimizer has 'parameters' or 'max_dims'
//--- bare.yaml
optimizer: {groups: [{lr: 0.1}]}

# MOMENTUM: momentum.yaml:1:{{.*}}: error: momentum is of the whole optimizer, not of a group of it
//--- momentum.yaml
optimizer: {groups: [{max_dims: 1, momentum: 0.1}]}

# BETAS: betas.yaml:1:{{.*}}: error: sgd has no betas{{$}}
//--- betas.yaml
optimizer: {name: sgd, groups: [{max_dims: 1, betas: [0.1, 0.2]}]}

# NESTEROV: nesterov.yaml:1:{{.*}}: error: dampening is 0.5, expected 0 with nesterov
//--- nesterov.yaml
optimizer: {name: sgd, momentum: 0.9, dampening: 0.5, nesterov: true}

# AMSGRAD: amsgrad.yaml:1:{{.*}}: error: sgd has no amsgrad
//--- amsgrad.yaml
optimizer: {name: sgd, amsgrad: true}

# TWICE: error: parameter @bias is already in another group of the optimizer
# TWICE: note: this one

//--- step.mlir
!m = tensor<4x4xf32>
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @wte : !m
  fsdp.param @bias : !v
  fsdp.param @layers.0.norm.weight : !v
  fsdp.param @layers.0.w : !m aliases ["layers.0.head"]
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.01 betas = [0.9, 0.999] eps = 1.0e-8
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %wte = fsdp.read @wte : !m
    %bias = fsdp.read @bias : !v
    %norm = fsdp.read @layers.0.norm.weight : !v
    %w = fsdp.read @layers.0.w : !m
    %a = aten.call "mul.Tensor"(%w, %norm) fwd in "layers.0" : (!m, !v) -> !m
    %loss = aten.call "sum.default"(%a, none) fwd in "" : (!m) -> !s
    %dw = aten.call "neg.default"(%w) bwd in "layers.0" : (!m) -> !m
    %dn = aten.call "neg.default"(%norm) bwd in "layers.0" : (!v) -> !v
    fsdp.grad @layers.0.w, %dw : !m
    fsdp.grad @layers.0.norm.weight, %dn : !v
    %dt = aten.call "neg.default"(%wte) bwd in "" : (!m) -> !m
    %db = aten.call "neg.default"(%bias) bwd in "" : (!v) -> !v
    fsdp.grad @wte, %dt : !m
    fsdp.grad @bias, %db : !v
    fsdp.update @wte step %step lr %lr
    fsdp.update @bias step %step lr %lr
    fsdp.update @layers.0.norm.weight step %step lr %lr
    fsdp.update @layers.0.w step %step lr %lr
    return %loss : !s
  }
}

//--- captured.mlir
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @bias : !v
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.01 betas = [0.9, 0.999] eps = 1.0e-8
  fsdp.optimizer_group [@bias] weight_decay = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %bias = fsdp.read @bias : !v
    %loss = aten.call "sum.default"(%bias, none) fwd in "" : (!v) -> !s
    %db = aten.call "neg.default"(%bias) bwd in "" : (!v) -> !v
    fsdp.grad @bias, %db : !v
    fsdp.update @bias step %step lr %lr
    return %loss : !s
  }
}

//--- twice.mlir
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @bias : !v
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.01 betas = [0.9, 0.999] eps = 1.0e-8
  fsdp.optimizer_group [@bias] weight_decay = 0.0
  fsdp.optimizer_group [@bias] lr = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %bias = fsdp.read @bias : !v
    %loss = aten.call "sum.default"(%bias, none) fwd in "" : (!v) -> !s
    %db = aten.call "neg.default"(%bias) bwd in "" : (!v) -> !v
    fsdp.grad @bias, %db : !v
    fsdp.update @bias step %step lr %lr
    return %loss : !s
  }
}
