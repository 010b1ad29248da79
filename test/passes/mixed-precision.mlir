// RUN: fsdp-opt %s -split-input-file --fsdp-mixed-precision | FileCheck %s
// RUN: fsdp-opt %s -split-input-file --fsdp-mixed-precision --remarks-filter=fsdp-mixed-precision --remark-policy=all -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fsdp-opt %s -split-input-file --fsdp-mixed-precision --fsdp-insert-collectives --fsdp-verify-sharded | FileCheck %s --check-prefix=SHARDED

// A group whose parameters are only cast to bf16 is gathered so: the casts go, in the backward, too.
// Its gradient is what it was. The root's is no cast and stays f32.
// EXAMPLE: fsdp-mixed-precision
// CHECK-LABEL: module @casts
// CHECK: fsdp.group @l [@l.w] {{.*}} reshard_after_forward true gather_dtype bf16 decisions [#fsdp.decision<gather_dtype, "all uses of its parameters are casts to bf16">]
// CHECK-NOT: gather_dtype
// CHECK: %[[W:.+]] = fsdp.read @l.w : tensor<4x4xbf16>
// CHECK: %[[T:.+]] = aten.call "t.default"(%[[W]]) fwd
// CHECK: aten.call "mm.default"(%{{.+}}, %[[T]]) fwd
// CHECK: aten.call "mm.default"(%{{.+}}, %[[W]]) bwd
// CHECK: %[[G:.+]] = aten.call "_to_copy.default"(%{{.+}}, f32,
// CHECK: fsdp.grad @l.w, %[[G]] : tensor<4x4xf32>
// REMARK: [Passed] {{.*}}group @l is gathered as bf16: all uses of its parameters are casts to bf16
// REMARK: CastsRemoved=2, GroupsNarrowed=1
// The shard that is gathered is a copy in bf16, the one of the gradients is f32. The backward computes
// with its second gather.
// SHARDED-LABEL: module @casts
// SHARDED: fsdp.shard @l : {{.*}}<@l, bf16>
// SHARDED-NEXT: fsdp.shard @root : {{.*}}<@root, f32>
// SHARDED: fsdp.all_gather.wait {{.*}} : tensor<4x4xbf16>
// SHARDED: %[[AGAIN:.+]] = fsdp.all_gather.wait {{.*}} : tensor<4x4xbf16>
// SHARDED-NEXT: aten.call "mm.default"(%{{.+}}, %[[AGAIN]]) bwd
// SHARDED: fsdp.reduce_scatter.start @l({{.*}}) over ["dp"] avg bwd on compute : tensor<4x4xf32>
// SHARDED-NEXT: fsdp.reduce_scatter.wait {{.*}}<@l, f32>
!m = tensor<4x4xf32>
!h = tensor<4x4xbf16>
!t = tensor<4x4xbf16, #aten.strides<[1, 4]>>
module @casts {
  fsdp.param @l.w : !m
  fsdp.param @r : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @root [@r] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !h
    %r = fsdp.read @r : !m
    %y = aten.call "mul.Tensor"(%x, %r) fwd in "" : (!h, !m) -> !h
    %w = fsdp.read @l.w : !m
    %c = aten.call "_to_copy.default"(%w, bf16, none, none, none, false, none) fwd in "l" : (!m) -> !h
    %t = aten.call "t.default"(%c) fwd in "l" : (!h) -> !t
    %mm = aten.call "mm.default"(%y, %t) fwd in "l" : (!h, !t) -> !h
    %loss = aten.call "sum.default"(%mm, f32) fwd in "" : (!h) -> tensor<f32>
    %b = aten.call "_to_copy.default"(%w, bf16, none, none, none, false, none) bwd in "l" : (!m) -> !h
    %gx = aten.call "mm.default"(%mm, %b) bwd in "l" : (!h, !h) -> !h
    %gh = aten.call "mm.default"(%gx, %y) bwd in "l" : (!h, !h) -> !h
    %g = aten.call "_to_copy.default"(%gh, f32, none, none, none, false, none) bwd in "l" : (!h) -> !m
    fsdp.grad @l.w, %g : !m
    %gr = aten.call "mul.Tensor"(%gx, %r) bwd in "" : (!h, !m) -> !m
    fsdp.grad @r, %gr : !m
    fsdp.update @l.w step %step lr %lr
    fsdp.update @r step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// With reduce_dtype the cast behind a gradient goes, and another gradient is cast.
// CHECK-LABEL: module @reduced
// CHECK: fsdp.group @root [@a, @b] {{.*}} reshard_after_forward none mixed_precision <reduce_dtype = bf16> reduce_dtype bf16 decisions [#fsdp.decision<gather_dtype, "parameter @b is used as f32 by 'mul.Tensor' in the root module">]
// CHECK: %[[A:.+]] = aten.call "neg.default"({{.*}}) bwd in "" : (tensor<4xbf16>) -> tensor<4xbf16>
// CHECK-NEXT: fsdp.grad @a, %[[A]] : tensor<4xbf16>
// CHECK: %[[B:.+]] = aten.call "_to_copy.default"(%{{.+}}, bf16, none, none, none, false, none) bwd in "" : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT: fsdp.grad @b, %[[B]] : tensor<4xbf16>
// A cast of one parameter does not narrow a group whose other one is used as it is.
// REMARK: [Missed] {{.*}}group @root is gathered as f32, not bf16: parameter @b is used as f32 by 'mul.Tensor' in the root module
// REMARK: CastsRemoved=1, GroupsNarrowed=0
// SHARDED-LABEL: module @reduced
// SHARDED: fsdp.all_gather.wait {{.*}} : tensor<4xf32>, tensor<4xf32>
// SHARDED: fsdp.reduce_scatter.start @root({{.*}}) over ["dp"] avg bwd on compute : tensor<4xbf16>, tensor<4xbf16>
// SHARDED-NEXT: fsdp.reduce_scatter.wait {{.*}}<@root, bf16>
!v = tensor<4xf32>
!h = tensor<4xbf16>
module @reduced {
  fsdp.param @a : !v
  fsdp.param @b : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@a, @b] of [""] over @mesh "dp" flat reshard_after_forward none mixed_precision <reduce_dtype = bf16>
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a = fsdp.read @a : !v
    %c = aten.call "_to_copy.default"(%a, bf16, none, none, none, false, none) fwd in "" : (!v) -> !h
    %b = fsdp.read @b : !v
    %y = aten.call "mul.Tensor"(%c, %b) fwd in "" : (!h, !v) -> !v
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!v) -> tensor<f32>
    %gh = aten.call "neg.default"(%c) bwd in "" : (!h) -> !h
    %ga = aten.call "_to_copy.default"(%gh, f32, none, none, none, false, none) bwd in "" : (!h) -> !v
    fsdp.grad @a, %ga : !v
    %gb = aten.call "neg.default"(%b) bwd in "" : (!v) -> !v
    fsdp.grad @b, %gb : !v
    fsdp.update @a step %step lr %lr
    fsdp.update @b step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// The model rounds this gradient itself. That cast stays apart from the one of the reduction, which sums of
// gradients leave out.
// CHECK-LABEL: module @rounded
// CHECK: %[[SUM:.+]] = aten.call "neg.default"({{.*}}) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[ROUNDED:.+]] = aten.call "_to_copy.default"(%[[SUM]], bf16, {{.*}}) bwd
// CHECK-NEXT: %[[WIDE:.+]] = aten.call "_to_copy.default"(%[[ROUNDED]], f32, {{.*}}) bwd
// CHECK-NEXT: %[[G:.+]] = aten.call "_to_copy.default"(%[[WIDE]], bf16, {{.*}}) bwd
// CHECK-NEXT: fsdp.grad @a, %[[G]] : tensor<4xbf16>
!v = tensor<4xf32>
!h = tensor<4xbf16>
module @rounded {
  fsdp.param @a : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = bf16, reduce_dtype = bf16>
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %a = fsdp.read @a : !v
    %c = aten.call "_to_copy.default"(%a, bf16, none, none, none, false, none) fwd in "" : (!v) -> !h
    %y = aten.call "mul.Tensor"(%x, %c) fwd in "" : (!v, !h) -> !v
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!v) -> tensor<f32>
    %gs = aten.call "neg.default"(%x) bwd in "" : (!v) -> !v
    %gh = aten.call "_to_copy.default"(%gs, bf16, none, none, none, false, none) bwd in "" : (!v) -> !h
    %ga = aten.call "_to_copy.default"(%gh, f32, none, none, none, false, none) bwd in "" : (!h) -> !v
    fsdp.grad @a, %ga : !v
    fsdp.update @a step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// Asked for their own dtype, parameters are gathered in that: nothing is left to decide.
// CHECK-LABEL: module @own
// CHECK: fsdp.group @root [@a] {{.*}} reshard_after_forward none mixed_precision <param_dtype = f32, reduce_dtype = f32>{{$}}
// CHECK: fsdp.read @a : tensor<4xf32>
// CHECK-NEXT: aten.call "_to_copy.default"
!v = tensor<4xf32>
!h = tensor<4xbf16>
module @own {
  fsdp.param @a : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = f32, reduce_dtype = f32>
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a = fsdp.read @a : !v
    %c = aten.call "_to_copy.default"(%a, bf16, none, none, none, false, none) fwd in "" : (!v) -> !h
    %loss = aten.call "sum.default"(%c, f32) fwd in "" : (!h) -> tensor<f32>
    %g = aten.call "_to_copy.default"(%c, f32, none, none, none, false, none) bwd in "" : (!h) -> !v
    fsdp.grad @a, %g : !v
    fsdp.update @a step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// What a rank holds whole is not gathered, but cast where it is used; gradients are rounded as elsewhere.
// CHECK-LABEL: module @alone
// CHECK: fsdp.group @root [@a] {{.*}} reshard_after_forward none mixed_precision <param_dtype = bf16> reduce_dtype bf16 decisions [#fsdp.decision<gather_dtype, "a rank holds its parameters whole, which are cast to bf16 where they are used">]
// CHECK: %[[A:.+]] = fsdp.read @a : tensor<4xf32>
// CHECK-NEXT: aten.call "relu.default"
// CHECK-NEXT: aten.call "_to_copy.default"(%[[A]]{{.*}} fwd in "l"
// CHECK-NEXT: aten.call "sum.default"
// CHECK: fsdp.grad @a, %{{.+}} : tensor<4xbf16>
!v = tensor<4xf32>
!h = tensor<4xbf16>
module @alone {
  fsdp.param @a : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = bf16>
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %a = fsdp.read @a : !v
    %c = aten.call "_to_copy.default"(%a, bf16, none, none, none, false, none) fwd in "" : (!v) -> !h
    %y = aten.call "relu.default"(%x) fwd in "" : (!v) -> !v
    %loss = aten.call "sum.default"(%c, f32) fwd in "l" : (!h) -> tensor<f32>
    %n = aten.call "neg.default"(%c) bwd in "" : (!h) -> !h
    %g = aten.call "_to_copy.default"(%n, f32, none, none, none, false, none) bwd in "" : (!h) -> !v
    fsdp.grad @a, %g : !v
    fsdp.update @a step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// The cast of a gradient stands behind what it casts, wherever it was.
// CHECK-LABEL: module @late
// CHECK: %[[G:.+]] = aten.call "neg.default"({{.*}}) bwd
// CHECK-NEXT: %[[C:.+]] = aten.call "_to_copy.default"(%[[G]], f32
// CHECK-NEXT: fsdp.grad @a, %[[C]]
// CHECK-NEXT: aten.call "relu.default"
!v = tensor<4xf32>
!h = tensor<4xbf16>
module @late {
  fsdp.param @a : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a = fsdp.read @a : !v
    %c = aten.call "_to_copy.default"(%a, bf16, none, none, none, false, none) fwd in "" : (!v) -> !h
    %loss = aten.call "sum.default"(%c, f32) fwd in "" : (!h) -> tensor<f32>
    %gh = aten.call "neg.default"(%c) bwd in "" : (!h) -> !h
    %other = aten.call "relu.default"(%c) bwd in "" : (!h) -> !h
    %g = aten.call "_to_copy.default"(%gh, f32, none, none, none, false, none) bwd in "" : (!h) -> !v
    fsdp.grad @a, %g : !v
    fsdp.update @a step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// What is done as asked for needs no reason; of parameters that the step neither reads
// nor trains nothing is done.
// CHECK-LABEL: module @asked
// CHECK: fsdp.group @l [@a] {{.*}} reshard_after_forward none mixed_precision <param_dtype = bf16> gather_dtype bf16 reduce_dtype bf16{{$}}
// CHECK: fsdp.group @root [@b] {{.*}} reshard_after_forward none mixed_precision <param_dtype = bf16> decisions [#fsdp.decision<reduce_dtype, "its parameters are frozen">, #fsdp.decision<gather_dtype, "the step does not read its parameters">]
!v = tensor<4xf32>
!h = tensor<4xbf16>
module @asked {
  fsdp.param @a : !v
  fsdp.param @b : !v frozen
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = bf16>
  fsdp.group @root [@b] of [""] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = bf16>
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a = fsdp.read @a : !v
    %c = aten.call "_to_copy.default"(%a, bf16, none, none, none, false, none) fwd in "l" : (!v) -> !h
    %loss = aten.call "sum.default"(%c, f32) fwd in "l" : (!h) -> tensor<f32>
    %n = aten.call "neg.default"(%c) bwd in "l" : (!h) -> !h
    %g = aten.call "_to_copy.default"(%n, f32, none, none, none, false, none) bwd in "l" : (!h) -> !v
    fsdp.grad @a, %g : !v
    fsdp.update @a step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// Gradients are reduced as asked for where the step has them, though it does not read the parameter. What is
// not asked for needs no reason.
// CHECK-LABEL: module @unread
// CHECK: fsdp.group @root [@a] {{.*}} reshard_after_forward none mixed_precision <reduce_dtype = bf16> reduce_dtype bf16{{$}}
// CHECK: %[[G:.+]] = aten.call "_to_copy.default"(%{{.+}}, bf16, {{.*}}) bwd
// CHECK-NEXT: fsdp.grad @a, %[[G]] : tensor<4xbf16>
// SHARDED-LABEL: module @unread
// SHARDED: fsdp.reduce_scatter.start @root({{.*}}) over ["dp"] avg bwd on compute : tensor<4xbf16>
!v = tensor<4xf32>
module @unread {
  fsdp.param @a : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none mixed_precision <reduce_dtype = bf16>
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!v) -> tensor<f32>
    %g = aten.call "neg.default"(%x) bwd in "" : (!v) -> !v
    fsdp.grad @a, %g : !v
    fsdp.update @a step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// What is frozen has no gradients that could be reduced.
// CHECK-LABEL: module @frozen
// CHECK: fsdp.group @root [@a] {{.*}} mixed_precision <param_dtype = bf16> gather_dtype bf16 decisions [#fsdp.decision<reduce_dtype, "its parameters are frozen">]
!v = tensor<4xf32>
!h = tensor<4xbf16>
module @frozen {
  fsdp.param @a : !v frozen
  fsdp.param @b : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@b] of ["l"] over @mesh "dp" flat reshard_after_forward none
  fsdp.group @root [@a] of [""] over @mesh "dp" flat reshard_after_forward none mixed_precision <param_dtype = bf16>
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a = fsdp.read @a : !v
    %c = aten.call "_to_copy.default"(%a, bf16, none, none, none, false, none) fwd in "" : (!v) -> !h
    %b = fsdp.read @b : !v
    %y = aten.call "mul.Tensor"(%b, %b) fwd in "l" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%c, f32) fwd in "" : (!h) -> tensor<f32>
    %g = aten.call "neg.default"(%b) bwd in "l" : (!v) -> !v
    fsdp.grad @b, %g : !v
    fsdp.update @b step %step lr %lr
    return %loss : tensor<f32>
  }
}

// -----

// On one rank nothing is gathered, in whatever dtype: of a group that is cast in part there is nothing to say.
// Each cast stands where it is used.
// CHECK-LABEL: module @partly
// CHECK: fsdp.group @root [@a, @b] {{.*}} reshard_after_forward none{{$}}
// CHECK: aten.call "relu.default"
// CHECK-NEXT: %[[A:.+]] = aten.call "_to_copy.default"(%{{.+}}, bf16,
// CHECK-NEXT: aten.call "sum.default"(%[[A]], f32)
// CHECK-NEXT: %[[B:.+]] = aten.call "_to_copy.default"(%{{.+}}, f16,
// CHECK-NEXT: aten.call "neg.default"(%[[B]])
!v = tensor<4xf32>
!h = tensor<4xbf16>
!f = tensor<4xf16>
module @partly {
  fsdp.param @a : !v
  fsdp.param @b : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @root [@a, @b] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !v
    %a = fsdp.read @a : !v
    %c = aten.call "_to_copy.default"(%a, bf16, none, none, none, false, none) fwd in "" : (!v) -> !h
    %b = fsdp.read @b : !v
    %d = aten.call "_to_copy.default"(%b, f16, none, none, none, false, none) fwd in "" : (!v) -> !f
    %y = aten.call "relu.default"(%x) fwd in "" : (!v) -> !v
    %loss = aten.call "sum.default"(%c, f32) fwd in "" : (!h) -> tensor<f32>
    %n = aten.call "neg.default"(%d) bwd in "" : (!f) -> !f
    %g = aten.call "_to_copy.default"(%n, f32, none, none, none, false, none) bwd in "" : (!f) -> !v
    fsdp.grad @a, %g : !v
    fsdp.grad @b, %g : !v
    fsdp.update @a step %step lr %lr
    fsdp.update @b step %step lr %lr
    return %loss : tensor<f32>
  }
}
