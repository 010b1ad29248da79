// RUN: split-file %s %t
// RUN: fsdp-opt %t/blocks.mlir --fsdp-offload-activations --fsdp-verify-sharded | FileCheck %s --check-prefix=BLOCKS
// RUN: fsdp-opt %t/sharded.mlir --fsdp-offload-activations --fsdp-verify-sharded --remarks-filter-analyse=fsdp-offload-activations -o %t/after.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s --input-file=%t/after.mlir
// RUN: fsdp-opt %t/after.mlir --fsdp-schedule --fsdp-assign-streams --fsdp-verify-scheduled --fsdp-plan-memory --fsdp-verify-planned -o %t/planned.mlir
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t/planned.mlir
// RUN: fsdp-compile %t/planned.mlir --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %t/sharded.mlir --fsdp-offload-activations=min-bytes=1025 | FileCheck %s --check-prefix=SMALL
// RUN: sed 's/ offload_activations true//' %t/sharded.mlir | fsdp-opt --fsdp-offload-activations | FileCheck %s --check-prefix=NONE
// RUN: sed 's/@l.0.w] of .* offload_activations true/&FALSE/; s/trueFALSE/false/' %t/sharded.mlir | fsdp-opt --fsdp-offload-activations="activations=all" | FileCheck %s --check-prefix=ALL
// RUN: fsdp-opt %t/after.mlir --fsdp-offload-activations | FileCheck %s --check-prefix=AGAIN
// RUN: sed '/store.wait .t :/d; /fetch.start .s_6/d; /fetch.wait %h_19/d; s/%a_27/%mm/g' %t/after.mlir | not fsdp-opt --fsdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=NEVER
// RUN: sed '/fetch.start .s_6/d; /fetch.wait %h_19/d; s/%a_27/%mm/g' %t/after.mlir | not fsdp-opt --fsdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=UNREAD
// RUN: sed '/fetch.start .s_6/{p;s/%h_19 =/%h_99 =/}; /fetch.wait %h_19/{p;s/%a_27 = fsdp.fetch.wait %h_19/%a_99 = fsdp.fetch.wait %h_99/}' %t/after.mlir | not fsdp-opt --fsdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed 's/store.start %mm :/store.start %w :/' %t/after.mlir | not fsdp-opt --fsdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=GATHERED
// RUN: sed 's/store.start %mm_5 :/store.start %view_2 :/' %t/after.mlir | not fsdp-opt --fsdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=VIEW
// RUN: sed 's/\(@l.1.w\] of .* true\)/\1 activations host/' %t/sharded.mlir | fsdp-opt --fsdp-offload-activations=min-bytes=1025 | FileCheck %s --check-prefix=TAKENBACK
// RUN: sed 's/store.start .mm_5/store.start %mm_9/' %t/after.mlir | not fsdp-opt --fsdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=OTHERS
// RUN: sed 's/\(store.start .*\) at 1024/\1 at 0/' %t/planned.mlir | not fsdp-opt --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=OVERLAP
// RUN: sed 's/\(fetch.start .*\) at [0-9]*/\1/' %t/planned.mlir | not fsdp-opt --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: sed 's/\(@l.1.w\] of .* true\)/\1 offload_activations false activations host/' %t/sharded.mlir | not fsdp-opt --fsdp-verify-sharded 2>&1 | FileCheck %s --check-prefix=AGAINST
// RUN: not fsdp-opt %t/sharded.mlir --fsdp-schedule --fsdp-plan-memory 2>&1 | FileCheck %s --check-prefix=OPEN
// RUN: not fsdp-opt %t/sharded.mlir --fsdp-offload-activations=activations=auto 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: not fsdp-opt %t/planned.mlir --fsdp-offload-activations 2>&1 | FileCheck %s --check-prefix=PHASE

// BLOCKS: aten.call "add.Tensor"(%tanh
// BLOCKS-NEXT: %[[T:.+]] = fsdp.store.start %tanh : tensor<16x16xf32>
// BLOCKS: %[[A:.+]] = fsdp.fetch.wait
// BLOCKS-NEXT: aten.call "tanh_backward.default"(%{{.+}}, %[[A]])

// The product is stored behind the last operation of the forward that reads it, by a view, and waited for behind the next
// block. It is fetched when the backward of that block begins; the view is made again of what is fetched.
// CHECK: fsdp.group @l.0 {{.*}} offload_activations true activations host
// CHECK: %[[Y0:.+]] = aten.call "mm.default"({{.*}}) fwd in "l.0"
// CHECK: aten.call "relu.default"({{.*}}) fwd in "l.0"
// CHECK-NEXT: %[[T0:.+]] = fsdp.store.start %[[Y0]] : tensor<16x16xf32>
// CHECK: %[[Y1:.+]] = aten.call "mm.default"({{.*}}) fwd in "l.1"
// CHECK-NEXT: %[[S0:.+]] = fsdp.store.wait %[[T0]] : !fsdp.host<tensor<16x16xf32>>
// The tensor that the backward of l.2 is the first to read is of l.2, whichever block made it.
// CHECK: aten.call "mm.default"({{.*}}) fwd in "l.2"
// CHECK-NEXT: fsdp.store.start %[[Y1]]
// CHECK: %[[H0:.+]] = fsdp.fetch.start %[[S0]]
// CHECK-NEXT: aten.call "mm.default"({{.*}}) bwd in "l.1"
// CHECK: %[[A0:.+]] = fsdp.fetch.wait %[[H0]] : tensor<16x16xf32>
// CHECK-NEXT: %[[V0:.+]] = aten.call "view.default"(%[[A0]], [256]) bwd in "l.0"
// CHECK-NEXT: aten.call "mul.Tensor"(%{{.+}}, %[[V0]]) bwd in "l.0"
// CHECK: aten.call "mul.Tensor"(%{{.+}}, %[[A0]]) bwd in "l.0"
// REMARK: OffloadedActivations=2, OffloadedBytes=2048, OffloadedGroups=2

// PLANNED: fsdp.host_arena_bytes = 2048
// PLANNED: fsdp.store.start %mm at 0 : tensor<16x16xf32>
// PLANNED: fsdp.fetch.start %{{.+}} at {{[0-9]+}} : !fsdp.host<tensor<16x16xf32>>
// PLAN: fwd {{.*}}store.start of "l.0", handle {{[0-9]+}}: 1024 bytes from {{[0-9]+}} to the host's
// PLAN: bwd {{.*}}fetch.start of "l.0", handle {{[0-9]+}}: 1024 bytes from the host's {{[0-9]+}} to

// Small tensors stay in the arena; a block of which nothing is left to offload says why.
// SMALL: decisions [#fsdp.decision<activations, "nothing of its forward waits long enough for its backward">
// SMALL-NOT: fsdp.store
// NONE-NOT: fsdp.store
// The block that says false stays, all others' go.
// ALL: fsdp.group @l.0 {{.*}} offload_activations false{{$}}
// ALL: fsdp.group @l.1 {{.*}} activations host
// ALL: fsdp.group @l.2 {{.*}} activations host
// ALL: fsdp.store.start %relu
// ALL: fsdp.store.start %mm_5
// ALL-NOT: fsdp.store.start
// What is on the host already is left as it is.
// AGAIN-COUNT-2: fsdp.store.start
// AGAIN-NOT: fsdp.store.start

// NEVER: S2: the copy of an activation is never waited for
// UNREAD: S2: what the copy of an activation brings to the host is never fetched
// OTHER: S2: what the copy of an activation brings to the host is fetched twice
// What is gathered is released, and what is read is overwritten, while a copy would read it.
// GATHERED: S2: a value that is stored on the host is not the result of an operator
// VIEW: S2: a value that is stored on the host is not the result of an operator
// A mark of a block of which nothing can wait is taken back, and why is said.
// TAKENBACK: fsdp.group @l.1 {{.*}} reshard_after_forward true decisions [#fsdp.decision<activations, "nothing of its forward waits long enough for its backward">
// OTHERS: S9: the step computes something else than what was captured
// OVERLAP: P5: the copy of an activation at bytes [0, 1024) of the host's arena overlaps the copy of an activation
// NOWHERE: P1: has a buffer without an arena offset
// AGAINST: group @l.1 asks for offload_activations false, but its activations are said to be on the host, and no decision says why
// OPEN: @l.0 asks for offload_activations, but its activations stay in the arena; run fsdp-offload-activations
// AUTO: error: offload-activations=auto needs a search: schedule=auto or asap, several ranks and a memory-cap; expected all or none
// PHASE: fsdp-offload-activations takes a module of phase sharded, got planned

//--- sharded.mlir
module attributes {fsdp.model = "views", fsdp.phase = #fsdp.module_phase<sharded>, fsdp.provenance = "dcebdfb5f2d08cf985d26889b41ca327"} {
  fsdp.param @l.0.w : tensor<16x16xf32>
  fsdp.param @l.1.w : tensor<16x16xf32>
  fsdp.param @l.2.w : tensor<16x16xf32>
  fsdp.optimizer sgd lr = 1.000000e-01 weight_decay = 0.000000e+00 momentum = 0.000000e+00
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l.0 [@l.0.w] of ["l.0"] over @mesh "dp" flat reshard_after_forward true offload_activations true
  fsdp.group @l.1 [@l.1.w] of ["l.1"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @l.2 [@l.2.w] of ["l.2"] over @mesh "dp" flat reshard_after_forward true offload_activations true
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<16x16xf32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %s = fsdp.shard @l.0 : !fsdp.shard<@l.0, f32>
    %s_0 = fsdp.shard @l.1 : !fsdp.shard<@l.1, f32>
    %s_1 = fsdp.shard @l.2 : !fsdp.shard<@l.2, f32>
    %u = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l.0, f32>
    %w = fsdp.all_gather.wait %u : tensor<16x16xf32>
    %mm = aten.call "mm.default"(%x, %w) fwd in "l.0" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %view = aten.call "view.default"(%mm, [256]) fwd in "l.0" : (tensor<16x16xf32>) -> tensor<256xf32>
    %relu = aten.call "relu.default"(%view) fwd in "l.0" : (tensor<256xf32>) -> tensor<256xf32>
    %sum = aten.call "sum.default"(%relu, none) fwd in "l.0" : (tensor<256xf32>) -> tensor<f32>
    %view_2 = aten.call "view.default"(%relu, [16, 16]) fwd in "l.0" : (tensor<256xf32>) -> tensor<16x16xf32>
    fsdp.reshard %u fwd
    %u_3 = fsdp.all_gather.start %s_0 over ["dp"] fwd on compute : !fsdp.shard<@l.1, f32>
    %w_4 = fsdp.all_gather.wait %u_3 : tensor<16x16xf32>
    %mm_5 = aten.call "mm.default"(%view_2, %w_4) fwd in "l.1" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    fsdp.reshard %u_3 fwd
    %u_6 = fsdp.all_gather.start %s_1 over ["dp"] fwd on compute : !fsdp.shard<@l.2, f32>
    %w_7 = fsdp.all_gather.wait %u_6 : tensor<16x16xf32>
    %mm_8 = aten.call "mm.default"(%mm_5, %w_7) fwd in "l.2" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    fsdp.reshard %u_6 fwd
    %sum_9 = aten.call "sum.default"(%mm_8, none) fwd in "" : (tensor<16x16xf32>) -> tensor<f32>
    %ones_like = aten.call "ones_like.default"(%mm_8, none, none, none, none, none) bwd in "" : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %u_10 = fsdp.all_gather.start %s_1 over ["dp"] bwd on compute : !fsdp.shard<@l.2, f32>
    %w_11 = fsdp.all_gather.wait %u_10 : tensor<16x16xf32>
    %mm_12 = aten.call "mm.default"(%mm_5, %ones_like) bwd in "l.2" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %mm_13 = aten.call "mm.default"(%ones_like, %w_11) bwd in "l.2" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    fsdp.reshard %u_10 bwd
    %r = fsdp.reduce_scatter.start @l.2(%mm_12) over ["dp"] avg bwd on compute : tensor<16x16xf32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l.2, f32>
    fsdp.update @l.2 with %d step %step lr %lr : !fsdp.shard<@l.2, f32>
    %u_14 = fsdp.all_gather.start %s_0 over ["dp"] bwd on compute : !fsdp.shard<@l.1, f32>
    %w_15 = fsdp.all_gather.wait %u_14 : tensor<16x16xf32>
    %mm_16 = aten.call "mm.default"(%view_2, %mm_13) bwd in "l.1" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %mm_17 = aten.call "mm.default"(%mm_13, %w_15) bwd in "l.1" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    fsdp.reshard %u_14 bwd
    %r_18 = fsdp.reduce_scatter.start @l.1(%mm_16) over ["dp"] avg bwd on compute : tensor<16x16xf32>
    %d_19 = fsdp.reduce_scatter.wait %r_18 : !fsdp.shard<@l.1, f32>
    fsdp.update @l.1 with %d_19 step %step lr %lr : !fsdp.shard<@l.1, f32>
    %u_20 = fsdp.all_gather.start %s over ["dp"] bwd on compute : !fsdp.shard<@l.0, f32>
    %w_21 = fsdp.all_gather.wait %u_20 : tensor<16x16xf32>
    %view_22 = aten.call "view.default"(%mm_17, [256]) bwd in "l.0" : (tensor<16x16xf32>) -> tensor<256xf32>
    %mul = aten.call "mul.Tensor"(%view_22, %view) bwd in "l.0" : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %mul_23 = aten.call "mul.Tensor"(%mul, %sum) bwd in "l.0" : (tensor<256xf32>, tensor<f32>) -> tensor<256xf32>
    %view_24 = aten.call "view.default"(%mul_23, [16, 16]) bwd in "l.0" : (tensor<256xf32>) -> tensor<16x16xf32>
    %mul_25 = aten.call "mul.Tensor"(%view_24, %mm) bwd in "l.0" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %mm_26 = aten.call "mm.default"(%x, %mul_25) bwd in "l.0" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    fsdp.reshard %u_20 bwd
    %r_27 = fsdp.reduce_scatter.start @l.0(%mm_26) over ["dp"] avg bwd on compute : tensor<16x16xf32>
    %d_28 = fsdp.reduce_scatter.wait %r_27 : !fsdp.shard<@l.0, f32>
    fsdp.update @l.0 with %d_28 step %step lr %lr : !fsdp.shard<@l.0, f32>
    return %sum_9 : tensor<f32>
  }
}

//--- blocks.mlir
// EXAMPLE: fsdp-offload-activations
module attributes {fsdp.model = "blocks", fsdp.phase = #fsdp.module_phase<sharded>, fsdp.provenance = "2e86894533c71e8ca91a051f6dfaf75f"} {
  fsdp.param @l.0.w : tensor<16x16xf32>
  fsdp.param @l.1.w : tensor<16x16xf32>
  fsdp.optimizer sgd lr = 1.000000e-01 weight_decay = 0.000000e+00 momentum = 0.000000e+00
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @l.0 [@l.0.w] of ["l.0"] over @mesh "dp" flat reshard_after_forward true offload_activations true
  fsdp.group @l.1 [@l.1.w] of ["l.1"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<16x16xf32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %l.0.w = fsdp.read @l.0.w : tensor<16x16xf32>
    %mm = aten.call "mm.default"(%x, %l.0.w) fwd in "l.0" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %tanh = aten.call "tanh.default"(%mm) fwd in "l.0" : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %l.1.w = fsdp.read @l.1.w : tensor<16x16xf32>
    %add = aten.call "add.Tensor"(%tanh, %l.1.w, 1) fwd in "l.1" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %sum = aten.call "sum.default"(%add, none) fwd in "" : (tensor<16x16xf32>) -> tensor<f32>
    %ones_like = aten.call "ones_like.default"(%add, none, none, none, none, none) bwd in "" : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %neg = aten.call "neg.default"(%ones_like) bwd in "l.1" : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %d = fsdp.pack @l.1(%neg) : (tensor<16x16xf32>) -> !fsdp.shard<@l.1, f32>
    fsdp.update @l.1 with %d step %step lr %lr : !fsdp.shard<@l.1, f32>
    %tanh_backward = aten.call "tanh_backward.default"(%ones_like, %tanh) bwd in "l.0" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %mm_0 = aten.call "mm.default"(%x, %tanh_backward) bwd in "l.0" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %d_1 = fsdp.pack @l.0(%mm_0) : (tensor<16x16xf32>) -> !fsdp.shard<@l.0, f32>
    fsdp.update @l.0 with %d_1 step %step lr %lr : !fsdp.shard<@l.0, f32>
    return %sum : tensor<f32>
  }
}

