// RUN: fsdp-opt %s --split-input-file --fsdp-accumulate-gradients --fsdp-verify-captured | FileCheck %s
// RUN: fsdp-opt %s --split-input-file --fsdp-accumulate-gradients --fsdp-insert-collectives --fsdp-verify-sharded | FileCheck %s --check-prefix=SHARDED
// RUN: fsdp-opt %s --split-input-file --fsdp-accumulate-gradients --fsdp-insert-collectives --fsdp-schedule --fsdp-assign-streams --fsdp-verify-scheduled --fsdp-plan-memory --fsdp-verify-planned -o /dev/null

// The step is repeated on inputs of its own; each loss is divided by the number of microbatches, and
// their sum is returned. The update stays one.
// EXAMPLE: fsdp-accumulate-gradients
// CHECK-LABEL: fsdp.accumulation = #fsdp.accumulation<2, loss = mean>
// CHECK: %[[X:.+]] = fsdp.input "x" : tensor<4xf32>
// CHECK: %[[W:.+]] = fsdp.read @l.w
// CHECK: %[[Y:.+]] = aten.call "mul.Tensor"(%[[X]], %[[W]]) fwd in "l"
// CHECK-NEXT: %[[LOSS:.+]] = aten.call "sum.default"(%[[Y]], none) fwd in ""
// CHECK-NEXT: %[[MEAN:.+]] = aten.call "div.Tensor"(%[[LOSS]], 2) fwd in ""
// CHECK-NEXT: %[[SEED:.+]] = aten.call "ones_like.default"(%[[MEAN]]
// CHECK-NEXT: %[[G:.+]] = aten.call "div.Tensor"(%[[SEED]], 2) bwd in ""
// CHECK-NEXT: %[[D:.+]] = aten.call "mul.Tensor"(%[[G]], %[[X]]) bwd in "l"
// CHECK-NEXT: fsdp.grad @l.w, %[[D]] : tensor<4xf32>
// CHECK-NEXT: %[[X1:.+]] = fsdp.input "x" microbatch 1 : tensor<4xf32>
// CHECK-NEXT: %[[Y1:.+]] = aten.call "mul.Tensor"(%[[X1]], %[[W]]) fwd in "l" microbatch 1
// CHECK-NEXT: %[[LOSS1:.+]] = aten.call "sum.default"(%[[Y1]], none) fwd in "" microbatch 1
// CHECK-NEXT: %[[MEAN1:.+]] = aten.call "div.Tensor"(%[[LOSS1]], 2) fwd in "" microbatch 1
// CHECK-NEXT: %[[TOTAL:.+]] = aten.call "add.Tensor"(%[[MEAN]], %[[MEAN1]], 1) fwd in "" microbatch 1
// CHECK: fsdp.grad @l.w, %{{.+}} microbatch 1 : tensor<4xf32>
// CHECK-NEXT: fsdp.update @l.w
// CHECK-NEXT: return %[[TOTAL]]

// Each microbatch is reduced, and the shards are added up.
// SHARDED-LABEL: fsdp.accumulation = #fsdp.accumulation<2, loss = mean>
// SHARDED: fsdp.all_gather.start {{.*}} fwd
// SHARDED: fsdp.reshard {{.*}} bwd
// SHARDED: fsdp.reduce_scatter.start @l(
// SHARDED-NEXT: %[[D0:.+]] = fsdp.reduce_scatter.wait
// SHARDED-NEXT: fsdp.all_gather.start {{.*}} fwd
// SHARDED: fsdp.reduce_scatter.start @l(
// SHARDED-NEXT: %[[D1:.+]] = fsdp.reduce_scatter.wait
// SHARDED-NEXT: %[[E:.+]] = fsdp.accumulate %[[D0]], %[[D1]] : !fsdp.shard<@l, f32>, !fsdp.shard<@l, f32>
// SHARDED-NEXT: fsdp.update @l with %[[E]]
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = mean>} {
  fsdp.param @l.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @l.w : !v
    %y = aten.call "mul.Tensor"(%x, %w) fwd in "l" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %d = aten.call "mul.Tensor"(%g, %x) bwd in "l" : (!s, !v) -> !v
    fsdp.grad @l.w, %d : !v
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// gradient_sync last: whole gradients are added up, in the bytes of the first, and reduced once.
// Parameters stay gathered between the microbatches. Buffers and random numbers go on.
// CHECK-LABEL: fsdp.accumulation = #fsdp.accumulation<3, loss = sum>
// CHECK-NOT: div.Tensor
// CHECK: %[[COUNT:.+]] = fsdp.read @count
// CHECK: aten.call "bernoulli.p"({{.*}}) fwd in "l" rng 0
// CHECK: %[[NEXT:.+]] = aten.call "add.Tensor"(%[[COUNT]], 1, 1) fwd in "l"
// CHECK-NOT: fsdp.write
// CHECK: aten.call "bernoulli.p"({{.*}}) fwd in "l" microbatch 1 rng 1
// CHECK: %[[NEXT1:.+]] = aten.call "add.Tensor"(%[[NEXT]], 1, 1) fwd in "l" microbatch 1
// CHECK-NOT: fsdp.write
// CHECK: aten.call "bernoulli.p"({{.*}}) fwd in "l" microbatch 2 rng 2
// CHECK: %[[NEXT2:.+]] = aten.call "add.Tensor"(%[[NEXT1]], 1, 1) fwd in "l" microbatch 2
// CHECK: fsdp.write @count, %[[NEXT2]]

// SHARDED-LABEL: fsdp.accumulation = #fsdp.accumulation<3, loss = sum>
// SHARDED-COUNT-1: fsdp.all_gather.start
// SHARDED: %[[D:.+]] = aten.call "mul.Tensor"({{.*}}) bwd in "l"
// SHARDED: %[[D1:.+]] = aten.call "mul.Tensor"({{.*}}) bwd in "l" microbatch 1
// SHARDED-NEXT: %[[E1:.+]] = fsdp.accumulate %[[D]], %[[D1]] : tensor<4xf32>, tensor<4xf32>
// SHARDED: %[[D2:.+]] = aten.call "mul.Tensor"({{.*}}) bwd in "l" microbatch 2
// SHARDED-NEXT: fsdp.reshard
// SHARDED-NEXT: %[[E2:.+]] = fsdp.accumulate %[[E1]], %[[D2]]
// SHARDED-NEXT: fsdp.reduce_scatter.start @l(%[[E2]])
// SHARDED-NOT: fsdp.reduce_scatter.start
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.accumulation = #fsdp.accumulation<3, loss = sum>} {
  fsdp.param @l.w : !v
  fsdp.buffer @count : !s
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
      gradient_sync last reshard_after_backward false
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @l.w : !v
    %c = fsdp.read @count : !s
    %b = aten.call "bernoulli.p"(%x, 0.5, none) fwd in "l" rng 0 : (!v) -> !v
    %n = aten.call "add.Tensor"(%c, 1, 1) fwd in "l" : (!s) -> !s
    fsdp.write @count, %n : !s
    %y = aten.call "mul.Tensor"(%b, %w) fwd in "l" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %d = aten.call "mul.Tensor"(%g, %b) bwd in "l" : (!s, !v) -> !v
    fsdp.grad @l.w, %d : !v
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// On replicas, reduce_scatter leaves the all-reduce to the last microbatch. A gradient that is a view
// is copied before others are added to it. Sums of bf16 reductions are kept in the parameters' f32.
// SHARDED-LABEL: fsdp.model = "replicas"
// SHARDED: %[[R:.+]] = fsdp.reduce_scatter.start @m(
// SHARDED-NEXT: fsdp.reduce_scatter.wait %[[R]]
// SHARDED-NEXT: %[[A:.+]] = fsdp.all_reduce.start %[[R]]
// SHARDED-NEXT: %[[M0:.+]] = fsdp.all_reduce.wait %[[A]]
// SHARDED-NEXT: %[[C0:.+]] = fsdp.cast %[[M0]] : !fsdp.shard<@m, bf16> to !fsdp.shard<@m, f32>
// SHARDED: fsdp.reduce_scatter.start @l(
// SHARDED-NEXT: %[[P0:.+]] = fsdp.reduce_scatter.wait
// SHARDED-NOT: fsdp.all_reduce.start
// SHARDED: fsdp.reduce_scatter.start @m(
// SHARDED-NEXT: fsdp.reduce_scatter.wait
// SHARDED-NEXT: fsdp.all_reduce.start
// SHARDED-NEXT: %[[M1:.+]] = fsdp.all_reduce.wait
// SHARDED-NEXT: %[[E:.+]] = fsdp.accumulate %[[C0]], %[[M1]] : !fsdp.shard<@m, f32>, !fsdp.shard<@m, bf16>
// SHARDED-NEXT: fsdp.update @m with %[[E]]
// SHARDED: fsdp.reduce_scatter.start @l(
// SHARDED-NEXT: %[[P1:.+]] = fsdp.reduce_scatter.wait
// SHARDED-NEXT: %[[P:.+]] = fsdp.accumulate %[[P0]], %[[P1]]
// SHARDED-NEXT: %[[B:.+]] = fsdp.all_reduce.start %[[P]] over ["replicate"] avg bwd on compute : !fsdp.shard<@l, f32>
// SHARDED-NEXT: %[[F:.+]] = fsdp.all_reduce.wait %[[B]]
// SHARDED-NEXT: fsdp.update @l with %[[F]]
!v = tensor<4xf32>
!h = tensor<4xbf16>
!s = tensor<f32>
module attributes {fsdp.model = "replicas", fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @l.w : !v
  fsdp.param @m.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "shard" replicated "replicate" flat
      reshard_after_forward true gradient_sync reduce_scatter
  fsdp.group @m [@m.w] of ["m"] over @mesh "shard" replicated "replicate" flat
      reshard_after_forward true gather_dtype bf16 reduce_dtype bf16
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @l.w : !v
    %y = aten.call "mul.Tensor"(%x, %w) fwd in "l" : (!v, !v) -> !v
    %m = fsdp.read @m.w : !h
    %z = aten.call "mul.Tensor"(%y, %m) fwd in "m" : (!v, !h) -> !v
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %dm = aten.call "mul.Tensor"(%g, %y) bwd in "m" : (!s, !v) -> !v
    %dh = aten.call "_to_copy.default"(%dm, bf16, none, none, none, false, none) bwd in "m" : (!v) -> !h
    fsdp.grad @m.w, %dh : !h
    %dy = aten.call "mul.Tensor"(%g, %m) bwd in "m" : (!s, !h) -> !v
    %d = aten.call "mul.Tensor"(%dy, %x) bwd in "l" : (!v, !v) -> !v
    fsdp.grad @l.w, %d : !v
    fsdp.update @l.w step %step lr %lr
    fsdp.update @m.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// gradient_sync last: of a module that is called twice the gradients of earlier microbatches are reduced
// where the backward of the first of its calls ends that runs, those of the last one behind both.
// SHARDED-LABEL: fsdp.model = "called_again"
// SHARDED: %[[G0:.+]] = aten.call "add.Tensor"({{.*}}) bwd in "l" :
// SHARDED-NOT: fsdp.reduce_scatter.start
// SHARDED: aten.call "mul.Tensor"({{.*}}) bwd in "l@1" microbatch 1
// SHARDED: aten.call "mul.Tensor"({{.*}}) bwd in "l@1" microbatch 1
// SHARDED-NEXT: fsdp.reshard
// SHARDED-NEXT: %[[R0:.+]] = fsdp.reduce_scatter.start @l(%[[G0]])
// SHARDED-NEXT: %[[D0:.+]] = fsdp.reduce_scatter.wait %[[R0]]
// SHARDED: %[[G1:.+]] = aten.call "add.Tensor"({{.*}}) bwd in "l" microbatch 1
// SHARDED: %[[R1:.+]] = fsdp.reduce_scatter.start @l(%[[G1]])
// SHARDED-NEXT: %[[D1:.+]] = fsdp.reduce_scatter.wait %[[R1]]
// SHARDED-NEXT: %[[D:.+]] = fsdp.accumulate %[[D0]], %[[D1]] : !fsdp.shard<@l, f32>, !fsdp.shard<@l, f32>
// SHARDED-NEXT: fsdp.update @l with %[[D]]
// SHARDED: fsdp.accumulate {{.*}} : tensor<4xf32>, tensor<4xf32>
// SHARDED-NEXT: fsdp.reduce_scatter.start @root(
// SHARDED-NOT: fsdp.reduce_scatter.start
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "called_again", fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @e.w : !v
  fsdp.param @l.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true gradient_sync last
  fsdp.group @root [@e.w] of [""] over @mesh "dp" flat reshard_after_forward none gradient_sync last
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %e = fsdp.read @e.w : !v
    %w = fsdp.read @l.w : !v
    %h = aten.call "mul.Tensor"(%x, %e) fwd in "e" : (!v, !v) -> !v
    %y0 = aten.call "mul.Tensor"(%h, %w) fwd in "l" : (!v, !v) -> !v
    %y1 = aten.call "mul.Tensor"(%y0, %w) fwd in "l@1" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%y1, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %d1 = aten.call "mul.Tensor"(%g, %y0) bwd in "l@1" : (!s, !v) -> !v
    %dy0 = aten.call "mul.Tensor"(%g, %w) bwd in "l@1" : (!s, !v) -> !v
    %d0 = aten.call "mul.Tensor"(%dy0, %h) bwd in "l" : (!v, !v) -> !v
    %dw = aten.call "add.Tensor"(%d1, %d0, 1) bwd in "l" : (!v, !v) -> !v
    fsdp.grad @l.w, %dw : !v
    %dh = aten.call "mul.Tensor"(%dy0, %w) bwd in "l" : (!v, !v) -> !v
    %de = aten.call "mul.Tensor"(%dh, %x) bwd in "e" : (!v, !v) -> !v
    fsdp.grad @e.w, %de : !v
    fsdp.update @e.w step %step lr %lr
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// gradient_sync last and a narrower reduce_dtype: the first gradient is rounded, the others are added as
// they are.
// SHARDED-LABEL: fsdp.model = "rounded"
// SHARDED: %[[G0:.+]] = aten.call "mul.Tensor"({{.*}}) bwd in "l" :
// SHARDED: %[[C0:.+]] = aten.call "_to_copy.default"(%[[G0]], bf16,
// SHARDED: %[[G1:.+]] = aten.call "mul.Tensor"({{.*}}) bwd in "l" microbatch 1
// SHARDED-NOT: _to_copy
// SHARDED: %[[E:.+]] = fsdp.accumulate %[[C0]], %[[G1]] : tensor<4xbf16>, tensor<4xf32>
// SHARDED-NEXT: fsdp.reduce_scatter.start @l(%[[E]])
!v = tensor<4xf32>
!h = tensor<4xbf16>
!s = tensor<f32>
module attributes {fsdp.model = "rounded", fsdp.accumulation = #fsdp.accumulation<2, loss = sum>} {
  fsdp.param @l.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
      reduce_dtype bf16 gradient_sync last
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @l.w : !v
    %y = aten.call "mul.Tensor"(%x, %w) fwd in "l" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %d = aten.call "mul.Tensor"(%g, %x) bwd in "l" : (!s, !v) -> !v
    %c = aten.call "_to_copy.default"(%d, bf16, none, none, none, false, none) bwd in "l" : (!v) -> !h
    fsdp.grad @l.w, %c : !h
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}
