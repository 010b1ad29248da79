// RUN: fsdp-opt %s -split-input-file -fsdp-plan-memory -fsdp-verify-planned | FileCheck %s

// What outlives the step (shard, optimizer state, buffer, input) has bytes of its own; those of the
// gathered group are taken again once it is resharded; a view has no place.
// EXAMPLE: fsdp-plan-memory
// CHECK: module attributes {fsdp.arena_bytes = [[ARENA:[0-9]+]] : i64, fsdp.peak_live_bytes = [[ARENA]] : i64, fsdp.phase = #fsdp.module_phase<planned>}
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.1 betas = [0.9, 0.999] eps = 1.0e-8
  fsdp.param @l.w : tensor<32xf32>
  // CHECK: fsdp.buffer @count : tensor<f32> at [[COUNT:[0-9]+]]
  fsdp.buffer @count : tensor<f32>
  // CHECK: fsdp.group @l {{.*}} at shard {{[0-9]+}} states [{{[0-9]+}}, {{[0-9]+}}]{{$}}
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    // CHECK: %[[S:.+]] = fsdp.shard @l :
    %shard = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    // CHECK: fsdp.input "x" at {{[0-9]+}} : tensor<32xf32>
    %x = fsdp.input "x" : tensor<32xf32>
    // CHECK: all_gather.start %[[S]] over ["dp"] fwd on gather at [[GATHERED:[0-9]+]]
    %u = fsdp.all_gather.start %shard over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    // CHECK: all_gather.wait %{{.+}} : tensor<32xf32>
    %w = fsdp.all_gather.wait %u : tensor<32xf32>
    // CHECK: "sum.default"{{.*}} at [{{[0-9]+}}]
    %s = aten.call "sum.default"(%w, none) fwd in "l" : (tensor<32xf32>) -> tensor<f32>
    fsdp.reshard %u fwd
    // CHECK: "relu.default"{{.*}} at {{\[}}[[GATHERED]]]
    %a = aten.call "relu.default"(%x) fwd in "" : (tensor<32xf32>) -> tensor<32xf32>
    // CHECK: "view.default"(%{{.+}}, [4, 8]) fwd in "" :
    %v = aten.call "view.default"(%a, [4, 8]) fwd in "" : (tensor<32xf32>) -> tensor<4x8xf32>
    // CHECK: "neg.default"{{.*}} at {{\[}}[[GRADIENT:[0-9]+]]]
    %g = aten.call "neg.default"(%x) bwd in "l" : (tensor<32xf32>) -> tensor<32xf32>
    // CHECK: reduce_scatter.start {{.*}} at {{\[}}[[GRADIENT]], {{[0-9]+}}]
    %r = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on reduce : tensor<32xf32>
    // CHECK: %[[D:.+]] = fsdp.reduce_scatter.wait
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // CHECK: fsdp.update @l with %[[D]]
    fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
    return %s : tensor<f32>
  }
}

// -----

// A gradient lies where its reduction reads it if it is all of its storage and contiguous, also through
// a view (%ga, the group's first 64 bytes), but not if it is transposed (%gc) or lies there already
// for another parameter (%ga again): those are copied, and the bytes that they will take are their
// own from the reduction's start on.
// CHECK-LABEL: fsdp.param @a
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @a : tensor<16xf32>
  fsdp.param @b : tensor<4x4xf32>
  fsdp.param @c : tensor<4x4xf32>
  fsdp.param @d : tensor<16xf32>
  fsdp.group @g [@a, @b, @c, @d] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %shard = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<4x4xf32>
    %u = fsdp.all_gather.start %shard over ["dp"] fwd on gather : !fsdp.shard<@g, f32>
    %w:4 = fsdp.all_gather.wait %u : tensor<16xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>
    %s = aten.call "sum.default"(%x, none) fwd in "" : (tensor<4x4xf32>) -> tensor<f32>
    // CHECK: "relu.default"{{.*}} at {{\[}}[[BASE:[0-9]+]]]
    %ga0 = aten.call "relu.default"(%x) bwd in "" : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %ga = aten.call "view.default"(%ga0, [16]) bwd in "" : (tensor<4x4xf32>) -> tensor<16xf32>
    %gb = aten.call "neg.default"(%w#1) bwd in "" : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %gc0 = aten.call "mm.default"(%x, %x) bwd in "" : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gc = aten.call "t.default"(%gc0) bwd in "" : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<[1, 4]>>
    fsdp.reshard %u bwd
    // CHECK: reduce_scatter.start {{.*}} at {{\[}}[[BASE]],
    %r = fsdp.reduce_scatter.start @g(%ga, %gb, %gc, %ga) over ["dp"] avg bwd on reduce : tensor<16xf32>, tensor<4x4xf32>, tensor<4x4xf32, #aten.strides<[1, 4]>>, tensor<16xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}

// -----

// In the per-param layout each full parameter has a place, into which it is copied at the wait.
// CHECK-LABEL: fsdp.param @per_param
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 2>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.0
  fsdp.param @per_param : tensor<5x4xf32>
  fsdp.param @other : tensor<3xf32>
  fsdp.group @g [@per_param, @other] of [""] over @mesh "dp" per_param reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %shard = fsdp.shard @g : !fsdp.shard<@g, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %u = fsdp.all_gather.start %shard over ["dp"] fwd on gather : !fsdp.shard<@g, f32>
    // CHECK: all_gather.wait %{{.+}} at [{{[0-9]+}}, {{[0-9]+}}] :
    %w:2 = fsdp.all_gather.wait %u : tensor<5x4xf32>, tensor<3xf32>
    %s = aten.call "sum.default"(%w#1, none) fwd in "" : (tensor<3xf32>) -> tensor<f32>
    %g0 = aten.call "neg.default"(%w#0) bwd in "" : (tensor<5x4xf32>) -> tensor<5x4xf32>
    %g1 = aten.call "neg.default"(%w#1) bwd in "" : (tensor<3xf32>) -> tensor<3xf32>
    fsdp.reshard %u bwd
    %r = fsdp.reduce_scatter.start @g(%g0, %g1) over ["dp"] avg bwd on reduce : tensor<5x4xf32>, tensor<3xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}

// -----

// On one rank the parameters are read from the shard itself, and the gradients are packed where they
// were made.
// CHECK-LABEL: fsdp.param @one_rank
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.mesh @mesh <dp = 1>
  fsdp.optimizer sgd lr = 0.001 weight_decay = 0.0 momentum = 0.9
  fsdp.param @one_rank : tensor<16xf32>
  fsdp.group @g [@one_rank] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a = fsdp.read @one_rank : tensor<16xf32>
    %s = aten.call "sum.default"(%a, none) fwd in "" : (tensor<16xf32>) -> tensor<f32>
    // CHECK: "neg.default"{{.*}} at {{\[}}[[GRADIENT:[0-9]+]]]
    %g = aten.call "neg.default"(%a) bwd in "" : (tensor<16xf32>) -> tensor<16xf32>
    // CHECK: %[[D:.+]] = fsdp.pack @g({{.*}}) at [[GRADIENT]] :
    %d = fsdp.pack @g(%g) : (tensor<16xf32>) -> !fsdp.shard<@g, f32>
    // CHECK: fsdp.update @g with %[[D]]
    fsdp.update @g with %d step %step lr %lr : !fsdp.shard<@g, f32>
    return %s : tensor<f32>
  }
}
