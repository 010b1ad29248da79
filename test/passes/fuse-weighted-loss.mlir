// RUN: fsdp-opt %s -split-input-file --fsdp-pipeline="mesh=dp=2 fusion=fast" -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fsdp-opt %s -split-input-file --fsdp-pipeline="mesh=dp=2 fusion=exact" | FileCheck %s --check-prefix=EXACT
// RUN: sed 's/neg.default"(%%unsqueeze/relu.default"(%%unsqueeze/' %t.mlir > %t.neg.mlir
// RUN: not fsdp-opt %t.neg.mlir -split-input-file --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: sed 's/squeeze.dim"(%%\(.*\)#1/squeeze.dim"(%%\1#0/' %t.mlir > %t.squeeze.mlir
// RUN: not fsdp-opt %t.squeeze.mlir -split-input-file --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE

// Weights of classes and smoothed labels: the kernel stores the target's weighted logarithm, and the sum of all weighted
// ones. The mean divides by the sum of the targets' weights.
// CHECK-LABEL: fsdp.kernel @fused_to_copy_log_softmax_gather_mul fast {
// CHECK: ^bb0(%[[X:.+]]: tensor<8x64xbf16>, %[[I:.+]]: tensor<8x1xi64>, %[[OF:.+]]: tensor<8x1xf32>, %[[W:.+]]: tensor<1x64xf32>):
// CHECK: %[[LOGS:.+]] = aten.call "_log_softmax.default"
// CHECK: %[[P:.+]] = aten.call "gather.default"(%[[LOGS]], 1, %[[I]], false)
// CHECK: %[[PW:.+]] = aten.call "mul.Tensor"(%[[P]], %[[OF]])
// CHECK: %[[ALL:.+]] = aten.call "mul.Tensor"(%[[LOGS]], %[[W]])
// CHECK: %[[SUM:.+]] = aten.call "sum.dim_IntList"(%[[ALL]], [1], true, none)
// CHECK: fsdp.yield %[[PW]], %[[SUM]] : tensor<8x1xf32>, tensor<8x1xf32>
// CHECK-LABEL: func.func @step
// CHECK: %[[CLASSES:.+]] = aten.call "clamp_min.default"
// CHECK: %[[OF:.+]] = aten.call "gather.default"(%w, 0, %[[CLASSES]], false)
// CHECK: %[[OFS:.+]] = aten.call "unsqueeze.default"(%[[OF]], 1)
// CHECK: %[[BY:.+]]:2 = fsdp.launch @fused_to_copy_log_softmax_gather_mul(%{{.+}}, %[[OFS]],
// CHECK: %[[LOSS:.+]]:2 = aten.call "nll_loss_forward.default"(%[[BY]]#0, %{{.+}}, none, 2, -9223372036854775808)
// CHECK: %[[MINUS:.+]] = aten.call "neg.default"(%[[OFS]])
// CHECK: %[[TOTAL:.+]]:2 = aten.call "nll_loss_forward.default"(%[[MINUS]], %{{.+}}, none, 2, -9223372036854775808)
// CHECK: "squeeze.dim"(%[[BY]]#1, 1)
// CHECK: fsdp.launch @fused_div_div_sub(%[[LOSS]]#0, %[[TOTAL]]#0,
// The gradient of each logit is all that the backward stores of their size.
// CHECK: fsdp.launch @{{.*}} bwd {{.*}} -> tensor<8x64xbf16>
// EXACT: aten.call "nll_loss_forward.default"(%{{.*}}, %targets, %w, 1, 0)

// ELSE: S9: the step computes something else than what was captured
!l = tensor<8x64xbf16>
!f = tensor<8x64xf32>
!t = tensor<8xi64>
!i = tensor<8xi1>
!r = tensor<8xf32>
!c = tensor<64xf32>
!s = tensor<f32>
!w = tensor<32x64xbf16>
!x = tensor<8x32xbf16>
!xt = tensor<32x8xbf16, #aten.strides<[1, 32]>>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @head : !w
  fsdp.buffer @w : !c
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !x
    %targets = fsdp.input "targets" : !t
    %head = fsdp.read @head : !w
    %w = fsdp.read @w : !c
    %logits = aten.call "mm.default"(%x, %head) fwd in "" : (!x, !w) -> !l
    %cast = aten.call "_to_copy.default"(%logits, f32, none, none, none, false, none) fwd in "" : (!l) -> !f
    %logs = aten.call "_log_softmax.default"(%cast, 1, false) fwd in "" : (!f) -> !f
    %loss:2 = aten.call "nll_loss_forward.default"(%logs, %targets, %w, 1, 0) fwd in "" : (!f, !t, !c) -> (!s, !s)
    %row = aten.call "view.default"(%w, [1, 64]) fwd in "" : (!c) -> tensor<1x64xf32>
    %weighted = aten.call "mul.Tensor"(%logs, %row) fwd in "" : (!f, tensor<1x64xf32>) -> !f
    %sums = aten.call "sum.dim_IntList"(%weighted, [1], false, none) fwd in "" : (!f) -> !r
    %is = aten.call "eq.Scalar"(%targets, 0) fwd in "" : (!t) -> !i
    %left = aten.call "masked_fill.Scalar"(%sums, %is, 0.0) fwd in "" : (!r, !i) -> !r
    %sum = aten.call "sum.default"(%left, none) fwd in "" : (!r) -> !s
    %mean = aten.call "div.Tensor"(%sum, %loss#1) fwd in "" : (!s, !s) -> !s
    %all = aten.call "sub.Tensor"(%loss#0, %mean, 0.1) fwd in "" : (!s, !s) -> !s
    %one = aten.call "ones_like.default"(%all, none, none, none, none, #aten.memory_format<contiguous>) bwd in "" : (!s) -> !s
    %by = aten.call "div.Tensor"(%one, %loss#1) bwd in "" : (!s, !s) -> !s
    %each = aten.call "expand.default"(%by, [8], false) bwd in "" : (!s) -> tensor<8xf32, #aten.strides<[0]>>
    %some = aten.call "masked_fill.Scalar"(%each, %is, 0) bwd in "" : (tensor<8xf32, #aten.strides<[0]>>, !i) -> !r
    %column = aten.call "unsqueeze.default"(%some, 1) bwd in "" : (!r) -> tensor<8x1xf32>
    %whole = aten.call "expand.default"(%column, [8, 64], false) bwd in "" : (tensor<8x1xf32>) -> tensor<8x64xf32, #aten.strides<[1, 0]>>
    %smooth = aten.call "mul.Tensor"(%whole, %row) bwd in "" : (tensor<8x64xf32, #aten.strides<[1, 0]>>, tensor<1x64xf32>) -> !f
    %a = aten.call "nll_loss_backward.default"(%one, %logs, %targets, %w, 1, 0, %loss#1) bwd in "" : (!s, !f, !t, !c, !s) -> !f
    %both = aten.call "sub.Tensor"(%a, %smooth, 0.1) bwd in "" : (!f, !f) -> !f
    %b = aten.call "_log_softmax_backward_data.default"(%both, %logs, 1, f32) bwd in "" : (!f, !f) -> !f
    %c = aten.call "_to_copy.default"(%b, bf16, none, none, none, false, none) bwd in "" : (!f) -> !l
    %xt = aten.call "t.default"(%x) bwd in "" : (!x) -> !xt
    %d = aten.call "mm.default"(%xt, %c) bwd in "" : (!xt, !l) -> !w
    fsdp.grad @head, %d : !w
    fsdp.update @head step %step lr %lr
    return %all : !s
  }
}

// -----

// Without a reduction the kernel of the backward reads a gradient of each sample.
// CHECK-LABEL: fsdp.kernel @fused_to_copy_log_softmax_gather fast {
// CHECK: fsdp.yield %{{.+}} : tensor<8x1xf32>
// CHECK-LABEL: fsdp.kernel @fused_to_copy_log_softmax_nll_loss_backward
// CHECK: ^bb0(%{{.+}}: tensor<8x64xbf16>, %[[G:.+]]: tensor<8xf32>, %[[T:.+]]: tensor<8xi64>, %{{.+}}: tensor<f32>):
// CHECK: aten.call "nll_loss_backward.default"(%[[G]], %{{.+}}, %[[T]], none, 0, -100
// CHECK-LABEL: func.func @step
// CHECK: aten.call "nll_loss_forward.default"(%{{.+}}, %{{.+}}, none, 0, -100) {{.*}} -> (tensor<8xf32>, tensor<f32>)
!l = tensor<8x64xbf16>
!f = tensor<8x64xf32>
!t = tensor<8xi64>
!r = tensor<8xf32>
!s = tensor<f32>
!w = tensor<32x64xbf16>
!x = tensor<8x32xbf16>
!xt = tensor<32x8xbf16, #aten.strides<[1, 32]>>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @head : !w
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !x
    %targets = fsdp.input "targets" : !t
    %importance = fsdp.input "importance" : !r
    %head = fsdp.read @head : !w
    %logits = aten.call "mm.default"(%x, %head) fwd in "" : (!x, !w) -> !l
    %cast = aten.call "_to_copy.default"(%logits, f32, none, none, none, false, none) fwd in "" : (!l) -> !f
    %logs = aten.call "_log_softmax.default"(%cast, 1, false) fwd in "" : (!f) -> !f
    %each:2 = aten.call "nll_loss_forward.default"(%logs, %targets, none, 0, -100) fwd in "" : (!f, !t) -> (!r, !s)
    %weighted = aten.call "mul.Tensor"(%each#0, %importance) fwd in "" : (!r, !r) -> !r
    %loss = aten.call "sum.default"(%weighted, none) fwd in "" : (!r) -> !s
    %a = aten.call "nll_loss_backward.default"(%importance, %logs, %targets, none, 0, -100, %each#1) bwd in "" : (!r, !f, !t, !s) -> !f
    %b = aten.call "_log_softmax_backward_data.default"(%a, %logs, 1, f32) bwd in "" : (!f, !f) -> !f
    %c = aten.call "_to_copy.default"(%b, bf16, none, none, none, false, none) bwd in "" : (!f) -> !l
    %xt = aten.call "t.default"(%x) bwd in "" : (!x) -> !xt
    %d = aten.call "mm.default"(%xt, %c) bwd in "" : (!xt, !l) -> !w
    fsdp.grad @head, %d : !w
    fsdp.update @head step %step lr %lr
    return %loss : !s
  }
}

// -----

// Logarithms of probabilities that the step picks itself, of rows in three dimensions: kernels hold the backward, too.
// CHECK-LABEL: fsdp.kernel @fused_to_copy_log_softmax_gather_mul
// CHECK: aten.call "gather.default"({{.*}} -> tensor<2x4x1xf32>
// CHECK: aten.call "new_zeros.default"
// CHECK: aten.call "scatter_add.default"
// CHECK: aten.call "_log_softmax_backward_data.default"
// CHECK: fsdp.yield %{{.+}}, %{{.+}} : tensor<2x4x1xf32>, tensor<2x4x64xbf16>
// CHECK-LABEL: func.func @step
!l = tensor<2x4x64xbf16>
!f = tensor<2x4x64xf32>
!i = tensor<2x4x1xi64>
!r = tensor<2x4x1xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !l
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %targets = fsdp.input "targets" : !i
    %importance = fsdp.input "importance" : !r
    %w = fsdp.read @w : !l
    %cast = aten.call "_to_copy.default"(%w, f32, none, none, none, false, none) fwd in "" : (!l) -> !f
    %logs = aten.call "_log_softmax.default"(%cast, 2, false) fwd in "" : (!f) -> !f
    %picked = aten.call "gather.default"(%logs, -1, %targets, false) fwd in "" : (!f, !i) -> !r
    %weighted = aten.call "mul.Tensor"(%picked, %importance) fwd in "" : (!r, !r) -> !r
    %loss = aten.call "sum.default"(%weighted, none) fwd in "" : (!r) -> !s
    %zeros = aten.call "new_zeros.default"(%importance, [2, 4, 64], none, none, none, none) bwd in "" : (!r) -> !f
    %a = aten.call "scatter_add.default"(%zeros, -1, %targets, %importance) bwd in "" : (!f, !i, !r) -> !f
    %b = aten.call "_log_softmax_backward_data.default"(%a, %logs, 2, f32) bwd in "" : (!f, !f) -> !f
    %c = aten.call "_to_copy.default"(%b, bf16, none, none, none, false, none) bwd in "" : (!f) -> !l
    %d = aten.call "neg.default"(%c) bwd in "" : (!l) -> !l
    fsdp.grad @w, %d : !l
    fsdp.update @w step %step lr %lr
    return %loss : !s
  }
}
