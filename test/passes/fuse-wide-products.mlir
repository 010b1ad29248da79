// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=fast" --remarks-filter-analyse="fsdp-fuse|fsdp-plan-memory" -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=exact" | FileCheck %s --check-prefix=NARROW
// RUN: sed 's/fsdp.target = #fsdp.target<cuda>, //' %s | fsdp-opt --fsdp-pipeline="mesh=dp=2 fusion=fast" | FileCheck %s --check-prefix=NARROW
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 microbatches=2 microbatch-loss=sum gradient-sync=last fusion=fast" | FileCheck %s --check-prefix=SUM

// On GPUs a product stores the gradient of a weight in fp32, where the reduction reads it. Views that undo each other
// go, a transposition that stays shows the product in fp32.
// CHECK-LABEL: func.func @step
// CHECK: %[[B:.+]] = aten.call "mm.dtype"(%{{.+}}, %{{.+}}, f32) bwd in "b" at [{{[0-9]+}}] : ({{.*}}bf16>) -> tensor<16x32xf32>
// CHECK: %[[MM:.+]] = aten.call "mm.dtype"({{.+}}) bwd in "a" at [{{[0-9]+}}] : {{.*}} -> tensor<32x16xf32>
// CHECK: %[[A:.+]] = aten.call "t.default"(%[[MM]]) bwd in "a" : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<[1, 16]>>

// A product that something else reads, too, stays as it is, and so does the cast of what is no product.
// CHECK: %[[TWICE:.+]] = aten.call "mm.default"({{.+}}) bwd in "c" at [{{[0-9]+}}] : {{.*}} -> tensor<16x32xbf16>
// CHECK: %[[C:.+]] = aten.call "_to_copy.default"(%[[TWICE]], f32,
// CHECK: %[[D:.+]] = aten.call "_to_copy.default"(%squeeze, f32,
// CHECK: fsdp.reduce_scatter.start @root(%[[A]], %[[B]], %[[C]], %[[D]])
// REMARK-DAG: Category:fsdp-fuse | {{.*}}WideProducts=2
// REMARK-DAG: Category:fsdp-plan-memory | {{.*}}GradientsCopied=1, GradientsPlaced=3

// Neither torch's bits nor a CPU's operators are such.
// NARROW-NOT: mm.dtype

// Gradients that are added up are not different.
// SUM: %[[FIRST:.+]] = aten.call "mm.dtype"({{.+}}) bwd in "b"
// SUM: %[[SECOND:.+]] = aten.call "mm.dtype"({{.+}}) bwd in "b" microbatch 1
// SUM: fsdp.accumulate {{.*}}%[[FIRST]], %[[SECOND]]

// The proof takes just this for the cast of the product that was captured: not one of other operands, in another dtype,
// by another operator or through another view. The digest is the same either way.
// RUN: sed 's/\("mm.dtype"(%%t_[0-9]*, %%fused[a-z_]*\)#2/\1#3/' %t.mlir > %t.operand.mlir
// RUN: not fsdp-opt %t.operand.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: sed 's/\("mm.dtype"(.*%%x\), f32)/\1, f16)/' %t.mlir > %t.dtype.mlir
// RUN: not fsdp-opt %t.dtype.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: sed 's/"mm.dtype"\(.*%%x, f32)\)/"bmm.dtype"\1/' %t.mlir > %t.operator.mlir
// RUN: not fsdp-opt %t.operator.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: sed 's/"t.default"\(.* (tensor<32x16xf32>)\)/"numpy_T.default"\1/' %t.mlir > %t.view.mlir
// RUN: not fsdp-opt %t.view.mlir --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: grep -o 'provenance = "[0-9a-f]*"' %t.mlir > %t.digest
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=off" | grep -o 'provenance = "[0-9a-f]*"' | cmp - %t.digest

// A step for CPUs has no such product: torch has it for CUDA alone. The cast of c's product becomes one here.
// RUN: sed 's/fsdp.target = #fsdp.target<cuda>, //' %s | fsdp-opt --fsdp-pipeline="mesh=dp=2 fusion=off up-to=scheduled" > %t.cpu.mlir
// RUN: sed 's/"_to_copy.default"(%%mm_17.*/"mm.dtype"(%%t_16, %%x, f32) bwd in "c" : (tensor<16x8xbf16, #aten.strides<[1, 16]>>, tensor<8x32xbf16>) -> tensor<16x32xf32>/' %t.cpu.mlir > %t.wide.mlir
// RUN: not fsdp-opt %t.wide.mlir --fsdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=ELSE
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=off up-to=scheduled" | sed 's/"_to_copy.default"(%%mm_17.*/"mm.dtype"(%%t_16, %%x, f32) bwd in "c" : (tensor<16x8xbf16, #aten.strides<[1, 16]>>, tensor<8x32xbf16>) -> tensor<16x32xf32>/' | fsdp-opt --fsdp-verify-scheduled
// ELSE: S9: the step computes something else than what was captured
!w = tensor<16x32xf32>
!n = tensor<16x32xbf16>
!nt = tensor<32x16xbf16, #aten.strides<[1, 32]>>
!ft = tensor<16x32xf32, #aten.strides<[1, 16]>>
!bt = tensor<16x32xbf16, #aten.strides<[1, 16]>>
!x = tensor<8x32xbf16>
!xt = tensor<32x8xbf16, #aten.strides<[1, 32]>>
!y = tensor<8x16xbf16>
!yt = tensor<16x8xbf16, #aten.strides<[1, 16]>>
!s = tensor<f32>
module attributes {fsdp.target = #fsdp.target<cuda>, fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a.w : !w
  fsdp.param @b.w : !w
  fsdp.param @c.w : !w
  fsdp.param @d.w : tensor<16xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !x
    %a.w = fsdp.read @a.w : !w
    %b.w = fsdp.read @b.w : !w
    %c.w = fsdp.read @c.w : !w
    %d.w = fsdp.read @d.w : tensor<16xf32>
    %a = aten.call "_to_copy.default"(%a.w, bf16, none, none, none, false, none) fwd in "a" : (!w) -> !n
    %at = aten.call "t.default"(%a) fwd in "a" : (!n) -> !nt
    %ya = aten.call "mm.default"(%x, %at) fwd in "a" : (!x, !nt) -> !y
    %b = aten.call "_to_copy.default"(%b.w, bf16, none, none, none, false, none) fwd in "b" : (!w) -> !n
    %bt = aten.call "t.default"(%b) fwd in "b" : (!n) -> !nt
    %yb = aten.call "mm.default"(%x, %bt) fwd in "b" : (!x, !nt) -> !y
    %c = aten.call "_to_copy.default"(%c.w, bf16, none, none, none, false, none) fwd in "c" : (!w) -> !n
    %ct = aten.call "t.default"(%c) fwd in "c" : (!n) -> !nt
    %yc = aten.call "mm.default"(%x, %ct) fwd in "c" : (!x, !nt) -> !y
    %d = aten.call "_to_copy.default"(%d.w, bf16, none, none, none, false, none) fwd in "d" : (tensor<16xf32>) -> tensor<16xbf16>
    %ab = aten.call "mul.Tensor"(%ya, %yb) fwd in "" : (!y, !y) -> !y
    %abc = aten.call "mul.Tensor"(%ab, %yc) fwd in "" : (!y, !y) -> !y
    %abcd = aten.call "add.Tensor"(%abc, %d, 1) fwd in "" : (!y, tensor<16xbf16>) -> !y
    %wide = aten.call "_to_copy.default"(%abcd, f32, none, none, none, false, none) fwd in "" : (!y) -> tensor<8x16xf32>
    %loss = aten.call "sum.default"(%wide, none) fwd in "" : (tensor<8x16xf32>) -> !s
    %bc = aten.call "mul.Tensor"(%yb, %yc) bwd in "" : (!y, !y) -> !y
    %ac = aten.call "mul.Tensor"(%ya, %yc) bwd in "" : (!y, !y) -> !y
    %act = aten.call "t.default"(%ac) bwd in "b" : (!y) -> !yt
    %mb = aten.call "mm.default"(%act, %x) bwd in "b" : (!yt, !x) -> !n
    %mbt = aten.call "t.default"(%mb) bwd in "b" : (!n) -> !nt
    %gb = aten.call "t.default"(%mbt) bwd in "b" : (!nt) -> !n
    %db = aten.call "_to_copy.default"(%gb, f32, #aten.strided, #aten.device, none, false, none) bwd in "b" : (!n) -> !w
    fsdp.grad @b.w, %db : !w
    %xt = aten.call "t.default"(%x) bwd in "a" : (!x) -> !xt
    %ma = aten.call "mm.default"(%xt, %bc) bwd in "a" : (!xt, !y) -> tensor<32x16xbf16>
    %ga = aten.call "t.default"(%ma) bwd in "a" : (tensor<32x16xbf16>) -> !bt
    %da = aten.call "_to_copy.default"(%ga, f32, #aten.strided, #aten.device, none, false, none) bwd in "a" : (!bt) -> !ft
    fsdp.grad @a.w, %da : !ft
    %abt = aten.call "t.default"(%ab) bwd in "c" : (!y) -> !yt
    %mc = aten.call "mm.default"(%abt, %x) bwd in "c" : (!yt, !x) -> !n
    %dc = aten.call "_to_copy.default"(%mc, f32, #aten.strided, #aten.device, none, false, none) bwd in "c" : (!n) -> !w
    fsdp.grad @c.w, %dc : !w
    %again = aten.call "sum.dim_IntList"(%mc, array<i64: 1>, false, none) bwd in "d" : (!n) -> tensor<16xbf16>
    %dd = aten.call "_to_copy.default"(%again, f32, #aten.strided, #aten.device, none, false, none) bwd in "d" : (tensor<16xbf16>) -> tensor<16xf32>
    fsdp.grad @d.w, %dd : tensor<16xf32>
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    fsdp.update @c.w step %step lr %lr
    fsdp.update @d.w step %step lr %lr
    return %loss : !s
  }
}
