module attributes {fsdp.model = "embedding", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @embed.weight : tensor<12x8xf32>
  fsdp.param @head.weight : tensor<12x8xf32>
  fsdp.optimizer adamw lr = 1.0e-3 weight_decay = 1.0e-2 betas = [0.9, 0.999] eps = 1.0e-8
  func.func @step() -> tensor<f32> {
    %tokens = fsdp.input "tokens" : tensor<8xi64>
    %targets = fsdp.input "targets" : tensor<8xi64>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %embed.weight = fsdp.read @embed.weight : tensor<12x8xf32>
    %embedding = aten.call "embedding.default"(%embed.weight, %tokens, -1, false, false) fwd in "embed" : (tensor<12x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
    %relu = aten.call "relu.default"(%embedding) fwd in "" : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %head.weight = fsdp.read @head.weight : tensor<12x8xf32>
    %t = aten.call "t.default"(%head.weight) fwd in "head" : (tensor<12x8xf32>) -> tensor<8x12xf32, #aten.strides<[1, 8]>>
    %mm = aten.call "mm.default"(%relu, %t) fwd in "head" : (tensor<8x8xf32>, tensor<8x12xf32, #aten.strides<[1, 8]>>) -> tensor<8x12xf32>
    %_log_softmax = aten.call "_log_softmax.default"(%mm, 1, false) fwd in "" : (tensor<8x12xf32>) -> tensor<8x12xf32>
    %nll_loss_forward:2 = aten.call "nll_loss_forward.default"(%_log_softmax, %targets, none, 1, -100) fwd in "" : (tensor<8x12xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
    %ones_like = aten.call "ones_like.default"(%nll_loss_forward#0, none, none, none, none, #aten.memory_format<contiguous>) bwd in "" : (tensor<f32>) -> tensor<f32>
    %nll_loss_backward = aten.call "nll_loss_backward.default"(%ones_like, %_log_softmax, %targets, none, 1, -100, %nll_loss_forward#1) bwd in "" : (tensor<f32>, tensor<8x12xf32>, tensor<8xi64>, tensor<f32>) -> tensor<8x12xf32>
    %_log_softmax_backward_data = aten.call "_log_softmax_backward_data.default"(%nll_loss_backward, %_log_softmax, 1, f32) bwd in "" : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
    %t_0 = aten.call "t.default"(%_log_softmax_backward_data) bwd in "head" : (tensor<8x12xf32>) -> tensor<12x8xf32, #aten.strides<[1, 12]>>
    %mm_1 = aten.call "mm.default"(%t_0, %relu) bwd in "head" : (tensor<12x8xf32, #aten.strides<[1, 12]>>, tensor<8x8xf32>) -> tensor<12x8xf32>
    %t_2 = aten.call "t.default"(%mm_1) bwd in "head" : (tensor<12x8xf32>) -> tensor<8x12xf32, #aten.strides<[1, 8]>>
    %t_3 = aten.call "t.default"(%t) bwd in "head" : (tensor<8x12xf32, #aten.strides<[1, 8]>>) -> tensor<12x8xf32>
    %mm_4 = aten.call "mm.default"(%_log_softmax_backward_data, %t_3) bwd in "head" : (tensor<8x12xf32>, tensor<12x8xf32>) -> tensor<8x8xf32>
    %t_5 = aten.call "t.default"(%t_2) bwd in "head" : (tensor<8x12xf32, #aten.strides<[1, 8]>>) -> tensor<12x8xf32>
    fsdp.grad @head.weight, %t_5 : tensor<12x8xf32>
    %threshold_backward = aten.call "threshold_backward.default"(%mm_4, %relu, 0) bwd in "" : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %embedding_dense_backward = aten.call "embedding_dense_backward.default"(%threshold_backward, %tokens, 12, -1, false) bwd in "embed" : (tensor<8x8xf32>, tensor<8xi64>) -> tensor<12x8xf32>
    fsdp.grad @embed.weight, %embedding_dense_backward : tensor<12x8xf32>
    fsdp.update @embed.weight step %step lr %lr
    fsdp.update @head.weight step %step lr %lr
    return %nll_loss_forward#0 : tensor<f32>
  }
}
