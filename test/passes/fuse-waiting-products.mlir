// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 fusion=fast" -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: sed 's/%%mw = /%%wide = /; s/fsdp.grad @b.w, %%mw/%%mw = aten.call "relu.default"(%%wide) bwd in "b" : (!b) -> !b\n    &/' %s | fsdp-opt --fsdp-pipeline="mesh=dp=2 fusion=fast" | FileCheck %s --check-prefix=READ

// What the gradient of b's weight reads is computed of what the backward of the activation reads too, behind the
// product that is the gradient of b's input. The weight's gradient waits for one kernel that computes both.
// CHECK-LABEL: func.func @step
// CHECK: %[[Y:.+]] = aten.call "mm.default"(%x, %{{.+}}) fwd in "a"
// CHECK: %[[D:.+]] = aten.call "mm.default"(%{{.+}}, %{{.+}}) bwd in "b"
// CHECK-NEXT: %[[BOTH:.+]]:2 = fsdp.launch @{{.+}}(%[[Y]], %[[D]])
// CHECK: aten.call "mm.default"(%{{.+}}, %[[BOTH]]#{{[01]}}) bwd in "b" {{.*}} -> tensor<32x64xf32>
// What only reads the same, as the backward of the scale by c.w does, is one kernel too, whatever else it reads.
// CHECK: %[[DN:.+]] = aten.call "mm.default"(%[[BOTH]]#{{[01]}}, %{{.+}}) bwd in "a" {{.*}} -> tensor<8x32xf32>
// CHECK: %[[SCALE:.+]]:2 = fsdp.launch @{{.+}}(%x, %{{.+}}, %[[DN]]) bwd
// CHECK: aten.call "mm.default"(%{{.+}}, %[[SCALE]]#{{[01]}}) bwd in "a" {{.*}} -> tensor<64x32xf32>
// CHECK: aten.call "sum.dim_IntList"(%[[SCALE]]#{{[01]}}, [0]

// A product that a call of the window reads does not wait.
// READ: %[[H:.+]] = fsdp.launch @{{.+}}(%{{.+}}) bwd in
// READ: %[[MW:.+]] = aten.call "mm.default"(%{{.+}}, %[[H]]) bwd in "b"
// READ: aten.call "mm.default"(%{{.+}}, %{{.+}}) bwd in "b"
!x = tensor<8x32xf32>
!xt = tensor<32x8xf32, #aten.strides<[1, 32]>>
!h = tensor<8x64xf32>
!ht = tensor<64x8xf32, #aten.strides<[1, 64]>>
!a = tensor<64x32xf32>
!at = tensor<32x64xf32, #aten.strides<[1, 32]>>
!b = tensor<32x64xf32>
!bt = tensor<64x32xf32, #aten.strides<[1, 64]>>
!c = tensor<32xf32>
!s = tensor<f32>
module attributes {fsdp.target = #fsdp.target<cuda>, fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a.w : !a
  fsdp.param @b.w : !b
  fsdp.param @c.w : !c
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !x
    %a.w = fsdp.read @a.w : !a
    %b.w = fsdp.read @b.w : !b
    %c.w = fsdp.read @c.w : !c
    %at = aten.call "t.default"(%a.w) fwd in "a" : (!a) -> !at
    %y = aten.call "mm.default"(%x, %at) fwd in "a" : (!x, !at) -> !h
    %bt = aten.call "t.default"(%b.w) fwd in "b" : (!b) -> !bt
    %z = aten.call "mm.default"(%y, %bt) fwd in "b" : (!h, !bt) -> !x
    %loss = aten.call "sum.default"(%z, none) fwd in "" : (!x) -> !s
    %dz = aten.call "_softmax.default"(%z, -1, false) bwd in "" : (!x) -> !x
    %dzt = aten.call "t.default"(%dz) bwd in "b" : (!x) -> !xt
    %g = aten.call "silu.default"(%y) bwd in "b" : (!h) -> !h
    %h = aten.call "mul.Tensor"(%g, %y) bwd in "b" : (!h, !h) -> !h
    %mw = aten.call "mm.default"(%dzt, %h) bwd in "b" : (!xt, !h) -> !b
    %dh = aten.call "mm.default"(%dz, %b.w) bwd in "b" : (!x, !b) -> !h
    %dg = aten.call "mul.Tensor"(%dh, %y) bwd in "b" : (!h, !h) -> !h
    %dy = aten.call "silu_backward.default"(%dg, %y) bwd in "b" : (!h, !h) -> !h
    %dyt = aten.call "t.default"(%dy) bwd in "a" : (!h) -> !ht
    %n = aten.call "mul.Tensor"(%x, %c.w) bwd in "c" : (!x, !c) -> !x
    %ma = aten.call "mm.default"(%dyt, %n) bwd in "a" : (!ht, !x) -> !a
    %dn = aten.call "mm.default"(%dy, %a.w) bwd in "a" : (!h, !a) -> !x
    %twice = aten.call "add.Tensor"(%dn, %dn, 1) bwd in "c" : (!x, !x) -> !x
    %dc = aten.call "mul.Tensor"(%twice, %x) bwd in "c" : (!x, !x) -> !x
    %mc = aten.call "sum.dim_IntList"(%dc, [0], false, none) bwd in "c" : (!x) -> !c
    fsdp.grad @b.w, %mw : !b
    fsdp.grad @a.w, %ma : !a
    fsdp.grad @c.w, %mc : !c
    fsdp.update @a.w step %step lr %lr
    fsdp.update @c.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : !s
  }
}
