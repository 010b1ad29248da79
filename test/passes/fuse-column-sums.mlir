// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=fast" -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=exact" | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/2x2048x2048/2x1024x2048/g' %s | fsdp-opt --fsdp-pipeline="mesh=dp=2 fusion=fast" | FileCheck %s --check-prefix=WHOLE

// The gradient of a norm's weight is a sum over all rows. The kernel that computes what is summed adds up 512 chunks of
// 8 rows, and stores one row for each; of what it adds up nothing is stored.
// CHECK-LABEL: fsdp.kernel @fused_
// CHECK: %[[GATE:.+]] = aten.call "tanh.default"
// CHECK: %[[MUL:.+]] = aten.call "mul.Tensor"(%[[GATE]],
// CHECK: %[[CUT:.+]] = aten.call "view.default"(%[[MUL]], [512, 8, 2048])
// CHECK: %[[SUM:.+]] = aten.call "sum.dim_IntList"(%[[CUT]], [1], false, f32)
// CHECK: fsdp.yield %{{.+}}, %[[SUM]] : tensor<2x2048x2048xf32>, tensor<512x2048xf32>
// CHECK-LABEL: func.func @step
// CHECK: %[[LAUNCH:.+]]:2 = fsdp.launch @fused_{{.*}} -> (tensor<2x2048x2048xf32>, tensor<512x2048xf32>)
// CHECK: %[[ALL:.+]] = aten.call "sum.dim_IntList"(%[[LAUNCH]]#1, [0], false, f32) bwd in "norm" at [{{[0-9]+}}] : (tensor<512x2048xf32>) -> tensor<2048xf32>
// CHECK: %[[SHORT:.+]] = aten.call "_to_copy.default"(%[[ALL]], bf16,
// CHECK: aten.call "view.default"(%[[SHORT]], [1, 1, 2048])

// Not so with torch's bits, nor of a tensor that is small.
// WHOLE-NOT: [512, 8, 2048]
// WHOLE: aten.call "sum.dim_IntList"(%{{.+}}, [0, 1], true, none)

// The proof takes just this for the sum that was captured.
// RUN: sed 's/"sum.dim_IntList"\(.*\), \[0\], false/"mean.dim"\1, [0], false/' %t.mlir > %t.mean.mlir
// RUN: not fsdp-opt %t.mean.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: grep -o 'provenance = "[0-9a-f]*"' %t.mlir > %t.digest
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=off" | grep -o 'provenance = "[0-9a-f]*"' | cmp - %t.digest
// ELSE: S9: the step computes something else than what was captured

// What a kernel adds up nothing in it reads, and all chunks of a kernel have the same rows.
// RUN: sed 's/fsdp.provenance = "[0-9a-f]*", //; s/fsdp.yield \(.*\), %%sum :/%%n = aten.call "neg.default"(%%sum) fwd in "" : (tensor<512x2048xf32>) -> tensor<512x2048xf32>\n    fsdp.yield \1, %%n :/' %t.mlir > %t.read.mlir
// RUN: not fsdp-compile %t.read.mlir --emit kernels 2>&1 | FileCheck %s --check-prefix=READ
// READ: cannot be generated: 'sum.dim_IntList' has a shape that does not fit the kernel's
!v = tensor<2048xf32>
!n = tensor<2048xbf16>
!x = tensor<2x2048x2048xbf16>
!f = tensor<2x2048x2048xf32>
!o = tensor<1x1x2048xbf16>
!s = tensor<f32>
module attributes {fsdp.target = #fsdp.target<cuda>, fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @norm.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !x
    %norm.w = fsdp.read @norm.w : !v
    %w = aten.call "_to_copy.default"(%norm.w, bf16, none, none, none, false, none) fwd in "norm" : (!v) -> !n
    %y = aten.call "mul.Tensor"(%x, %w) fwd in "norm" : (!x, !n) -> !x
    %wide = aten.call "_to_copy.default"(%y, f32, none, none, none, false, none) fwd in "" : (!x) -> !f
    %loss = aten.call "sum.default"(%wide, none) fwd in "" : (!f) -> !s
    %gate = aten.call "tanh.default"(%y) bwd in "" : (!x) -> !x
    %g = aten.call "mul.Tensor"(%gate, %x) bwd in "norm" : (!x, !x) -> !x
    %all = aten.call "sum.dim_IntList"(%g, [0, 1], true, none) bwd in "norm" : (!x) -> !o
    %short = aten.call "view.default"(%all, [2048]) bwd in "norm" : (!o) -> !n
    %grad = aten.call "_to_copy.default"(%short, f32, none, none, none, false, none) bwd in "norm" : (!n) -> !v
    fsdp.grad @norm.w, %grad : !v
    fsdp.update @norm.w step %step lr %lr
    return %loss : !s
  }
}
