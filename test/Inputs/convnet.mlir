module attributes {fsdp.model = "convnet", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @stem.weight : tensor<32x2x3x3xf32>
  fsdp.param @stem.bias : tensor<32xf32>
  fsdp.param @layers.0.conv.weight : tensor<32x32x3x3xf32>
  fsdp.param @layers.0.bn.weight : tensor<32xf32>
  fsdp.param @layers.0.bn.bias : tensor<32xf32>
  fsdp.param @layers.1.conv.weight : tensor<32x32x3x3xf32>
  fsdp.param @layers.1.bn.weight : tensor<32xf32>
  fsdp.param @layers.1.bn.bias : tensor<32xf32>
  fsdp.param @head.weight : tensor<10x32xf32>
  fsdp.param @head.bias : tensor<10xf32>
  fsdp.buffer @layers.0.bn.running_mean : tensor<32xf32>
  fsdp.buffer @layers.0.bn.running_var : tensor<32xf32>
  fsdp.buffer @layers.0.bn.num_batches_tracked : tensor<i64>
  fsdp.buffer @layers.1.bn.running_mean : tensor<32xf32>
  fsdp.buffer @layers.1.bn.running_var : tensor<32xf32>
  fsdp.buffer @layers.1.bn.num_batches_tracked : tensor<i64>
  fsdp.optimizer sgd lr = 1.000000e-03 weight_decay = 0.000000e+00 momentum = 9.000000e-01
  func.func @step() -> tensor<f32> {
    %images = fsdp.input "images" : tensor<2x2x8x8xf32>
    %targets = fsdp.input "targets" : tensor<2xi64>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %stem.weight = fsdp.read @stem.weight : tensor<32x2x3x3xf32>
    %stem.bias = fsdp.read @stem.bias : tensor<32xf32>
    %convolution = aten.call "convolution.default"(%images, %stem.weight, %stem.bias, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) fwd in "stem" : (tensor<2x2x8x8xf32>, tensor<32x2x3x3xf32>, tensor<32xf32>) -> tensor<2x32x8x8xf32>
    %max_pool2d_with_indices:2 = aten.call "max_pool2d_with_indices.default"(%convolution, [2, 2], [], [0, 0], [1, 1], false) fwd in "" : (tensor<2x32x8x8xf32>) -> (tensor<2x32x4x4xf32>, tensor<2x32x4x4xi64>)
    %layers.0.conv.weight = fsdp.read @layers.0.conv.weight : tensor<32x32x3x3xf32>
    %convolution_0 = aten.call "convolution.default"(%max_pool2d_with_indices#0, %layers.0.conv.weight, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) fwd in "layers.0.conv" : (tensor<2x32x4x4xf32>, tensor<32x32x3x3xf32>) -> tensor<2x32x4x4xf32>
    %layers.0.bn.num_batches_tracked = fsdp.read @layers.0.bn.num_batches_tracked : tensor<i64>
    %add = aten.call "add.Scalar"(%layers.0.bn.num_batches_tracked, 1, 1) fwd in "layers.0.bn" : (tensor<i64>) -> tensor<i64>
    %layers.0.bn.weight = fsdp.read @layers.0.bn.weight : tensor<32xf32>
    %layers.0.bn.bias = fsdp.read @layers.0.bn.bias : tensor<32xf32>
    %layers.0.bn.running_mean = fsdp.read @layers.0.bn.running_mean : tensor<32xf32>
    %layers.0.bn.running_var = fsdp.read @layers.0.bn.running_var : tensor<32xf32>
    %_native_batch_norm_legit_functional:5 = aten.call "_native_batch_norm_legit_functional.default"(%convolution_0, %layers.0.bn.weight, %layers.0.bn.bias, %layers.0.bn.running_mean, %layers.0.bn.running_var, true, 1.000000e-01, 1.000000e-05) fwd in "layers.0.bn" : (tensor<2x32x4x4xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x32x4x4xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>)
    %relu = aten.call "relu.default"(%_native_batch_norm_legit_functional#0) fwd in "layers.0" : (tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xf32>
    %add_1 = aten.call "add.Tensor"(%max_pool2d_with_indices#0, %relu, 1) fwd in "layers.0" : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xf32>
    %layers.1.conv.weight = fsdp.read @layers.1.conv.weight : tensor<32x32x3x3xf32>
    %convolution_2 = aten.call "convolution.default"(%add_1, %layers.1.conv.weight, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) fwd in "layers.1.conv" : (tensor<2x32x4x4xf32>, tensor<32x32x3x3xf32>) -> tensor<2x32x4x4xf32>
    %layers.1.bn.num_batches_tracked = fsdp.read @layers.1.bn.num_batches_tracked : tensor<i64>
    %add_3 = aten.call "add.Scalar"(%layers.1.bn.num_batches_tracked, 1, 1) fwd in "layers.1.bn" : (tensor<i64>) -> tensor<i64>
    %layers.1.bn.weight = fsdp.read @layers.1.bn.weight : tensor<32xf32>
    %layers.1.bn.bias = fsdp.read @layers.1.bn.bias : tensor<32xf32>
    %layers.1.bn.running_mean = fsdp.read @layers.1.bn.running_mean : tensor<32xf32>
    %layers.1.bn.running_var = fsdp.read @layers.1.bn.running_var : tensor<32xf32>
    %_native_batch_norm_legit_functional_4:5 = aten.call "_native_batch_norm_legit_functional.default"(%convolution_2, %layers.1.bn.weight, %layers.1.bn.bias, %layers.1.bn.running_mean, %layers.1.bn.running_var, true, 1.000000e-01, 1.000000e-05) fwd in "layers.1.bn" : (tensor<2x32x4x4xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x32x4x4xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>)
    %relu_5 = aten.call "relu.default"(%_native_batch_norm_legit_functional_4#0) fwd in "layers.1" : (tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xf32>
    %add_6 = aten.call "add.Tensor"(%add_1, %relu_5, 1) fwd in "layers.1" : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xf32>
    %mean = aten.call "mean.dim"(%add_6, [2, 3], false, none) fwd in "" : (tensor<2x32x4x4xf32>) -> tensor<2x32xf32>
    %head.weight = fsdp.read @head.weight : tensor<10x32xf32>
    %t = aten.call "t.default"(%head.weight) fwd in "head" : (tensor<10x32xf32>) -> tensor<32x10xf32, #aten.strides<[1, 32]>>
    %head.bias = fsdp.read @head.bias : tensor<10xf32>
    %addmm = aten.call "addmm.default"(%head.bias, %mean, %t, 1, 1) fwd in "head" : (tensor<10xf32>, tensor<2x32xf32>, tensor<32x10xf32, #aten.strides<[1, 32]>>) -> tensor<2x10xf32>
    %_log_softmax = aten.call "_log_softmax.default"(%addmm, 1, false) fwd in "" : (tensor<2x10xf32>) -> tensor<2x10xf32>
    %nll_loss_forward:2 = aten.call "nll_loss_forward.default"(%_log_softmax, %targets, none, 1, -100) fwd in "" : (tensor<2x10xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<f32>)
    %ones_like = aten.call "ones_like.default"(%nll_loss_forward#0, none, none, none, none, #aten.memory_format<contiguous>) bwd in "" : (tensor<f32>) -> tensor<f32>
    %nll_loss_backward = aten.call "nll_loss_backward.default"(%ones_like, %_log_softmax, %targets, none, 1, -100, %nll_loss_forward#1) bwd in "" : (tensor<f32>, tensor<2x10xf32>, tensor<2xi64>, tensor<f32>) -> tensor<2x10xf32>
    %_log_softmax_backward_data = aten.call "_log_softmax_backward_data.default"(%nll_loss_backward, %_log_softmax, 1, f32) bwd in "" : (tensor<2x10xf32>, tensor<2x10xf32>) -> tensor<2x10xf32>
    %t_7 = aten.call "t.default"(%t) bwd in "head" : (tensor<32x10xf32, #aten.strides<[1, 32]>>) -> tensor<10x32xf32>
    %mm = aten.call "mm.default"(%_log_softmax_backward_data, %t_7) bwd in "head" : (tensor<2x10xf32>, tensor<10x32xf32>) -> tensor<2x32xf32>
    %t_8 = aten.call "t.default"(%_log_softmax_backward_data) bwd in "head" : (tensor<2x10xf32>) -> tensor<10x2xf32, #aten.strides<[1, 10]>>
    %mm_9 = aten.call "mm.default"(%t_8, %mean) bwd in "head" : (tensor<10x2xf32, #aten.strides<[1, 10]>>, tensor<2x32xf32>) -> tensor<10x32xf32>
    %t_10 = aten.call "t.default"(%mm_9) bwd in "head" : (tensor<10x32xf32>) -> tensor<32x10xf32, #aten.strides<[1, 32]>>
    %sum = aten.call "sum.dim_IntList"(%_log_softmax_backward_data, [0], true, none) bwd in "head" : (tensor<2x10xf32>) -> tensor<1x10xf32>
    %view = aten.call "view.default"(%sum, [10]) bwd in "head" : (tensor<1x10xf32>) -> tensor<10xf32>
    fsdp.grad @head.bias, %view : tensor<10xf32>
    %t_11 = aten.call "t.default"(%t_10) bwd in "head" : (tensor<32x10xf32, #aten.strides<[1, 32]>>) -> tensor<10x32xf32>
    fsdp.grad @head.weight, %t_11 : tensor<10x32xf32>
    %unsqueeze = aten.call "unsqueeze.default"(%mm, 2) bwd in "" : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %unsqueeze_12 = aten.call "unsqueeze.default"(%unsqueeze, 3) bwd in "" : (tensor<2x32x1xf32>) -> tensor<2x32x1x1xf32>
    %expand = aten.call "expand.default"(%unsqueeze_12, [2, 32, 4, 4], false) bwd in "" : (tensor<2x32x1x1xf32>) -> tensor<2x32x4x4xf32, #aten.strides<[32, 1, 0, 0]>>
    %div = aten.call "div.Scalar"(%expand, 16) bwd in "" : (tensor<2x32x4x4xf32, #aten.strides<[32, 1, 0, 0]>>) -> tensor<2x32x4x4xf32>
    %threshold_backward = aten.call "threshold_backward.default"(%div, %relu_5, 0) bwd in "layers.1" : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xf32>
    %native_batch_norm_backward:3 = aten.call "native_batch_norm_backward.default"(%threshold_backward, %convolution_2, %layers.1.bn.weight, %_native_batch_norm_legit_functional_4#3, %_native_batch_norm_legit_functional_4#4, %_native_batch_norm_legit_functional_4#1, %_native_batch_norm_legit_functional_4#2, true, 1.000000e-05, [true, true, true]) bwd in "layers.1.bn" : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x32x4x4xf32>, tensor<32xf32>, tensor<32xf32>)
    fsdp.grad @layers.1.bn.weight, %native_batch_norm_backward#1 : tensor<32xf32>
    fsdp.grad @layers.1.bn.bias, %native_batch_norm_backward#2 : tensor<32xf32>
    %convolution_backward:3 = aten.call "convolution_backward.default"(%native_batch_norm_backward#0, %add_1, %layers.1.conv.weight, [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false]) bwd in "layers.1.conv" : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>, tensor<32x32x3x3xf32>) -> (tensor<2x32x4x4xf32>, tensor<32x32x3x3xf32>, none)
    fsdp.grad @layers.1.conv.weight, %convolution_backward#1 : tensor<32x32x3x3xf32>
    %add_13 = aten.call "add.Tensor"(%div, %convolution_backward#0, 1) bwd in "layers.1.conv" : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xf32>
    %threshold_backward_14 = aten.call "threshold_backward.default"(%add_13, %relu, 0) bwd in "layers.0" : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xf32>
    %native_batch_norm_backward_15:3 = aten.call "native_batch_norm_backward.default"(%threshold_backward_14, %convolution_0, %layers.0.bn.weight, %_native_batch_norm_legit_functional#3, %_native_batch_norm_legit_functional#4, %_native_batch_norm_legit_functional#1, %_native_batch_norm_legit_functional#2, true, 1.000000e-05, [true, true, true]) bwd in "layers.0.bn" : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x32x4x4xf32>, tensor<32xf32>, tensor<32xf32>)
    fsdp.grad @layers.0.bn.weight, %native_batch_norm_backward_15#1 : tensor<32xf32>
    fsdp.grad @layers.0.bn.bias, %native_batch_norm_backward_15#2 : tensor<32xf32>
    %convolution_backward_16:3 = aten.call "convolution_backward.default"(%native_batch_norm_backward_15#0, %max_pool2d_with_indices#0, %layers.0.conv.weight, [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false]) bwd in "layers.0.conv" : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>, tensor<32x32x3x3xf32>) -> (tensor<2x32x4x4xf32>, tensor<32x32x3x3xf32>, none)
    fsdp.grad @layers.0.conv.weight, %convolution_backward_16#1 : tensor<32x32x3x3xf32>
    %add_17 = aten.call "add.Tensor"(%add_13, %convolution_backward_16#0, 1) bwd in "layers.0.conv" : (tensor<2x32x4x4xf32>, tensor<2x32x4x4xf32>) -> tensor<2x32x4x4xf32>
    %max_pool2d_with_indices_backward = aten.call "max_pool2d_with_indices_backward.default"(%add_17, %convolution, [2, 2], [], [0, 0], [1, 1], false, %max_pool2d_with_indices#1) bwd in "" : (tensor<2x32x4x4xf32>, tensor<2x32x8x8xf32>, tensor<2x32x4x4xi64>) -> tensor<2x32x8x8xf32>
    %convolution_backward_18:3 = aten.call "convolution_backward.default"(%max_pool2d_with_indices_backward, %images, %stem.weight, [32], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, true]) bwd in "stem" : (tensor<2x32x8x8xf32>, tensor<2x2x8x8xf32>, tensor<32x2x3x3xf32>) -> (none, tensor<32x2x3x3xf32>, tensor<32xf32>)
    fsdp.grad @stem.weight, %convolution_backward_18#1 : tensor<32x2x3x3xf32>
    fsdp.grad @stem.bias, %convolution_backward_18#2 : tensor<32xf32>
    fsdp.write @layers.0.bn.running_mean, %_native_batch_norm_legit_functional#3 : tensor<32xf32>
    fsdp.write @layers.0.bn.running_var, %_native_batch_norm_legit_functional#4 : tensor<32xf32>
    fsdp.write @layers.0.bn.num_batches_tracked, %add : tensor<i64>
    fsdp.write @layers.1.bn.running_mean, %_native_batch_norm_legit_functional_4#3 : tensor<32xf32>
    fsdp.write @layers.1.bn.running_var, %_native_batch_norm_legit_functional_4#4 : tensor<32xf32>
    fsdp.write @layers.1.bn.num_batches_tracked, %add_3 : tensor<i64>
    fsdp.update @stem.weight step %step lr %lr
    fsdp.update @stem.bias step %step lr %lr
    fsdp.update @layers.0.conv.weight step %step lr %lr
    fsdp.update @layers.0.bn.weight step %step lr %lr
    fsdp.update @layers.0.bn.bias step %step lr %lr
    fsdp.update @layers.1.conv.weight step %step lr %lr
    fsdp.update @layers.1.bn.weight step %step lr %lr
    fsdp.update @layers.1.bn.bias step %step lr %lr
    fsdp.update @head.weight step %step lr %lr
    fsdp.update @head.bias step %step lr %lr
    return %nll_loss_forward#0 : tensor<f32>
  }
}

