// RUN: split-file %s %t
// RUN: fsdp-opt %t/clip.mlir --fsdp-offload-gradients --fsdp-verify-scheduled -o %t/after.mlir
// RUN: FileCheck %s --input-file=%t/after.mlir
// RUN: fsdp-opt %t/clip.mlir --fsdp-offload-gradients --fsdp-plan-memory --fsdp-verify-planned -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t/planned.mlir
// RUN: fsdp-compile %t/planned.mlir --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: sed 's/ offload_policy cpu//; /fetch_state/d; /store_state/d; s/ state %x_11 : !fsdp.shard<@layers.0, f32>, .*/ : !fsdp.shard<@layers.0, f32>/' %t/clip.mlir | fsdp-opt --fsdp-offload-gradients --fsdp-verify-scheduled | FileCheck %s --check-prefix=DEVICE
// RUN: fsdp-opt %t/captured.mlir --fsdp-pipeline="mesh=dp=2 offload-policy=cpu microbatches=3 microbatch-loss=sum config=%t/groups.yaml up-to=scheduled" | FileCheck %s --check-prefix=SUM
// RUN: fsdp-opt %t/captured.mlir --fsdp-pipeline="mesh=dp=2 offload-policy=cpu config=%t/groups.yaml up-to=scheduled" | FileCheck %s --check-prefix=ALONE
// RUN: not fsdp-opt %t/captured.mlir --fsdp-offload-gradients 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: sed 's/shard_norm 2/shard_norm 1/' %t/after.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: sed 's/partial_norm 2(%n, %d_10) : (!fsdp.norm<@layers.0>,/partial_norm 2(%d, %d_10) : (!fsdp.shard<@layers.0, f32>,/' %t/after.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: sed 's/partial_norm 2(%n, %d_10) : (!fsdp.norm<@layers.0>,/partial_norm 2(%n, %d, %d_10) : (!fsdp.norm<@layers.0>, !fsdp.shard<@layers.0, f32>,/' %t/after.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: sed '/fsdp.store.wait/d; /fsdp.fetch\./d; s/layers.0 with %d_15/layers.0 with %d/' %t/after.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=NEVER
// RUN: sed 's/\(store.start .*\) at 64/\1 at 0/' %t/planned.mlir | not fsdp-opt --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=OVERLAP
// RUN: sed 's/\(store.start .*\) at 64/\1/' %t/planned.mlir | not fsdp-opt --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: sed 's/host<!fsdp.shard<@layers.0, f32>/host<!fsdp.shard<@layers.0, bf16>/' %t/after.mlir | not fsdp-opt 2>&1 | FileCheck %s --check-prefix=YIELDS
// RUN: fsdp-opt %S/../Inputs/llama.mlir --fsdp-pipeline="mesh=dp=2 offload-policy=cpu microbatches=2 gradient-sync=each schedule=auto memory-cap=1MiB" --remarks-filter-analyse=fsdp-offload-gradients -o /dev/null 2>&1 | FileCheck %s --check-prefix=SEARCHED

// A gradient that waits for the norm is stored behind what it adds to that, and fetched with the state of its group. That
// of the root, whose parameters are on the device, stays.
// CHECK: %[[D:.+]] = fsdp.reduce_scatter.wait %{{.+}} : !fsdp.shard<@layers.0, f32>
// CHECK-NEXT: %[[N:.+]] = fsdp.shard_norm 2(%[[D]]) : (!fsdp.shard<@layers.0, f32>) -> !fsdp.norm<@layers.0>
// CHECK-NEXT: %[[T:.+]] = fsdp.store.start %[[D]] : !fsdp.shard<@layers.0, f32>
// CHECK: %[[R:.+]] = fsdp.reduce_scatter.wait %{{.+}} : !fsdp.shard<@root, f32>
// CHECK-NEXT: fsdp.partial_norm 2(%[[N]], %[[R]]) : (!fsdp.norm<@layers.0>, !fsdp.shard<@root, f32>) -> tensor<f64>
// CHECK: fsdp.clip_factor
// CHECK-NEXT: %[[S:.+]] = fsdp.store.wait %[[T]] : !fsdp.host<!fsdp.shard<@layers.0, f32>>
// CHECK-NEXT: %[[H:.+]] = fsdp.fetch.start %[[S]] : !fsdp.host<!fsdp.shard<@layers.0, f32>>
// CHECK-NEXT: fsdp.fetch_state.start @layers.0
// CHECK: %[[E:.+]] = fsdp.fetch.wait %[[H]] : !fsdp.shard<@layers.0, f32>
// CHECK-NEXT: fsdp.update @layers.0 with %[[E]]
// CHECK: fsdp.update @root with %[[R]]

// It lies behind what is kept on the host.
// PLANNED: fsdp.host_arena_bytes = 128
// PLANNED: fsdp.group @layers.0 {{.*}} host_shard 0
// PLANNED: fsdp.store.start %{{.+}} at 64
// PLANNED: fsdp.fetch.start %{{.+}} at {{[0-9]+}}
// PLAN: shard_norm @layers.0 of 16 f32 at
// PLAN: store.start of "layers.0", handle {{[0-9]+}}: 64 bytes from {{[0-9]+}} to the host's 64
// PLAN: partial_norm to
// PLAN: fetch.start of "layers.0", handle {{[0-9]+}}: 64 bytes from the host's 64 to

// DEVICE-NOT: fsdp.store.start

// Sums wait for other microbatches: they are fetched when the next gradient starts to be reduced. The last one is updated
// with at once.
// SUM: %[[D0:.+]] = fsdp.reduce_scatter.wait %{{.+}} : !fsdp.shard<@layers.0, f32>
// SUM-NEXT: fsdp.store.start %[[D0]]
// SUM: %[[H0:.+]] = fsdp.fetch.start %{{.+}} : !fsdp.host<!fsdp.shard<@layers.0, f32>>
// SUM-NEXT: fsdp.reduce_scatter.start @layers.0
// SUM: %[[D1:.+]] = fsdp.reduce_scatter.wait
// SUM-NEXT: %[[E0:.+]] = fsdp.fetch.wait %[[H0]]
// SUM-NEXT: %[[S1:.+]] = fsdp.accumulate %[[E0]], %[[D1]]
// SUM-NEXT: fsdp.store.start %[[S1]]
// SUM: %[[E1:.+]] = fsdp.fetch.wait %{{.+}} : !fsdp.shard<@layers.0, f32>
// SUM-NEXT: %[[S2:.+]] = fsdp.accumulate %[[E1]]
// SUM: fsdp.update @layers.0 with %[[S2]]

// ALONE-NOT: fsdp.store.start

// A search under a cap inserts the copies itself, as its arena must fit with them.
// SEARCHED: OffloadedGradients={{[1-9]}}

// TYPE: S8: has norm 1, but the optimizer clips by norm 2
// UNUSED: S8: is not an operand of the gradients' norm, or more than once
// TWICE: S8: the norm counts one gradient twice
// NEVER: S2: the copy of a gradient of group @layers.0 is never waited for
// OVERLAP: P5: the copy of a gradient of layers.0 at bytes [0, 64) of the host's arena overlaps the shard of @layers.0
// NOWHERE: P5: has no place in the host's arena
// YIELDS: yields '!fsdp.host<!fsdp.shard<@layers.0, bf16>>', expected '!fsdp.host<!fsdp.shard<@layers.0, f32>>'
// PHASE: fsdp-offload-gradients takes a module of phase scheduled, got captured

//--- clip.mlir
// EXAMPLE: fsdp-offload-gradients
module attributes {fsdp.model = "clip", fsdp.phase = #fsdp.module_phase<scheduled>, fsdp.provenance = "bae22b66a501ed640408118135e53ac2"} {
  fsdp.param @e.w : tensor<3x3xf32>
  fsdp.param @layers.0.w : tensor<3x3xf32>
  fsdp.optimizer sgd lr = 1.000000e-01 weight_decay = 0.000000e+00 momentum = 0.000000e+00 clip_grad_norm = 5.000000e-01
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @layers.0 [@layers.0.w] of ["layers.0"] over @mesh "dp" flat reshard_after_forward none offload_policy cpu
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<3x3xf32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %s = fsdp.shard @layers.0 : !fsdp.shard<@layers.0, f32>
    %s_0 = fsdp.shard @root : !fsdp.shard<@root, f32>
    %u = fsdp.all_gather.start %s_0 over ["dp"] fwd on gather : !fsdp.shard<@root, f32>
    %w = fsdp.all_gather.wait %u : tensor<3x3xf32>
    %mm = aten.call "mm.default"(%x, %w) fwd in "e" : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %u_1 = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@layers.0, f32>
    %w_2 = fsdp.all_gather.wait %u_1 : tensor<3x3xf32>
    %mm_3 = aten.call "mm.default"(%mm, %w_2) fwd in "layers.0" : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    fsdp.reshard %u_1 fwd
    %sum = aten.call "sum.default"(%mm_3, none) fwd in "" : (tensor<3x3xf32>) -> tensor<f32>
    %ones_like = aten.call "ones_like.default"(%mm_3, none, none, none, none, none) bwd in "" : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %u_4 = fsdp.all_gather.start %s over ["dp"] bwd on gather : !fsdp.shard<@layers.0, f32>
    %w_5 = fsdp.all_gather.wait %u_4 : tensor<3x3xf32>
    %mm_6 = aten.call "mm.default"(%mm, %ones_like) bwd in "layers.0" : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %mm_7 = aten.call "mm.default"(%ones_like, %w_5) bwd in "layers.0" : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    fsdp.reshard %u_4 bwd
    %r = fsdp.reduce_scatter.start @layers.0(%mm_6) over ["dp"] avg bwd on reduce : tensor<3x3xf32>
    %mm_8 = aten.call "mm.default"(%x, %mm_7) bwd in "e" : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    fsdp.reshard %u bwd
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@layers.0, f32>
    %r_9 = fsdp.reduce_scatter.start @root(%mm_8) over ["dp"] avg bwd on reduce : tensor<3x3xf32>
    %d_10 = fsdp.reduce_scatter.wait %r_9 : !fsdp.shard<@root, f32>
    %part = fsdp.partial_norm 2(%d, %d_10) : (!fsdp.shard<@layers.0, f32>, !fsdp.shard<@root, f32>) -> tensor<f64>
    %n = fsdp.all_reduce.start %part over ["dp"] sum bwd on reduce : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    %h = fsdp.fetch_state.start @layers.0
    %x_11 = fsdp.fetch_state.wait %h : !fsdp.state<@layers.0>
    fsdp.update @layers.0 with %d step %step lr %lr clip %clip state %x_11 : !fsdp.shard<@layers.0, f32>, !fsdp.state<@layers.0>
    %t = fsdp.store_state.start %x_11 : !fsdp.state<@layers.0>
    fsdp.update @root with %d_10 step %step lr %lr clip %clip : !fsdp.shard<@root, f32>
    fsdp.store_state.wait %t
    return %sum : tensor<f32>
  }
}

//--- captured.mlir
!m = tensor<3x3xf32>
!s = tensor<f32>
module attributes {fsdp.model = "clip", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @layers.0.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
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

//--- groups.yaml
groups: [{modules: [layers.0]}]
