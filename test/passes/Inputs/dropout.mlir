// Two layers with dropout between them, whose backward uses what the forward drew.
!m = tensor<8x8xf32>
!h = tensor<8x8xbf16>
!mask = tensor<8x8xi1>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a.w : !m
  fsdp.param @b.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !h
    %a = fsdp.read @a.w : !m
    %ah = aten.call "_to_copy.default"(%a, bf16, none, none, none, false, none) fwd in "a" : (!m) -> !h
    %ma = aten.call "mm.default"(%x, %ah) fwd in "a" : (!h, !h) -> !h
    %da:2 = aten.call "native_dropout.default"(%ma, 1.000000e-01, true) fwd in "a" rng 0 : (!h) -> (!h, !mask)
    %ra = aten.call "relu.default"(%da#0) fwd in "a" : (!h) -> !h
    %b = fsdp.read @b.w : !m
    %bh = aten.call "_to_copy.default"(%b, bf16, none, none, none, false, none) fwd in "b" : (!m) -> !h
    %mb = aten.call "mm.default"(%ra, %bh) fwd in "b" : (!h, !h) -> !h
    %db:2 = aten.call "native_dropout.default"(%mb, 1.000000e-01, true) fwd in "b" rng 1 : (!h) -> (!h, !mask)
    %loss = aten.call "sum.default"(%db#0, f32) fwd in "" : (!h) -> tensor<f32>
    %gb = aten.call "mul.Tensor"(%db#0, %db#1) bwd in "b" : (!h, !mask) -> !h
    %gbf = aten.call "_to_copy.default"(%gb, f32, none, none, none, false, none) bwd in "b" : (!h) -> !m
    %ga = aten.call "mul.Tensor"(%ra, %da#1) bwd in "a" : (!h, !mask) -> !h
    %gaf = aten.call "_to_copy.default"(%ga, f32, none, none, none, false, none) bwd in "a" : (!h) -> !m
    fsdp.grad @a.w, %gaf : !m
    fsdp.grad @b.w, %gbf : !m
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
