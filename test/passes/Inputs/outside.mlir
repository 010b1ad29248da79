!m = tensor<4x4xf32>
!s = tensor<f32>
func.func @step() -> !s {
  %x = fsdp.input "x" : !m
  %y = aten.call "relu.default"(%x) fwd in "l" : (!m) -> !m
  %z = aten.call "mm.default"(%x, %x) fwd in "head" : (!m, !m) -> !m
  %u = aten.call "relu.default"(%y) fwd in "l" : (!m) -> !m
  %loss = aten.call "sum.default"(%z, none) fwd in "" : (!m) -> !s
  return %loss : !s
}
