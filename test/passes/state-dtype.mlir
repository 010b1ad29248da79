// RUN: split-file %s %t
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/all.yaml | FileCheck %s --check-prefix=ALL
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/all.yaml | fsdp-opt --fsdp-verify-captured | FileCheck %s --check-prefix=ALL
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/each.yaml | FileCheck %s --check-prefix=EACH
// RUN: fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/same.yaml | FileCheck %s --check-prefix=SAME
// RUN: sed 's/eps = 1.0e-8/eps = 1.0e-8 state_dtype = {exp_avg = bf16}/' %t/step.mlir > %t/narrow.mlir
// RUN: fsdp-opt %t/narrow.mlir --fsdp-group-parameters=config=%t/rate.yaml | FileCheck %s --check-prefix=KEPT
// RUN: fsdp-opt %t/narrow.mlir --fsdp-group-parameters=config=%t/sgd.yaml | FileCheck %s --check-prefix=SGD
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/each.yaml" -o %t/planned.mlir
// RUN: fsdp-opt %t/planned.mlir --fsdp-verify-planned | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %t/step.mlir --fsdp-pipeline="mesh=dp=2 config=%t/each.yaml offload-optimizer=all" | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=HOST
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/unknown.yaml 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/half.yaml 2>&1 | FileCheck %s --check-prefix=HALF
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/stateless.yaml 2>&1 | FileCheck %s --check-prefix=STATELESS
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/list.yaml 2>&1 | FileCheck %s --check-prefix=LIST
// RUN: not fsdp-opt %t/step.mlir --fsdp-group-parameters=config=%t/group.yaml 2>&1 | FileCheck %s --check-prefix=GROUP
// RUN: not fsdp-opt %t/double.mlir --fsdp-pipeline="mesh=dp=2 config=%t/all.yaml" 2>&1 | FileCheck %s --check-prefix=DOUBLE

// One dtype is that of all states, which the file or the capture may have given the optimizer.
// ALL: fsdp.optimizer adamw {{.*}} amsgrad state_dtype = {exp_avg = bf16, exp_avg_sq = bf16, max_exp_avg_sq = bf16}
// What is said of a single state leaves the others as the parameters are.
// EACH: fsdp.optimizer adamw {{.*}} eps = 1.000000e-08 state_dtype = {exp_avg = bf16}
// SAME: fsdp.optimizer adamw {{.*}} eps = 1.000000e-08{{$}}
// A file that says nothing of state leaves it as it is, of states that are there still.
// KEPT: fsdp.optimizer adamw lr = 5.000000e-01 {{.*}} state_dtype = {exp_avg = bf16}
// SGD: fsdp.optimizer sgd lr = 1.000000e-03 weight_decay = 0.000000e+00 momentum = 9.000000e-01{{$}}

// Each state takes the bytes of its own dtype, in the arena and on the host.
// PLAN: arena [[ARENA:[0-9]+]]
// PLAN: group @root flat f32, 2048 elements per rank at {{[0-9]+}}, state bf16 at [[FIRST:[0-9]+]], state at {{[0-9]+$}}
// HOST: group @root {{.*}}, on the host at 0, on the host at 4096
// HOST: fetch_state.start @root, handle {{[0-9]+}}: 12288 bytes

//--- all.yaml
optimizer: {amsgrad: true, state_dtype: bfloat16}

//--- each.yaml
optimizer: {state_dtype: {exp_avg: bfloat16, exp_avg_sq: float32}}

//--- same.yaml
optimizer: {state_dtype: torch.float32}

//--- rate.yaml
optimizer: {lr: 0.5}

//--- sgd.yaml
optimizer: {name: sgd, momentum: 0.9}

# UNKNOWN: unknown.yaml:1:{{.*}}: error: state_dtype: adamw has no state 'max_exp_avg_sq', it has exp_avg, exp_avg_sq
//--- unknown.yaml
optimizer: {state_dtype: {max_exp_avg_sq: bfloat16}}

# HALF: half.yaml:1:{{.*}}: error: state_dtype: the dtype of optimizer state is 'float16', expected float32 or bfloat16
//--- half.yaml
optimizer: {state_dtype: float16}

# STATELESS: stateless.yaml:1:{{.*}}: error: state_dtype: sgd without momentum keeps no state
//--- stateless.yaml
optimizer: {name: sgd, state_dtype: bfloat16}

# LIST: list.yaml:1:{{.*}}: error: optimizer.state_dtype is a list, expected the dtype of the optimizer's state, or a mapping of states to these
//--- list.yaml
optimizer: {state_dtype: [bfloat16]}

# GROUP: group.yaml:1:{{.*}}: error: state_dtype is of the whole optimizer, not of a group of it
//--- group.yaml
optimizer: {groups: [{max_dims: 1, state_dtype: bfloat16}]}

//--- step.mlir
!m = tensor<64x64xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !m
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.01 betas = [0.9, 0.999] eps = 1.0e-8
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (!m) -> !s
    %dw = aten.call "neg.default"(%w) bwd in "" : (!m) -> !m
    fsdp.grad @w, %dw : !m
    fsdp.update @w step %step lr %lr
    return %loss : !s
  }
}

// Such updates compute in fp32.
// DOUBLE: error: 'fsdp.group' op @root has parameters of 'f64', and their exp_avg is to be kept in 'bf16': such updates compute in f32
// DOUBLE: note: the optimizer is declared here
//--- double.mlir
!m = tensor<64x64xf64>
!s = tensor<f64>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !m
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.01 betas = [0.9, 0.999] eps = 1.0e-8
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (!m) -> !s
    %dw = aten.call "neg.default"(%w) bwd in "" : (!m) -> !m
    fsdp.grad @w, %dw : !m
    fsdp.update @w step %step lr %lr
    return %loss : !s
  }
}
