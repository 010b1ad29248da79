// RUN: fsdp-opt %s -split-input-file --fsdp-fuse --fsdp-verify-scheduled | FileCheck %s
// RUN: fsdp-opt %s -split-input-file --fsdp-fuse=fusion=fast | FileCheck %s --check-prefix=FAST
// RUN: fsdp-opt %s -split-input-file --fsdp-fuse=fusion=off | FileCheck %s --check-prefix=OFF
// RUN: fsdp-opt %s -split-input-file --fsdp-fuse --fsdp-plan-memory --fsdp-verify-planned | FileCheck %s --check-prefix=PLANNED

// RMSNorm in fp32 is one kernel: the sum over each row is in it, and only its result has a place.
// EXAMPLE: fsdp-fuse
// CHECK-LABEL: fsdp.kernel @fused_pow_mean_add_rsqrt exact {
// CHECK:       ^bb0(%[[X:.+]]: tensor<4x64xf32>, %[[W:.+]]: tensor<64xf32>):
// CHECK:         %[[SQUARE:.+]] = aten.call "pow.Tensor_Scalar"(%[[X]], 2)
// CHECK:         %[[SCALED:.+]] = aten.call "mul.Tensor"
// CHECK:         %[[Y:.+]] = aten.call "mul.Tensor"(%[[SCALED]], %[[W]])
// CHECK:         fsdp.yield %[[Y]] : tensor<4x64xf32>
// CHECK-LABEL: func.func @step
// CHECK:         %[[LAUNCH:.+]] = fsdp.launch @fused_pow_mean_add_rsqrt(%x, %norm.w) fwd in <"norm">
// CHECK-NOT:     aten.call "mul.Tensor"
// CHECK:         aten.call "sum.default"(%[[LAUNCH]]
// PLANNED:       fsdp.launch @fused_pow_mean_add_rsqrt(%x, %norm.w) fwd in <"norm"> at [{{[0-9]+}}]
// OFF-NOT:       fsdp.kernel
!m = tensor<4x64xf32>
!r = tensor<4x1xf32>
!v = tensor<64xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @norm.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @norm [@norm.w] of ["norm"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @norm.w : !v
    %square = aten.call "pow.Tensor_Scalar"(%x, 2) fwd in "norm" : (!m) -> !m
    %mean = aten.call "mean.dim"(%square, [-1], true, none) fwd in "norm" : (!m) -> !r
    %moved = aten.call "add.Scalar"(%mean, 1.0e-5, 1) fwd in "norm" : (!r) -> !r
    %root = aten.call "rsqrt.default"(%moved) fwd in "norm" : (!r) -> !r
    %scaled = aten.call "mul.Tensor"(%x, %root) fwd in "norm" : (!m, !r) -> !m
    %y = aten.call "mul.Tensor"(%scaled, %w) fwd in "norm" : (!m, !v) -> !m
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!m) -> !s
    %g = aten.call "sum.dim_IntList"(%x, [0], false, none) bwd in "norm" : (!m) -> !v
    %d = fsdp.pack @norm(%g) : (!v) -> !fsdp.shard<@norm, f32>
    fsdp.update @norm with %d step %step lr %lr : !fsdp.shard<@norm, f32>
    return %loss : !s
  }
}

// -----

// What an operator of another kind reads ends a kernel, and is a result of it; what the kernel alone
// reads is none. Two equal kernels are one. A kernel of one call is none.
// CHECK-LABEL: fsdp.kernel @fused_add_relu exact
// CHECK-NOT:   fsdp.kernel
// CHECK-LABEL: func.func @step
// CHECK:         %[[A:.+]]:2 = fsdp.launch @fused_add_relu(%x) fwd in <"a">
// CHECK:         %[[MM:.+]] = aten.call "mm.default"(%[[A]]#0, %[[A]]#1)
// CHECK:         %[[B:.+]]:2 = fsdp.launch @fused_add_relu(%[[MM]]) fwd in <"b">
// CHECK:         aten.call "mm.default"(%[[B]]#0, %[[B]]#1)
// CHECK:         aten.call "neg.default"
!m = tensor<8x8xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !s
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @w_ [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %a0 = aten.call "add.Tensor"(%x, %x, 1) fwd in "a" : (!m, !m) -> !m
    %a1 = aten.call "relu.default"(%a0) fwd in "a" : (!m) -> !m
    %a = aten.call "mm.default"(%a0, %a1) fwd in "a" : (!m, !m) -> !m
    %b0 = aten.call "add.Tensor"(%a, %a, 1) fwd in "b" : (!m, !m) -> !m
    %b1 = aten.call "relu.default"(%b0) fwd in "b" : (!m) -> !m
    %b = aten.call "mm.default"(%b0, %b1) fwd in "b" : (!m, !m) -> !m
    %c = aten.call "neg.default"(%b) fwd in "b" : (!m) -> !m
    %loss = aten.call "sum.default"(%c, none) fwd in "" : (!m) -> !s
    %d = fsdp.pack @w_(%loss) : (!s) -> !fsdp.shard<@w_, f32>
    fsdp.update @w_ with %d step %step lr %lr : !fsdp.shard<@w_, f32>
    return %loss : !s
  }
}

// -----

// Nothing moves past a collective: the calls before and behind the gather's wait are kernels of their
// own. sigmoid has other bits than torch's: only `fast` takes it.
// CHECK-LABEL: func.func @step
// CHECK:         fsdp.launch @fused_mul_add(
// CHECK-NEXT:    aten.call "sigmoid.default"
// CHECK:         all_gather.wait
// CHECK-NEXT:    fsdp.launch @fused_mul_neg(
// FAST:          fsdp.kernel @fused_mul_add_sigmoid fast
// FAST:        func.func @step
// FAST:          fsdp.launch @fused_mul_add_sigmoid(
// FAST:          all_gather.wait
// FAST-NEXT:     fsdp.launch @fused_mul_neg(
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %0 = aten.call "mul.Tensor"(%x, 2.0) fwd in "l" : (!m) -> !m
    %1 = aten.call "add.Tensor"(%0, %x, 1) fwd in "l" : (!m, !m) -> !m
    %2 = aten.call "sigmoid.default"(%1) fwd in "l" : (!m) -> !m
    %p = aten.call "mm.default"(%2, %x) fwd in "l" : (!m, !m) -> !m
    %w0 = fsdp.all_gather.wait %u0 : !m
    %3 = aten.call "mul.Tensor"(%p, %w0) fwd in "l" : (!m, !m) -> !m
    %4 = aten.call "neg.default"(%3) fwd in "l" : (!m) -> !m
    %loss = aten.call "sum.default"(%4, none) fwd in "l" : (!m) -> !s
    %g0 = aten.call "mm.default"(%w0, %w0) bwd in "l" : (!m, !m) -> !m
    fsdp.reshard %u0 bwd
    %r0 = fsdp.reduce_scatter.start @l(%g0) over ["dp"] avg bwd on reduce : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    fsdp.update @l with %d0 step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// What a buffer held is read before it is written, also by a kernel: nothing moves past the write.
// CHECK-LABEL: func.func @step
// CHECK:         %[[OLD:.+]] = fsdp.read @mean
// CHECK:         %[[MEAN:.+]]:2 = fsdp.launch @fused_mul_add(%[[OLD]], %x)
// CHECK-NEXT:    fsdp.write @mean, %[[MEAN]]#1
// CHECK-NEXT:    fsdp.launch @fused_neg_mul(%[[MEAN]]#0)
!m = tensor<8x8xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !s
  fsdp.buffer @mean : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @w_ [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %old = fsdp.read @mean : !m
    %kept = aten.call "mul.Tensor"(%old, 0.5) fwd in "a" : (!m) -> !m
    %new = aten.call "add.Tensor"(%kept, %x, 1) fwd in "a" : (!m, !m) -> !m
    fsdp.write @mean, %new : !m
    %a = aten.call "neg.default"(%kept) fwd in "a" : (!m) -> !m
    %b = aten.call "mul.Tensor"(%a, %a) fwd in "a" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%b, none) fwd in "" : (!m) -> !s
    %d = fsdp.pack @w_(%loss) : (!s) -> !fsdp.shard<@w_, f32>
    fsdp.update @w_ with %d step %step lr %lr : !fsdp.shard<@w_, f32>
    return %loss : !s
  }
}

// -----

// Rows: what is one number for each row joins the kernel of the rows; rows of another length end it.
// CHECK-LABEL: fsdp.kernel @fused_mul_sum_neg_mul exact {
// CHECK:         fsdp.yield %{{.+}}, %{{.+}} : tensor<8x1xf32>, tensor<8x64xf32>
// CHECK-LABEL: func.func @step
// CHECK:         %[[ROWS:.+]]:2 = fsdp.launch @fused_mul_sum_neg_mul(%x)
// CHECK-NEXT:    fsdp.launch @fused_mul_mul(%[[ROWS]]#0, %y)
!m = tensor<8x64xf32>
!n = tensor<8x32xf32>
!r = tensor<8x1xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !s
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @w_ [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %y = fsdp.input "y" : !n
    %square = aten.call "mul.Tensor"(%x, %x) fwd in "a" : (!m, !m) -> !m
    %sum = aten.call "sum.dim_IntList"(%square, [-1], true, none) fwd in "a" : (!m) -> !r
    %row = aten.call "neg.default"(%sum) fwd in "a" : (!r) -> !r
    %a = aten.call "mul.Tensor"(%square, %row) fwd in "a" : (!m, !r) -> !m
    %b = aten.call "mul.Tensor"(%row, %y) fwd in "a" : (!r, !n) -> !n
    %c = aten.call "mul.Tensor"(%b, %y) fwd in "a" : (!n, !n) -> !n
    %p = aten.call "sum.default"(%a, none) fwd in "" : (!m) -> !s
    %q = aten.call "sum.default"(%c, none) fwd in "" : (!n) -> !s
    %loss = aten.call "add.Tensor"(%p, %q, 1) fwd in "" : (!s, !s) -> !s
    %d = fsdp.pack @w_(%loss) : (!s) -> !fsdp.shard<@w_, f32>
    fsdp.update @w_ with %d step %step lr %lr : !fsdp.shard<@w_, f32>
    return %loss : !s
  }
}

// -----

// The cast of a gradient to the dtype of its reduction stays a call.
// CHECK-LABEL: func.func @step
// CHECK:         %[[G:.+]] = fsdp.launch @fused_mul_neg(
// CHECK-NEXT:    %[[CAST:.+]] = aten.call "_to_copy.default"(%[[G]], bf16
// CHECK:         reduce_scatter.start @l(%[[CAST]])
!m = tensor<4x4xf32>
!h = tensor<4x4xbf16>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false reduce_dtype bf16
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %u0 = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %loss = aten.call "sum.default"(%w0, none) fwd in "l" : (!m) -> !s
    %0 = aten.call "mul.Tensor"(%x, 2.0) bwd in "l" : (!m) -> !m
    %1 = aten.call "neg.default"(%0) bwd in "l" : (!m) -> !m
    %g0 = aten.call "_to_copy.default"(%1, bf16, none, none, none, false, none) bwd in "l" : (!m) -> !h
    fsdp.reshard %u0 bwd
    %r0 = fsdp.reduce_scatter.start @l(%g0) over ["dp"] avg bwd on reduce : !h
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, bf16>
    fsdp.update @l with %d0 step %step lr %lr : !fsdp.shard<@l, bf16>
    return %loss : !s
  }
}

// -----

// A kernel computes again what another one would store for it, if it moves fewer bytes so: the f32
// copy of x has no place, and the kernel behind the gather does not read its square, which a product
// reads.
// CHECK-LABEL: fsdp.kernel @fused_to_copy_mul_to_copy exact {
// CHECK:         fsdp.yield %{{[^ ,]+}} : tensor<64x64xbf16>
// CHECK-LABEL: fsdp.kernel @fused_to_copy_mul_to_copy_mul exact {
// CHECK:       ^bb0(%[[X:.+]]: tensor<64x64xbf16>, %[[W:.+]]: tensor<64x64xf32>):
// CHECK:         %[[COPY:.+]] = aten.call "_to_copy.default"(%[[X]], f32
// CHECK:         %[[SQUARE:.+]] = aten.call "mul.Tensor"(%[[COPY]], %[[COPY]])
// CHECK:         aten.call "_to_copy.default"(%[[SQUARE]], bf16
// CHECK:         aten.call "mul.Tensor"(%[[COPY]], %[[W]])
// CHECK-LABEL: func.func @step
// CHECK:         %[[STORED:.+]] = fsdp.launch @fused_to_copy_mul_to_copy(%[[IN:[a-z]+]])
// CHECK:         aten.call "mm.default"(%[[STORED]], %[[IN]])
// CHECK:         %[[GATHERED:.+]] = fsdp.all_gather.wait
// CHECK:         fsdp.launch @fused_to_copy_mul_to_copy_mul(%[[IN]], %[[GATHERED]])
!h = tensor<64x64xbf16>
!m = tensor<64x64xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %in = fsdp.input "x" : !h
    %x = aten.call "mm.default"(%in, %in) fwd in "l" : (!h, !h) -> !h
    %u0 = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
    %wide = aten.call "_to_copy.default"(%x, f32, none, none, none, false, none) fwd in "l" : (!h) -> !m
    %square = aten.call "mul.Tensor"(%wide, %wide) fwd in "l" : (!m, !m) -> !m
    %short = aten.call "_to_copy.default"(%square, bf16, none, none, none, false, none) fwd in "l" : (!m) -> !h
    %p = aten.call "mm.default"(%short, %x) fwd in "l" : (!h, !h) -> !h
    %w0 = fsdp.all_gather.wait %u0 : !m
    %a = aten.call "mul.Tensor"(%wide, %w0) fwd in "l" : (!m, !m) -> !m
    %b = aten.call "mul.Tensor"(%a, %short) fwd in "l" : (!m, !h) -> !m
    %loss = aten.call "sum.default"(%b, none) fwd in "l" : (!m) -> !s
    %g0 = aten.call "mm.default"(%w0, %w0) bwd in "l" : (!m, !m) -> !m
    fsdp.reshard %u0 bwd
    %r0 = fsdp.reduce_scatter.start @l(%g0) over ["dp"] avg bwd on reduce : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    fsdp.update @l with %d0 step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}

// -----

// A call joins a kernel that is launched before it stood, if all that it reads is there: the second
// product reads y alone, and what the sum over columns reads is computed with it. What reads y too,
// beside the kernel, joins it as well. A view follows what it shows.
// CHECK-LABEL: fsdp.kernel @fused_mul_mul_neg_sub exact {
// CHECK:         fsdp.yield %{{.+}}, %{{.+}}, %{{.+}} : tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>
// CHECK-LABEL: func.func @step
// CHECK:         %[[ALL:.+]]:3 = fsdp.launch @fused_mul_mul_neg_sub(%x, %y)
// CHECK-NEXT:    aten.call "sum.dim_IntList"(%[[ALL]]#0
// CHECK:         aten.call "mm.default"(%x
// CHECK-NEXT:    %[[VIEW:.+]] = aten.call "t.default"(%[[ALL]]#2)
// CHECK-NEXT:    aten.call "mm.default"(%[[ALL]]#1, %[[VIEW]])
!m = tensor<8x64xf32>
!q = tensor<8x8xf32>
!t = tensor<64x8xf32, #aten.strides<[1, 64]>>
!v = tensor<64xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !s
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @w_ [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %y = fsdp.input "y" : !m
    %a = aten.call "mul.Tensor"(%x, %y) fwd in "a" : (!m, !m) -> !m
    %columns = aten.call "sum.dim_IntList"(%a, [0], false, none) fwd in "a" : (!m) -> !v
    %turned = aten.call "t.default"(%x) fwd in "a" : (!m) -> !t
    %p = aten.call "mm.default"(%x, %turned) fwd in "a" : (!m, !t) -> !q
    %b = aten.call "mul.Tensor"(%y, %y) fwd in "a" : (!m, !m) -> !m
    %n = aten.call "neg.default"(%b) fwd in "a" : (!m) -> !m
    %c = aten.call "sub.Tensor"(%n, %a, 1) fwd in "a" : (!m, !m) -> !m
    %shown = aten.call "t.default"(%c) fwd in "a" : (!m) -> !t
    %r = aten.call "mm.default"(%b, %shown) fwd in "a" : (!m, !t) -> !q
    %k = aten.call "mm.default"(%p, %r) fwd in "a" : (!q, !q) -> !q
    %f = aten.call "sum.default"(%k, none) fwd in "" : (!q) -> !s
    %g = aten.call "sum.default"(%columns, none) fwd in "" : (!v) -> !s
    %loss = aten.call "mul.Tensor"(%f, %g) fwd in "" : (!s, !s) -> !s
    %d = fsdp.pack @w_(%loss) : (!s) -> !fsdp.shard<@w_, f32>
    fsdp.update @w_ with %d step %step lr %lr : !fsdp.shard<@w_, f32>
    return %loss : !s
  }
}

// -----

// Rotary embedding is one kernel that reads x once: halves of it are columns, and so are the parts of
// a concatenation. One number for each row is expanded in the kernel that computes it.
// CHECK-LABEL: fsdp.kernel @fused_split_mul_neg_cat exact {
// CHECK:       ^bb0(%[[X:[^:]+]]: tensor<4x8x64xf32>, %{{[^:]+}}: tensor<8x64xf32>, %{{[^:]+}}: tensor<8x64xf32>):
// CHECK:         %[[HALVES:.+]]:2 = aten.call "split.Tensor"(%[[X]], 32, -1)
// CHECK:         %[[BACK:.+]] = aten.call "neg.default"(%[[HALVES]]#1)
// CHECK:         aten.call "cat.default"([%[[BACK]], %[[HALVES]]#0], -1)
// CHECK:         fsdp.yield %{{[^,]+}} : tensor<4x8x64xf32>
// CHECK-LABEL: fsdp.kernel @fused_mul_sum_expand_add exact {
// CHECK-LABEL: func.func @step
// CHECK-NOT:     aten.call "split.Tensor"
// CHECK:         fsdp.launch @fused_split_mul_neg_cat(%x, %cos, %sin)
// CHECK:         fsdp.launch @fused_mul_sum_expand_add(
!x = tensor<4x8x64xf32>
!e = tensor<4x8x64xf32, #aten.strides<[8, 1, 0]>>
!r = tensor<4x8x1xf32>
!h = tensor<4x8x32xf32>
!l = tensor<4x8x32xf32, #aten.strides<[512, 64, 1]>>
!u = tensor<4x8x32xf32, #aten.strides<[512, 64, 1], offset = 32>>
!t = tensor<8x64xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !s
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @w_ [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !x
    %cos = fsdp.input "cos" : !t
    %sin = fsdp.input "sin" : !t
    %half:2 = aten.call "split.Tensor"(%x, 32, -1) fwd in "a" : (!x) -> (!l, !u)
    %a = aten.call "mul.Tensor"(%x, %cos) fwd in "a" : (!x, !t) -> !x
    %back = aten.call "neg.default"(%half#1) fwd in "a" : (!u) -> !h
    %turned = aten.call "cat.default"([%back, %half#0], -1) fwd in "a" : (!h, !l) -> !x
    %b = aten.call "mul.Tensor"(%turned, %sin) fwd in "a" : (!x, !t) -> !x
    %c = aten.call "add.Tensor"(%a, %b, 1) fwd in "a" : (!x, !x) -> !x
    %p = aten.call "bmm.default"(%c, %c) fwd in "a" : (!x, !x) -> !x
    %square = aten.call "mul.Tensor"(%p, %p) fwd in "a" : (!x, !x) -> !x
    %sum = aten.call "sum.dim_IntList"(%square, [-1], true, none) fwd in "a" : (!x) -> !r
    %wide = aten.call "expand.default"(%sum, [4, 8, 64], false) fwd in "a" : (!r) -> !e
    %d0 = aten.call "add.Tensor"(%p, %wide, 1) fwd in "a" : (!x, !e) -> !x
    %loss = aten.call "sum.default"(%d0, none) fwd in "" : (!x) -> !s
    %d = fsdp.pack @w_(%loss) : (!s) -> !fsdp.shard<@w_, f32>
    fsdp.update @w_ with %d step %step lr %lr : !fsdp.shard<@w_, f32>
    return %loss : !s
  }
}

// -----

// The loss of a classifier, fast: logits are read as they are. Views that count the same rows by
// other dimensions are read through. The backward computes the logarithms of probabilities again; the
// forward stores those of the targets, for the mean over all rows.
// FAST-LABEL: fsdp.kernel @fused_to_copy_view_log_softmax_gather fast {
// FAST:         fsdp.yield %{{[^,]+}} : tensor<8x1xf32>
// FAST-LABEL: fsdp.kernel @fused_to_copy_view_log_softmax_nll_loss_backward fast {
// FAST:       ^bb0(%{{[^:]+}}: tensor<2x4x50xbf16>, %{{[^:]+}}: tensor<f32>, %{{[^:]+}}: tensor<8xi64>, %{{[^:]+}}: tensor<f32>):
// FAST:         fsdp.yield %{{[^,]+}} : tensor<2x4x50xbf16>
// FAST-LABEL: func.func @step
// FAST:         %[[LOGITS:.+]] = aten.call "bmm.default"
// FAST:         %[[LOGS:.+]] = fsdp.launch @fused_to_copy_view_log_softmax_gather(%[[LOGITS]], %
// FAST:         %[[LOSS:.+]]:2 = aten.call "nll_loss_forward.default"(%[[LOGS]], %clamp_max
// FAST:         fsdp.launch @fused_to_copy_view_log_softmax_nll_loss_backward(%[[LOGITS]], %{{.+}}, %targets, %[[LOSS]]#1)
!h = tensor<2x4x50xbf16>
!q = tensor<2x50x50xbf16>
!m = tensor<2x4x50xf32>
!f = tensor<8x50xf32>
!t = tensor<8xi64>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !s
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @w_ [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !h
    %y = fsdp.input "y" : !q
    %targets = fsdp.input "targets" : !t
    %logits = aten.call "bmm.default"(%x, %y) fwd in "" : (!h, !q) -> !h
    %wide = aten.call "_to_copy.default"(%logits, f32, none, none, none, false, none) fwd in "" : (!h) -> !m
    %rows = aten.call "view.default"(%wide, [8, 50]) fwd in "" : (!m) -> !f
    %logs = aten.call "_log_softmax.default"(%rows, 1, false) fwd in "" : (!f) -> !f
    %loss:2 = aten.call "nll_loss_forward.default"(%logs, %targets, none, 1, -100) fwd in "" : (!f, !t) -> (!s, !s)
    %one = aten.call "ones_like.default"(%loss#0, none, none, none, none, none) bwd in "" : (!s) -> !s
    %g0 = aten.call "nll_loss_backward.default"(%one, %logs, %targets, none, 1, -100, %loss#1) bwd in "" : (!s, !f, !t, !s) -> !f
    %g1 = aten.call "_log_softmax_backward_data.default"(%g0, %logs, 1, f32) bwd in "" : (!f, !f) -> !f
    %g2 = aten.call "view.default"(%g1, [2, 4, 50]) bwd in "" : (!f) -> !m
    %g3 = aten.call "_to_copy.default"(%g2, bf16, none, none, none, false, none) bwd in "" : (!m) -> !h
    %g = aten.call "sum.default"(%g3, f32) bwd in "" : (!h) -> !s
    %d = fsdp.pack @w_(%g) : (!s) -> !fsdp.shard<@w_, f32>
    fsdp.update @w_ with %d step %step lr %lr : !fsdp.shard<@w_, f32>
    return %loss#0 : !s
  }
}

// -----

// A kernel stands before the product that reads it, and takes along the views that it reads itself.
// CHECK-LABEL: func.func @step
// CHECK:         %[[PRODUCT:.+]] = aten.call "mm.default"(%x, %x)
// CHECK-NEXT:    %[[VIEW:.+]] = aten.call "view.default"(%[[PRODUCT]], [2, 4, 8])
// CHECK-NEXT:    %[[LAUNCH:.+]]:2 = fsdp.launch @fused_{{.+}}(%{{.+}}, %[[VIEW]])
// CHECK-NEXT:    aten.call "bmm.default"(%[[LAUNCH]]#0, %square)
!m = tensor<8x8xf32>
!b = tensor<2x4x8xf32>
!q = tensor<2x8x8xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @w : !s
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @w_ [@w] of [""] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %z = fsdp.input "z" : !b
    %square = fsdp.input "square" : !q
    %p = aten.call "mm.default"(%x, %x) fwd in "" : (!m, !m) -> !m
    %r = aten.call "relu.default"(%z) fwd in "" : (!b) -> !b
    %u = aten.call "bmm.default"(%r, %square) fwd in "" : (!b, !q) -> !b
    %v = aten.call "view.default"(%p, [2, 4, 8]) fwd in "" : (!m) -> !b
    %t = aten.call "mul.Tensor"(%v, %z) fwd in "" : (!b, !b) -> !b
    %o = aten.call "bmm.default"(%t, %square) fwd in "" : (!b, !q) -> !b
    %loss = aten.call "sum.default"(%o, none) fwd in "" : (!b) -> !s
    %g = aten.call "sum.default"(%u, none) bwd in "" : (!b) -> !s
    %d = fsdp.pack @w_(%g) : (!s) -> !fsdp.shard<@w_, f32>
    fsdp.update @w_ with %d step %step lr %lr : !fsdp.shard<@w_, f32>
    return %loss : !s
  }
}
