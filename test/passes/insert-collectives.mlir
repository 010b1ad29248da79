// RUN: fsdp-opt %s --split-input-file --fsdp-insert-collectives --fsdp-verify-sharded | FileCheck %s
// RUN: fsdp-opt %s --split-input-file --fsdp-insert-collectives --remarks-filter-analyse=fsdp-insert-collectives --remark-policy=all 2>&1 -o /dev/null | FileCheck %s --check-prefix=REMARK
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-group-parameters=mesh=dp=2 --fsdp-insert-collectives -o %t.usual.mlir
// RUN: sed -e '/fsdp\.grad/{H;d}' -e '/fsdp\.update @layers.0.up.weight/{x;p;x}' %S/../Inputs/mlp.mlir > %t.late.mlir
// RUN: fsdp-opt %t.late.mlir --fsdp-group-parameters=mesh=dp=2 --fsdp-insert-collectives -o %t.same.mlir
// RUN: cmp %t.usual.mlir %t.same.mlir

// Gradients that the text names last, behind the backward, are reduced where they are made (%t.late.mlir).

// A group is gathered before the first operation of its modules and resharded after the last one;
// if it is resharded, it is gathered again for the backward, and the view that the capture borrowed
// from the forward is made again. The root is kept (none); reductions follow reshards.
// CHECK-LABEL: fsdp.model = "resharded"
// CHECK-SAME: fsdp.phase = #fsdp.module_phase<sharded>
// CHECK: %[[STEP:.+]] = fsdp.input "step"
// CHECK: %[[LR:.+]] = fsdp.input "lr"
// CHECK: %[[S_L:.+]] = fsdp.shard @l :
// CHECK: %[[S_ROOT:.+]] = fsdp.shard @root :
// CHECK: %[[ROOT:.+]] = fsdp.all_gather.start %[[S_ROOT]] over ["dp"] fwd on compute
// CHECK-NEXT: %[[E:.+]] = fsdp.all_gather.wait %[[ROOT]]
// CHECK-NEXT: %[[H:.+]] = aten.call "mm.default"(%{{.+}}, %[[E]]) fwd in "e"
// CHECK-NEXT: %[[FWD:.+]] = fsdp.all_gather.start %[[S_L]] over ["dp"] fwd on compute
// CHECK-NEXT: %[[W:.+]] = fsdp.all_gather.wait %[[FWD]]
// CHECK-NEXT: %[[T:.+]] = aten.call "t.default"(%[[W]]) fwd in "l"
// CHECK-NEXT: %[[Y:.+]] = aten.call "mm.default"(%[[H]], %[[T]]) fwd in "l"
// CHECK-NEXT: fsdp.reshard %[[FWD]] fwd
// CHECK-NEXT: aten.call "sum.default"(%[[Y]]
// CHECK-NEXT: aten.call "ones_like.default"
// CHECK-NEXT: %[[BWD:.+]] = fsdp.all_gather.start %[[S_L]] over ["dp"] bwd on compute
// CHECK-NEXT: %[[W2:.+]] = fsdp.all_gather.wait %[[BWD]]
// CHECK-NEXT: %[[DW:.+]] = aten.call "outer.default"(%[[H]], %{{.+}}) bwd in "l"
// CHECK-NEXT: %[[T2:.+]] = aten.call "t.default"(%[[W2]]) bwd in "l"
// CHECK-NEXT: %[[DH:.+]] = aten.call "mm.default"(%{{.+}}, %[[T2]]) bwd in "l"
// CHECK-NEXT: fsdp.reshard %[[BWD]] bwd
// CHECK-NEXT: %[[R:.+]] = fsdp.reduce_scatter.start @l(%[[DW]]) over ["dp"] avg bwd on compute
// CHECK-NEXT: %[[D:.+]] = fsdp.reduce_scatter.wait %[[R]]
// CHECK-NEXT: fsdp.update @l with %[[D]] step %[[STEP]] lr %[[LR]]
// CHECK-NEXT: %[[DE:.+]] = aten.call "outer.default"(%{{.+}}, %[[DH]]) bwd in "e"
// CHECK-NEXT: fsdp.reshard %[[ROOT]] bwd
// CHECK-NEXT: %[[R2:.+]] = fsdp.reduce_scatter.start @root(%[[DE]])
// CHECK-NEXT: %[[D2:.+]] = fsdp.reduce_scatter.wait %[[R2]]
// CHECK-NEXT: fsdp.update @root with %[[D2]] step %[[STEP]] lr %[[LR]]
// CHECK-NEXT: return
// REMARK: AllGathers=3, AllReduces=0, ReduceScatters=2, Reshards=3, ViewsRecomputed=1
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "resharded", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward none
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %e = fsdp.read @e.w : !m
    %h = aten.call "mm.default"(%x, %e) fwd in "e" : (!m, !m) -> !m
    %w = fsdp.read @l.w : !m
    %t = aten.call "t.default"(%w) fwd in "l" : (!m) -> !m
    %y = aten.call "mm.default"(%h, %t) fwd in "l" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %dw = aten.call "outer.default"(%h, %g) bwd in "l" : (!m, !s) -> !m
    fsdp.grad @l.w, %dw : !m
    %dh = aten.call "mm.default"(%g, %t) bwd in "l" : (!s, !m) -> !m
    %de = aten.call "outer.default"(%x, %dh) bwd in "e" : (!m, !m) -> !m
    fsdp.grad @e.w, %de : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    fsdp.update @e.w step %step lr %lr
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// A group that is not resharded is gathered once; the backward uses the forward's view.
// EXAMPLE: fsdp-insert-collectives
// CHECK-LABEL: fsdp.model = "kept"
// CHECK: %[[S:.+]] = fsdp.shard @l :
// CHECK: %[[U:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] fwd
// CHECK: %[[T:.+]] = aten.call "t.default"
// CHECK: aten.call "mm.default"(%{{.+}}, %[[T]]) bwd in "l"
// CHECK-NEXT: fsdp.reshard %[[U]] bwd
// CHECK-NOT: all_gather
// REMARK: AllGathers=1, AllReduces=0, ReduceScatters=1, Reshards=1, ViewsRecomputed=0
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "kept", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @l.w : !m
    %t = aten.call "t.default"(%w) fwd in "l" : (!m) -> !m
    %loss = aten.call "sum.default"(%t, none) fwd in "l" : (!m) -> !s
    %dw = aten.call "mm.default"(%x, %t) bwd in "l" : (!m, !m) -> !m
    fsdp.grad @l.w, %dw : !m
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// reshard_after_forward true holds for the root as well.
// CHECK-LABEL: fsdp.model = "resharded_root"
// CHECK: %[[S:.+]] = fsdp.shard @root :
// CHECK: %[[U:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] fwd
// CHECK: fsdp.reshard %[[U]] fwd
// CHECK: %[[U2:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] bwd
// CHECK: fsdp.reshard %[[U2]] bwd
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "resharded_root", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (!m) -> !s
    %dw = aten.call "mul.Tensor"(%w, %loss) bwd in "" : (!m, !s) -> !m
    fsdp.grad @w, %dw : !m
    fsdp.update @w step %step lr %lr
    return %loss : !s
  }
}

// -----

// On one rank there are no collectives: parameters are read, gradients are packed, and each group is
// updated with them at its post-backward.
// CHECK-LABEL: fsdp.model = "one_rank"
// CHECK-NOT: all_gather
// CHECK-NOT: reduce_scatter
// CHECK: %[[W:.+]] = fsdp.read @l.w
// CHECK: aten.call "mm.default"(%{{.+}}, %[[W]]) fwd in "l"
// CHECK: %[[DW:.+]] = aten.call "outer.default"{{.*}} bwd in "l"
// CHECK-NEXT: %[[D:.+]] = fsdp.pack @l(%[[DW]])
// CHECK-NEXT: fsdp.update @l with %[[D]] step
// CHECK-NEXT: %[[DE:.+]] = aten.call "outer.default"{{.*}} bwd in "e"
// CHECK-NEXT: %[[D2:.+]] = fsdp.pack @root(%[[DE]])
// CHECK-NEXT: fsdp.update @root with %[[D2]] step
// CHECK-NEXT: return
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "one_rank", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward none
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %e = fsdp.read @e.w : !m
    %h = aten.call "mm.default"(%x, %e) fwd in "e" : (!m, !m) -> !m
    %w = fsdp.read @l.w : !m
    %y = aten.call "mm.default"(%h, %w) fwd in "l" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!m) -> !s
    %dw = aten.call "outer.default"(%h, %loss) bwd in "l" : (!m, !s) -> !m
    fsdp.grad @l.w, %dw : !m
    %de = aten.call "outer.default"(%x, %dw) bwd in "e" : (!m, !m) -> !m
    fsdp.grad @e.w, %de : !m
    fsdp.update @e.w step %step lr %lr
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// A block whose inputs need no gradient has its post-backward at the end of the step, after the
// root's.
// CHECK-LABEL: fsdp.model = "no_input_gradient"
// CHECK: aten.call "mul.Tensor"({{.*}}) bwd in "l"
// CHECK-NEXT: fsdp.reshard %{{.+}} bwd
// CHECK-NEXT: %[[ROOT:.+]] = fsdp.reduce_scatter.start @root
// CHECK-NEXT: %[[D:.+]] = fsdp.reduce_scatter.wait %[[ROOT]]
// CHECK-NEXT: fsdp.update @root with %[[D]]
// CHECK-NEXT: fsdp.reshard %{{.+}} bwd
// CHECK-NEXT: fsdp.reduce_scatter.start @l(
// CHECK: return
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "no_input_gradient", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @l.w : !m
  fsdp.param @head.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  fsdp.group @root [@head.w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @l.w : !m
    %y = aten.call "mm.default"(%x, %w) fwd in "l" : (!m, !m) -> !m
    %head = fsdp.read @head.w : !m
    %loss = aten.call "dot.default"(%y, %head) fwd in "head" : (!m, !m) -> !s
    %dhead = aten.call "mul.Tensor"(%y, %loss) bwd in "head" : (!m, !s) -> !m
    fsdp.grad @head.w, %dhead : !m
    %dw = aten.call "mul.Tensor"(%x, %head) bwd in "l" : (!m, !m) -> !m
    fsdp.grad @l.w, %dw : !m
    fsdp.update @l.w step %step lr %lr
    fsdp.update @head.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// A tensor that is detached before it enters the block needs no gradient either.
// CHECK-LABEL: fsdp.model = "detached"
// CHECK: fsdp.reduce_scatter.start @root
// CHECK: fsdp.reduce_scatter.start @l(
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "detached", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %e = fsdp.read @e.w : !m
    %h = aten.call "mm.default"(%x, %e) fwd in "e" : (!m, !m) -> !m
    %d = aten.call "detach.default"(%h) fwd in "" : (!m) -> !m
    %w = fsdp.read @l.w : !m
    %y = aten.call "mm.default"(%d, %w) fwd in "l" : (!m, !m) -> !m
    %loss = aten.call "dot.default"(%y, %h) fwd in "" : (!m, !m) -> !s
    %dw = aten.call "mul.Tensor"(%x, %y) bwd in "l" : (!m, !m) -> !m
    fsdp.grad @l.w, %dw : !m
    %de = aten.call "mul.Tensor"(%y, %loss) bwd in "e" : (!m, !s) -> !m
    fsdp.grad @e.w, %de : !m
    fsdp.update @e.w step %step lr %lr
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// A group of several modules is gathered when the first of them begins, and resharded when all have
// run.
// CHECK-LABEL: fsdp.model = "together"
// CHECK: %[[S:.+]] = fsdp.shard @"norm, head" :
// CHECK: %[[U:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] fwd
// CHECK-NEXT: fsdp.all_gather.wait %[[U]]
// CHECK-NEXT: aten.call "mul.Tensor"({{.*}}) fwd in "norm"
// CHECK-NEXT: aten.call "relu.default"({{.*}}) fwd in ""
// CHECK-NEXT: aten.call "mm.default"({{.*}}) fwd in "head"
// CHECK-NEXT: fsdp.reshard %[[U]] fwd
// CHECK: fsdp.all_gather.start %[[S]] over ["dp"] bwd
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "together", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @norm.w : !m
  fsdp.param @head.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @"norm, head" [@norm.w, @head.w] of ["norm", "head"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %x2 = aten.call "relu.default"(%x) fwd in "" : (!m) -> !m
    %n = fsdp.read @norm.w : !m
    %y = aten.call "mul.Tensor"(%x2, %n) fwd in "norm" : (!m, !m) -> !m
    %r = aten.call "relu.default"(%y) fwd in "" : (!m) -> !m
    %h = fsdp.read @head.w : !m
    %z = aten.call "mm.default"(%r, %h) fwd in "head" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!m) -> !s
    %dh = aten.call "mul.Tensor"(%r, %loss) bwd in "head" : (!m, !s) -> !m
    fsdp.grad @head.w, %dh : !m
    %dn = aten.call "mul.Tensor"(%x2, %h) bwd in "norm" : (!m, !m) -> !m
    fsdp.grad @norm.w, %dn : !m
    fsdp.update @norm.w step %step lr %lr
    fsdp.update @head.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// A module that runs twice is gathered for each run; its gradients are reduced once, when both of
// its backwards are done.
// CHECK-LABEL: fsdp.model = "twice"
// CHECK: %[[S:.+]] = fsdp.shard @l :
// CHECK: %[[A:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] fwd
// CHECK: fsdp.reshard %[[A]] fwd
// CHECK: %[[B:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] fwd
// CHECK: fsdp.reshard %[[B]] fwd
// CHECK: %[[C:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] bwd
// CHECK: fsdp.reshard %[[C]] bwd
// CHECK-NOT: reduce_scatter
// CHECK: %[[D:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] bwd
// CHECK: fsdp.reshard %[[D]] bwd
// CHECK-NEXT: fsdp.reduce_scatter.start @l(
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "twice", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %e = fsdp.read @e.w : !m
    %h = aten.call "mm.default"(%x, %e) fwd in "e" : (!m, !m) -> !m
    %w = fsdp.read @l.w : !m
    %t = aten.call "t.default"(%w) fwd in "l" : (!m) -> !m
    %y = aten.call "mm.default"(%h, %t) fwd in "l" : (!m, !m) -> !m
    %r = aten.call "relu.default"(%y) fwd in "" : (!m) -> !m
    %z = aten.call "mm.default"(%r, %t) fwd in "l" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %d1 = aten.call "mul.Tensor"(%t, %g) bwd in "l" : (!m, !s) -> !m
    %dr = aten.call "threshold_backward.default"(%d1, %r, 0) bwd in "" : (!m, !m) -> !m
    %d2 = aten.call "mul.Tensor"(%t, %dr) bwd in "l" : (!m, !m) -> !m
    fsdp.grad @l.w, %d2 : !m
    %de = aten.call "mul.Tensor"(%d2, %x) bwd in "e" : (!m, !m) -> !m
    fsdp.grad @e.w, %de : !m
    fsdp.update @e.w step %step lr %lr
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// Of nested groups the outer one is gathered first and resharded last. If they return the same tensor,
// its gradient reaches the inner one first.
// CHECK-LABEL: fsdp.model = "nested"
// CHECK: %[[S_B_L:.+]] = fsdp.shard @b.l :
// CHECK: %[[S_B:.+]] = fsdp.shard @b :
// CHECK: %[[OUTER:.+]] = fsdp.all_gather.start %[[S_B]] over ["dp"] fwd
// CHECK: %[[INNER:.+]] = fsdp.all_gather.start %[[S_B_L]] over ["dp"] fwd
// CHECK: fsdp.reshard %[[INNER]] fwd
// CHECK-NEXT: fsdp.reshard %[[OUTER]] fwd
// CHECK: %[[INNER2:.+]] = fsdp.all_gather.start %[[S_B_L]] over ["dp"] bwd
// CHECK: %[[OUTER2:.+]] = fsdp.all_gather.start %[[S_B]] over ["dp"] bwd
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "nested", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @b.w : !m
  fsdp.param @b.l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @b.l [@b.l.w] of ["b.l"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @b.w : !m
    %y = aten.call "mm.default"(%x, %w) fwd in "b" : (!m, !m) -> !m
    %l = fsdp.read @b.l.w : !m
    %z = aten.call "mm.default"(%y, %l) fwd in "b.l" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %dl = aten.call "mul.Tensor"(%y, %g) bwd in "b.l" : (!m, !s) -> !m
    fsdp.grad @b.l.w, %dl : !m
    %dw = aten.call "mul.Tensor"(%x, %l) bwd in "b.l" : (!m, !m) -> !m
    fsdp.grad @b.w, %dw : !m
    fsdp.update @b.w step %step lr %lr
    fsdp.update @b.l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// The root returns what its last block returns, the loss: the block's backward begins first, once the
// seed is made.
// CHECK-LABEL: fsdp.model = "loss_in_block"
// CHECK: %[[S_LOSS:.+]] = fsdp.shard @loss :
// CHECK: %[[S_ROOT:.+]] = fsdp.shard @root :
// CHECK: aten.call "ones_like.default"
// CHECK-NEXT: fsdp.all_gather.start %[[S_LOSS]] over ["dp"] bwd
// CHECK-NEXT: fsdp.all_gather.wait
// CHECK-NEXT: fsdp.all_gather.start %[[S_ROOT]] over ["dp"] bwd
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "loss_in_block", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @e.w : !m
  fsdp.param @loss.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @loss [@loss.w] of ["loss"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %e = fsdp.read @e.w : !m
    %h = aten.call "mm.default"(%x, %e) fwd in "e" : (!m, !m) -> !m
    %w = fsdp.read @loss.w : !m
    %loss = aten.call "dot.default"(%h, %w) fwd in "loss" : (!m, !m) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %dw = aten.call "mul.Tensor"(%h, %g) bwd in "loss" : (!m, !s) -> !m
    fsdp.grad @loss.w, %dw : !m
    %de = aten.call "mul.Tensor"(%x, %g) bwd in "e" : (!m, !s) -> !m
    fsdp.grad @e.w, %de : !m
    fsdp.update @e.w step %step lr %lr
    fsdp.update @loss.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// A group of two modules, one of which is called a second time: as in FSDP2 that call has no end. The
// group stays gathered after it, and its backward, which comes first, begins without a gather.
// CHECK-LABEL: fsdp.model = "called again"
// CHECK: %[[S:.+]] = fsdp.shard @l :
// CHECK: %[[FIRST:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] fwd
// CHECK: "mm.default"{{.*}} fwd in "a"
// CHECK: "mm.default"{{.*}} fwd in "b"
// CHECK-NEXT: fsdp.reshard %[[FIRST]] fwd
// CHECK-NEXT: %[[SECOND:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] fwd
// CHECK: "mm.default"{{.*}} fwd in "b@1"
// CHECK-NEXT: "sum.default"
// CHECK-NEXT: "ones_like.default"
// CHECK-NEXT: "mm.default"{{.*}} bwd in "b@1"
// CHECK-NEXT: "mm.default"{{.*}} bwd in "b@1"
// CHECK-NEXT: fsdp.reshard %[[SECOND]] bwd
// CHECK-NEXT: %[[THIRD:.+]] = fsdp.all_gather.start %[[S]] over ["dp"] bwd
// CHECK: "mm.default"{{.*}} bwd in "b"
// CHECK: fsdp.reshard %[[THIRD]] bwd
// CHECK-NEXT: fsdp.reduce_scatter.start @l
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "called again", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a.w : !m
  fsdp.param @b.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@a.w, @b.w] of ["a", "b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %a = fsdp.read @a.w : !m
    %h = aten.call "mm.default"(%x, %a) fwd in "a" : (!m, !m) -> !m
    %b = fsdp.read @b.w : !m
    %y = aten.call "mm.default"(%h, %b) fwd in "b" : (!m, !m) -> !m
    %z = aten.call "mm.default"(%y, %b) fwd in "b@1" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!m) -> !s
    %g = aten.call "ones_like.default"(%z, none, none, none, none, none) bwd in "" : (!m) -> !m
    %db1 = aten.call "mm.default"(%y, %g) bwd in "b@1" : (!m, !m) -> !m
    %dy = aten.call "mm.default"(%g, %b) bwd in "b@1" : (!m, !m) -> !m
    %db0 = aten.call "mm.default"(%h, %dy) bwd in "b" : (!m, !m) -> !m
    %dh = aten.call "mm.default"(%dy, %b) bwd in "b" : (!m, !m) -> !m
    %db = aten.call "add.Tensor"(%db0, %db1, 1) bwd in "b" : (!m, !m) -> !m
    fsdp.grad @b.w, %db : !m
    %da = aten.call "mm.default"(%x, %dh) bwd in "a" : (!m, !m) -> !m
    fsdp.grad @a.w, %da : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// On a mesh of one rank, operators read the parameters in the shard. In the per-param layout @w begins behind the
// 20 bytes of @b: products read a copy of it, a cast reads the parameter itself.
// CHECK-LABEL: fsdp.model = "unaligned"
// CHECK: %[[B:.+]] = fsdp.read @b
// CHECK: %[[W:.+]] = fsdp.read @w
// CHECK: %[[COPY:.+]] = aten.call "clone.default"(%[[W]], #aten.memory_format<contiguous>) fwd in "l"
// CHECK-NEXT: %[[T:.+]] = aten.call "t.default"(%[[COPY]]) fwd in "l"
// CHECK-NEXT: aten.call "addmm.default"(%[[B]], %{{.+}}, %[[T]],
// CHECK-NEXT: aten.call "_to_copy.default"(%[[W]], bf16,
// CHECK: aten.call "mm.default"(%{{.+}}, %[[COPY]]) bwd in "l"
// REMARK: AllGathers=0
!r = tensor<1x5xf32>
!w = tensor<5x5xf32>
module attributes {fsdp.model = "unaligned", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @b : tensor<5xf32>
  fsdp.param @w : !w
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @root [@b, @w] of [""] over @mesh "dp" per_param reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : !r
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %b = fsdp.read @b : tensor<5xf32>
    %w = fsdp.read @w : !w
    %t = aten.call "t.default"(%w) fwd in "l" : (!w) -> tensor<5x5xf32, #aten.strides<[1, 5]>>
    %y = aten.call "addmm.default"(%b, %x, %t, 1, 1) fwd in "l" : (tensor<5xf32>, !r, tensor<5x5xf32, #aten.strides<[1, 5]>>) -> !r
    %c = aten.call "_to_copy.default"(%w, bf16, none, none, none, false, none) fwd in "l" : (!w) -> tensor<5x5xbf16>
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!r) -> tensor<f32>
    %gb = aten.call "mm.default"(%y, %w) bwd in "l" : (!r, !w) -> !r
    %gs = aten.call "squeeze.dim"(%gb, 0) bwd in "l" : (!r) -> tensor<5xf32>
    fsdp.grad @b, %gs : tensor<5xf32>
    %gw = aten.call "neg.default"(%w) bwd in "l" : (!w) -> !w
    fsdp.grad @w, %gw : !w
    fsdp.update @b step %step lr %lr
    fsdp.update @w step %step lr %lr
    return %loss : tensor<f32>
  }
}
