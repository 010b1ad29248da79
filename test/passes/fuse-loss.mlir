// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=fast" -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=exact" | FileCheck %s --check-prefix=EXACT
// RUN: sed 's/clamp_max.default"\(.*\), 0)/clamp_max.default"\1, 1)/' %t.mlir > %t.max.mlir
// RUN: not fsdp-opt %t.max.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: sed 's/clamp_min.default"\(.*\), 0)/clamp_min.default"\1, 1)/' %t.mlir > %t.min.mlir
// RUN: not fsdp-opt %t.min.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: sed 's/clamp_max.default"(.targets/clamp_max.default"(%%others/' %t.mlir > %t.other.mlir
// RUN: not fsdp-opt %t.other.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: sed 's/, none, 1, -7)/, none, 1, 3)/' %s | fsdp-opt --fsdp-pipeline="mesh=dp=2 fusion=fast" -o %t.class.mlir
// RUN: FileCheck %s --input-file=%t.class.mlir --check-prefix=CLASS
// RUN: sed 's/eq.Scalar"(%%targets, 3)/eq.Scalar"(%%targets, 4)/' %t.class.mlir > %t.eq.mlir
// RUN: not fsdp-opt %t.eq.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: sed 's/, none, 1, -7)/, none, 2, -7)/' %s | fsdp-opt --fsdp-pipeline="mesh=dp=2 fusion=fast" | FileCheck %s --check-prefix=SUM

// Of the probabilities the forward kernel stores those of the targets. The loss is torch's, of these numbers.
// CHECK-LABEL: fsdp.kernel @fused_to_copy_log_softmax_gather fast {
// CHECK: ^bb0(%[[X:.+]]: tensor<8x64xbf16>, %[[I:.+]]: tensor<8x1xi64>):
// CHECK: %[[LOGS:.+]] = aten.call "_log_softmax.default"
// CHECK: %[[P:.+]] = aten.call "gather.default"(%[[LOGS]], 1, %[[I]], false)
// CHECK: fsdp.yield %[[P]] : tensor<8x1xf32>
// CHECK-LABEL: func.func @step
// CHECK: %[[MM:.+]] = aten.call "mm.default"({{.*}} fwd
// CHECK: %[[LOW:.+]] = aten.call "clamp_min.default"(%targets, 0)
// CHECK: %[[COLUMN:.+]] = aten.call "unsqueeze.default"(%[[LOW]], 1)
// CHECK: %[[PICKED:.+]] = fsdp.launch @fused_to_copy_log_softmax_gather(%[[MM]], %[[COLUMN]])
// CHECK: %[[HIGH:.+]] = aten.call "clamp_max.default"(%targets, 0)
// CHECK: aten.call "nll_loss_forward.default"(%[[PICKED]], %[[HIGH]], none, 1, -7)

// The backward computes the probabilities again, and stores none in fp32 either.
// CHECK: fsdp.launch @fused_to_copy_log_softmax_nll_loss_backward{{.*}}(%[[MM]], {{.*}}) -> tensor<8x64xbf16>

// No such kernel: `exact` has no softmax.
// EXACT-NOT: "gather.default"
// EXACT: aten.call "nll_loss_forward.default"(%{{.*}}, %targets, none, 1, -7)

// A class that is ignored becomes a number that is none, and no target has.
// CLASS: %[[IS:.+]] = aten.call "eq.Scalar"(%targets, 3)
// CLASS: %[[LEFT:.+]] = aten.call "masked_fill.Scalar"(%targets, %[[IS]], -9223372036854775808)
// CLASS: aten.call "clamp_min.default"(%[[LEFT]], 0)
// CLASS: %[[PICKED:.+]] = fsdp.launch @fused_to_copy_log_softmax_gather
// CLASS: %[[HIGH:.+]] = aten.call "clamp_max.default"(%[[LEFT]], 0)
// CLASS: aten.call "nll_loss_forward.default"(%[[PICKED]], %[[HIGH]], none, 1, -9223372036854775808)
// CLASS: fsdp.launch @fused_to_copy_log_softmax_nll_loss_backward{{.*}} -> tensor<8x64xbf16>

// So is a sum.
// SUM: %[[PICKED:.+]] = fsdp.launch @fused_to_copy_log_softmax_gather
// SUM: aten.call "nll_loss_forward.default"(%[[PICKED]], %{{.+}}, none, 2, -7)
// SUM: fsdp.launch @fused_to_copy_log_softmax_nll_loss_backward{{.*}} -> tensor<8x64xbf16>

// The proof takes just this for the loss that was captured: other clamps, or other targets, are another loss.
// ELSE: S9: the step computes something else than what was captured
!l = tensor<8x64xbf16>
!f = tensor<8x64xf32>
!t = tensor<8xi64>
!s = tensor<f32>
!w = tensor<32x64xbf16>
!x = tensor<8x32xbf16>
!xt = tensor<32x8xbf16, #aten.strides<[1, 32]>>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !w
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !x
    %targets = fsdp.input "targets" : !t
    %others = fsdp.input "others" : !t
    %w = fsdp.read @w : !w
    %logits = aten.call "mm.default"(%x, %w) fwd in "" : (!x, !w) -> !l
    %cast = aten.call "_to_copy.default"(%logits, f32, none, none, none, false, none) fwd in "" : (!l) -> !f
    %logs = aten.call "_log_softmax.default"(%cast, 1, false) fwd in "" : (!f) -> !f
    %loss:2 = aten.call "nll_loss_forward.default"(%logs, %targets, none, 1, -7) fwd in "" : (!f, !t) -> (!s, !s)
    %one = aten.call "ones_like.default"(%loss#0, none, none, none, none, #aten.memory_format<contiguous>) bwd in "" : (!s) -> !s
    %a = aten.call "nll_loss_backward.default"(%one, %logs, %targets, none, 1, -7, %loss#1) bwd in "" : (!s, !f, !t, !s) -> !f
    %b = aten.call "_log_softmax_backward_data.default"(%a, %logs, 1, f32) bwd in "" : (!f, !f) -> !f
    %c = aten.call "_to_copy.default"(%b, bf16, none, none, none, false, none) bwd in "" : (!f) -> !l
    %xt = aten.call "t.default"(%x) bwd in "" : (!x) -> !xt
    %d = aten.call "mm.default"(%xt, %c) bwd in "" : (!xt, !l) -> !w
    fsdp.grad @w, %d : !w
    fsdp.update @w step %step lr %lr
    return %loss#0 : !s
  }
}
