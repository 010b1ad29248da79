// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=fast" -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=exact" | FileCheck %s --check-prefix=EXACT
// RUN: sed 's/4096/64/g' %s | fsdp-opt --fsdp-pipeline="mesh=dp=2 fusion=fast" | FileCheck %s --check-prefix=SMALL

// A fast kernel computes a layer norm, here of a product that a cast would round, and of its backward the gradients of
// weight and bias too: one row for each of 512 chunks of 8. So does it of what the norm's gradient is added up to.
// CHECK-LABEL: fsdp.kernel @{{.+}} fast {
// CHECK: ^bb0(%[[X:.+]]: tensor<4096x2048xbf16>,
// CHECK: %[[WIDE:.+]] = aten.call "_to_copy.default"(%[[X]], f32,
// CHECK: %[[MEAN:.+]] = aten.call "mean.dim"(%[[WIDE]], [-1], true, none)
// CHECK: %[[MOVED:.+]] = aten.call "sub.Tensor"(%[[WIDE]], %[[MEAN]], 1)
// CHECK: aten.call "add.Scalar"(%{{.+}}, 1.000000e-05, 1)
// CHECK: %[[RSTD:.+]] = aten.call "rsqrt.default"
// CHECK: fsdp.yield %[[MEAN]], %[[RSTD]], %{{.+}} : tensor<4096x1xf32>, tensor<4096x1xf32>, tensor<4096x2048xbf16>
// CHECK-LABEL: fsdp.kernel
// CHECK: fsdp.yield {{.*}} : tensor<512x2048xf32>, tensor<512x2048xf32>, tensor<512x2048xf32>
// CHECK-NOT: native_layer_norm

// EXACT: aten.call "native_layer_norm.default"
// EXACT: aten.call "native_layer_norm_backward.default"

// Of few rows torch's operator adds the gradients up.
// SMALL-NOT: "native_layer_norm.default"
// SMALL: aten.call "native_layer_norm_backward.default"

// The proof takes just this for the norm that was captured, whose numbers are a product that the text has in fp32.
// RUN: sed 's/1.000000e-05, 1)/2.000000e-05, 1)/' %t.mlir > %t.eps.mlir
// RUN: not fsdp-opt %t.eps.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: sed 's/"mean.dim"\(.*\), \[-1\], true/"sum.dim_IntList"\1, [-1], true/' %t.mlir > %t.sum.mlir
// RUN: not fsdp-opt %t.sum.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: grep -o 'provenance = "[0-9a-f]*"' %t.mlir > %t.digest
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=off" | grep -o 'provenance = "[0-9a-f]*"' | cmp - %t.digest
// ELSE: S9: the step computes something else than what was captured
!v = tensor<2048xf32>
!n = tensor<2048xbf16>
!x = tensor<4096x2048xbf16>
!r = tensor<4096x1xf32>
!m = tensor<2048x2048xbf16>
!s = tensor<f32>
module attributes {fsdp.target = #fsdp.target<cuda>, fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @norm.w : !v
  fsdp.param @norm.b : !v
  fsdp.param @a.b : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a = fsdp.input "a" : !x
    %b = fsdp.input "b" : !m
    %norm.w = fsdp.read @norm.w : !v
    %norm.b = fsdp.read @norm.b : !v
    %x = aten.call "mm.default"(%a, %b) fwd in "" : (!x, !m) -> !x
    %w = aten.call "_to_copy.default"(%norm.w, bf16, none, none, none, false, none) fwd in "norm" : (!v) -> !n
    %c = aten.call "_to_copy.default"(%norm.b, bf16, none, none, none, false, none) fwd in "norm" : (!v) -> !n
    %y:3 = aten.call "native_layer_norm.default"(%x, [2048], %w, %c, 1.0e-5) fwd in "norm" : (!x, !n, !n) -> (!x, !r, !r)
    %z = aten.call "mm.default"(%y#0, %b) fwd in "" : (!x, !m) -> !x
    %loss = aten.call "sum.default"(%z, f32) fwd in "" : (!x) -> !s
    %d:3 = aten.call "native_layer_norm_backward.default"(%z, %x, [2048], %y#1, %y#2, %w, %c, [true, true, true]) bwd in "norm" : (!x, !x, !r, !r, !n, !n) -> (!x, !n, !n)
    %dw = aten.call "_to_copy.default"(%d#1, f32, none, none, none, false, none) bwd in "norm" : (!n) -> !v
    fsdp.grad @norm.w, %dw : !v
    %db = aten.call "_to_copy.default"(%d#2, f32, none, none, none, false, none) bwd in "norm" : (!n) -> !v
    fsdp.grad @norm.b, %db : !v
    %rows = aten.call "sum.dim_IntList"(%d#0, [0], false, none) bwd in "a" : (!x) -> !n
    %da = aten.call "_to_copy.default"(%rows, f32, none, none, none, false, none) bwd in "a" : (!n) -> !v
    fsdp.grad @a.b, %da : !v
    fsdp.update @norm.w step %step lr %lr
    fsdp.update @norm.b step %step lr %lr
    fsdp.update @a.b step %step lr %lr
    return %loss : !s
  }
}
