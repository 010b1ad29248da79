module attributes {fsdp.model = "mlp", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @layers.0.up.weight : tensor<64x16xf32>
  fsdp.param @layers.0.up.bias : tensor<64xf32>
  fsdp.param @layers.0.down.weight : tensor<16x64xf32>
  fsdp.param @layers.0.down.bias : tensor<16xf32>
  fsdp.param @layers.1.up.weight : tensor<64x16xf32>
  fsdp.param @layers.1.up.bias : tensor<64xf32>
  fsdp.param @layers.1.down.weight : tensor<16x64xf32>
  fsdp.param @layers.1.down.bias : tensor<16xf32>
  fsdp.param @norm.weight : tensor<16xf32>
  fsdp.param @norm.bias : tensor<16xf32>
  fsdp.param @head.weight : tensor<10x16xf32>
  fsdp.param @head.bias : tensor<10xf32>
  fsdp.optimizer sgd lr = 1.000000e-03 weight_decay = 0.000000e+00 momentum = 9.000000e-01
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<4x16xf32>
    %targets = fsdp.input "targets" : tensor<4xi64>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %layers.0.up.weight = fsdp.read @layers.0.up.weight : tensor<64x16xf32>
    %t = aten.call "t.default"(%layers.0.up.weight) fwd in "layers.0.up" : (tensor<64x16xf32>) -> tensor<16x64xf32, #aten.strides<[1, 16]>>
    %layers.0.up.bias = fsdp.read @layers.0.up.bias : tensor<64xf32>
    %addmm = aten.call "addmm.default"(%layers.0.up.bias, %x, %t, 1, 1) fwd in "layers.0.up" : (tensor<64xf32>, tensor<4x16xf32>, tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<4x64xf32>
    %add = aten.call "add.Scalar"(%addmm, 5.000000e-01, 1) fwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice = aten.call "slice.Tensor"(%add, 0, none, none, 1) fwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_0 = aten.call "slice.Tensor"(%slice, 1, none, 32, 1) fwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1]>>
    %mul = aten.call "mul.Scalar"(%slice_0, 2.000000e+00) fwd in "layers.0" : (tensor<4x32xf32, #aten.strides<[64, 1]>>) -> tensor<4x32xf32>
    %slice_1 = aten.call "slice.Tensor"(%add, 0, none, none, 1) fwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_scatter = aten.call "slice_scatter.default"(%slice_1, %mul, 1, none, 32, 1) fwd in "layers.0" : (tensor<4x64xf32>, tensor<4x32xf32>) -> tensor<4x64xf32>
    %slice_scatter_2 = aten.call "slice_scatter.default"(%add, %slice_scatter, 0, none, none, 1) fwd in "layers.0" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_3 = aten.call "slice.Tensor"(%slice_scatter_2, 0, none, none, 1) fwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_4 = aten.call "slice.Tensor"(%slice_3, 1, 32, none, 1) fwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>
    %relu = aten.call "relu.default"(%slice_4) fwd in "layers.0" : (tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>) -> tensor<4x32xf32>
    %slice_5 = aten.call "slice.Tensor"(%slice_scatter_2, 0, none, none, 1) fwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_scatter_6 = aten.call "slice_scatter.default"(%slice_5, %relu, 1, 32, none, 1) fwd in "layers.0" : (tensor<4x64xf32>, tensor<4x32xf32>) -> tensor<4x64xf32>
    %slice_scatter_7 = aten.call "slice_scatter.default"(%slice_scatter_2, %slice_scatter_6, 0, none, none, 1) fwd in "layers.0" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_8 = aten.call "slice.Tensor"(%slice_scatter_7, 0, none, none, 1) fwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_9 = aten.call "slice.Tensor"(%slice_8, 1, 32, none, 1) fwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>
    %layers.0.down.weight = fsdp.read @layers.0.down.weight : tensor<16x64xf32>
    %t_10 = aten.call "t.default"(%layers.0.down.weight) fwd in "layers.0.down" : (tensor<16x64xf32>) -> tensor<64x16xf32, #aten.strides<[1, 64]>>
    %layers.0.down.bias = fsdp.read @layers.0.down.bias : tensor<16xf32>
    %addmm_11 = aten.call "addmm.default"(%layers.0.down.bias, %slice_scatter_7, %t_10, 1, 1) fwd in "layers.0.down" : (tensor<16xf32>, tensor<4x64xf32>, tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<4x16xf32>
    %add_12 = aten.call "add.Tensor"(%x, %addmm_11, 1) fwd in "layers.0" : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    %layers.1.up.weight = fsdp.read @layers.1.up.weight : tensor<64x16xf32>
    %t_13 = aten.call "t.default"(%layers.1.up.weight) fwd in "layers.1.up" : (tensor<64x16xf32>) -> tensor<16x64xf32, #aten.strides<[1, 16]>>
    %layers.1.up.bias = fsdp.read @layers.1.up.bias : tensor<64xf32>
    %addmm_14 = aten.call "addmm.default"(%layers.1.up.bias, %add_12, %t_13, 1, 1) fwd in "layers.1.up" : (tensor<64xf32>, tensor<4x16xf32>, tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<4x64xf32>
    %add_15 = aten.call "add.Scalar"(%addmm_14, 5.000000e-01, 1) fwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_16 = aten.call "slice.Tensor"(%add_15, 0, none, none, 1) fwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_17 = aten.call "slice.Tensor"(%slice_16, 1, none, 32, 1) fwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1]>>
    %mul_18 = aten.call "mul.Scalar"(%slice_17, 2.000000e+00) fwd in "layers.1" : (tensor<4x32xf32, #aten.strides<[64, 1]>>) -> tensor<4x32xf32>
    %slice_19 = aten.call "slice.Tensor"(%add_15, 0, none, none, 1) fwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_scatter_20 = aten.call "slice_scatter.default"(%slice_19, %mul_18, 1, none, 32, 1) fwd in "layers.1" : (tensor<4x64xf32>, tensor<4x32xf32>) -> tensor<4x64xf32>
    %slice_scatter_21 = aten.call "slice_scatter.default"(%add_15, %slice_scatter_20, 0, none, none, 1) fwd in "layers.1" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_22 = aten.call "slice.Tensor"(%slice_scatter_21, 0, none, none, 1) fwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_23 = aten.call "slice.Tensor"(%slice_22, 1, 32, none, 1) fwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>
    %relu_24 = aten.call "relu.default"(%slice_23) fwd in "layers.1" : (tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>) -> tensor<4x32xf32>
    %slice_25 = aten.call "slice.Tensor"(%slice_scatter_21, 0, none, none, 1) fwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_scatter_26 = aten.call "slice_scatter.default"(%slice_25, %relu_24, 1, 32, none, 1) fwd in "layers.1" : (tensor<4x64xf32>, tensor<4x32xf32>) -> tensor<4x64xf32>
    %slice_scatter_27 = aten.call "slice_scatter.default"(%slice_scatter_21, %slice_scatter_26, 0, none, none, 1) fwd in "layers.1" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_28 = aten.call "slice.Tensor"(%slice_scatter_27, 0, none, none, 1) fwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_29 = aten.call "slice.Tensor"(%slice_28, 1, 32, none, 1) fwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>
    %layers.1.down.weight = fsdp.read @layers.1.down.weight : tensor<16x64xf32>
    %t_30 = aten.call "t.default"(%layers.1.down.weight) fwd in "layers.1.down" : (tensor<16x64xf32>) -> tensor<64x16xf32, #aten.strides<[1, 64]>>
    %layers.1.down.bias = fsdp.read @layers.1.down.bias : tensor<16xf32>
    %addmm_31 = aten.call "addmm.default"(%layers.1.down.bias, %slice_scatter_27, %t_30, 1, 1) fwd in "layers.1.down" : (tensor<16xf32>, tensor<4x64xf32>, tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<4x16xf32>
    %add_32 = aten.call "add.Tensor"(%add_12, %addmm_31, 1) fwd in "layers.1" : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    %norm.weight = fsdp.read @norm.weight : tensor<16xf32>
    %norm.bias = fsdp.read @norm.bias : tensor<16xf32>
    %native_layer_norm:3 = aten.call "native_layer_norm.default"(%add_32, [16], %norm.weight, %norm.bias, 1.000000e-05) fwd in "norm" : (tensor<4x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x16xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
    %head.weight = fsdp.read @head.weight : tensor<10x16xf32>
    %t_33 = aten.call "t.default"(%head.weight) fwd in "head" : (tensor<10x16xf32>) -> tensor<16x10xf32, #aten.strides<[1, 16]>>
    %head.bias = fsdp.read @head.bias : tensor<10xf32>
    %addmm_34 = aten.call "addmm.default"(%head.bias, %native_layer_norm#0, %t_33, 1, 1) fwd in "head" : (tensor<10xf32>, tensor<4x16xf32>, tensor<16x10xf32, #aten.strides<[1, 16]>>) -> tensor<4x10xf32>
    %_log_softmax = aten.call "_log_softmax.default"(%addmm_34, 1, false) fwd in "" : (tensor<4x10xf32>) -> tensor<4x10xf32>
    %nll_loss_forward:2 = aten.call "nll_loss_forward.default"(%_log_softmax, %targets, none, 1, -100) fwd in "" : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
    %ones_like = aten.call "ones_like.default"(%nll_loss_forward#0, none, none, none, none, #aten.memory_format<contiguous>) bwd in "" : (tensor<f32>) -> tensor<f32>
    %nll_loss_backward = aten.call "nll_loss_backward.default"(%ones_like, %_log_softmax, %targets, none, 1, -100, %nll_loss_forward#1) bwd in "" : (tensor<f32>, tensor<4x10xf32>, tensor<4xi64>, tensor<f32>) -> tensor<4x10xf32>
    %_log_softmax_backward_data = aten.call "_log_softmax_backward_data.default"(%nll_loss_backward, %_log_softmax, 1, f32) bwd in "" : (tensor<4x10xf32>, tensor<4x10xf32>) -> tensor<4x10xf32>
    %t_35 = aten.call "t.default"(%t_33) bwd in "head" : (tensor<16x10xf32, #aten.strides<[1, 16]>>) -> tensor<10x16xf32>
    %mm = aten.call "mm.default"(%_log_softmax_backward_data, %t_35) bwd in "head" : (tensor<4x10xf32>, tensor<10x16xf32>) -> tensor<4x16xf32>
    %t_36 = aten.call "t.default"(%_log_softmax_backward_data) bwd in "head" : (tensor<4x10xf32>) -> tensor<10x4xf32, #aten.strides<[1, 10]>>
    %mm_37 = aten.call "mm.default"(%t_36, %native_layer_norm#0) bwd in "head" : (tensor<10x4xf32, #aten.strides<[1, 10]>>, tensor<4x16xf32>) -> tensor<10x16xf32>
    %t_38 = aten.call "t.default"(%mm_37) bwd in "head" : (tensor<10x16xf32>) -> tensor<16x10xf32, #aten.strides<[1, 16]>>
    %sum = aten.call "sum.dim_IntList"(%_log_softmax_backward_data, [0], true, none) bwd in "head" : (tensor<4x10xf32>) -> tensor<1x10xf32>
    %view = aten.call "view.default"(%sum, [10]) bwd in "head" : (tensor<1x10xf32>) -> tensor<10xf32>
    fsdp.grad @head.bias, %view : tensor<10xf32>
    %t_39 = aten.call "t.default"(%t_38) bwd in "head" : (tensor<16x10xf32, #aten.strides<[1, 16]>>) -> tensor<10x16xf32>
    fsdp.grad @head.weight, %t_39 : tensor<10x16xf32>
    %native_layer_norm_backward:3 = aten.call "native_layer_norm_backward.default"(%mm, %add_32, [16], %native_layer_norm#1, %native_layer_norm#2, %norm.weight, %norm.bias, [true, true, true]) bwd in "norm" : (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>, tensor<16xf32>)
    fsdp.grad @norm.weight, %native_layer_norm_backward#1 : tensor<16xf32>
    fsdp.grad @norm.bias, %native_layer_norm_backward#2 : tensor<16xf32>
    %t_40 = aten.call "t.default"(%t_30) bwd in "layers.1.down" : (tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<16x64xf32>
    %mm_41 = aten.call "mm.default"(%native_layer_norm_backward#0, %t_40) bwd in "layers.1.down" : (tensor<4x16xf32>, tensor<16x64xf32>) -> tensor<4x64xf32>
    %t_42 = aten.call "t.default"(%native_layer_norm_backward#0) bwd in "layers.1.down" : (tensor<4x16xf32>) -> tensor<16x4xf32, #aten.strides<[1, 16]>>
    %mm_43 = aten.call "mm.default"(%t_42, %slice_scatter_27) bwd in "layers.1.down" : (tensor<16x4xf32, #aten.strides<[1, 16]>>, tensor<4x64xf32>) -> tensor<16x64xf32>
    %t_44 = aten.call "t.default"(%mm_43) bwd in "layers.1.down" : (tensor<16x64xf32>) -> tensor<64x16xf32, #aten.strides<[1, 64]>>
    %sum_45 = aten.call "sum.dim_IntList"(%native_layer_norm_backward#0, [0], true, none) bwd in "layers.1.down" : (tensor<4x16xf32>) -> tensor<1x16xf32>
    %view_46 = aten.call "view.default"(%sum_45, [16]) bwd in "layers.1.down" : (tensor<1x16xf32>) -> tensor<16xf32>
    fsdp.grad @layers.1.down.bias, %view_46 : tensor<16xf32>
    %t_47 = aten.call "t.default"(%t_44) bwd in "layers.1.down" : (tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<16x64xf32>
    fsdp.grad @layers.1.down.weight, %t_47 : tensor<16x64xf32>
    %new_empty_strided = aten.call "new_empty_strided.default"(%mm_41, [4, 64], [64, 1], none, none, none, none) bwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %copy = aten.call "copy.default"(%new_empty_strided, %mm_41, false) bwd in "layers.1" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_48 = aten.call "slice.Tensor"(%copy, 0, none, none, 1) bwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_49 = aten.call "slice.Tensor"(%slice_48, 1, 32, none, 1) bwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>
    %clone = aten.call "clone.default"(%slice_49, #aten.memory_format<contiguous>) bwd in "layers.1" : (tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>) -> tensor<4x32xf32>
    %threshold_backward = aten.call "threshold_backward.default"(%clone, %slice_29, 0) bwd in "layers.1" : (tensor<4x32xf32>, tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>) -> tensor<4x32xf32>
    %copy_50 = aten.call "copy.default"(%slice_49, %threshold_backward, false) bwd in "layers.1" : (tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>, tensor<4x32xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>
    %slice_51 = aten.call "slice.Tensor"(%copy, 0, none, none, 1) bwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_scatter_52 = aten.call "slice_scatter.default"(%slice_51, %copy_50, 1, 32, none, 1) bwd in "layers.1" : (tensor<4x64xf32>, tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>) -> tensor<4x64xf32>
    %slice_scatter_53 = aten.call "slice_scatter.default"(%copy, %slice_scatter_52, 0, none, none, 1) bwd in "layers.1" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %new_empty_strided_54 = aten.call "new_empty_strided.default"(%slice_scatter_53, [4, 64], [64, 1], none, none, none, none) bwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %copy_55 = aten.call "copy.default"(%new_empty_strided_54, %slice_scatter_53, false) bwd in "layers.1" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_56 = aten.call "slice.Tensor"(%copy_55, 0, none, none, 1) bwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_57 = aten.call "slice.Tensor"(%slice_56, 1, none, 32, 1) bwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1]>>
    %clone_58 = aten.call "clone.default"(%slice_57, #aten.memory_format<contiguous>) bwd in "layers.1" : (tensor<4x32xf32, #aten.strides<[64, 1]>>) -> tensor<4x32xf32>
    %mul_59 = aten.call "mul.Scalar"(%clone_58, 2.000000e+00) bwd in "layers.1" : (tensor<4x32xf32>) -> tensor<4x32xf32>
    %copy_60 = aten.call "copy.default"(%slice_57, %mul_59, false) bwd in "layers.1" : (tensor<4x32xf32, #aten.strides<[64, 1]>>, tensor<4x32xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1]>>
    %slice_61 = aten.call "slice.Tensor"(%copy_55, 0, none, none, 1) bwd in "layers.1" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_scatter_62 = aten.call "slice_scatter.default"(%slice_61, %copy_60, 1, none, 32, 1) bwd in "layers.1" : (tensor<4x64xf32>, tensor<4x32xf32, #aten.strides<[64, 1]>>) -> tensor<4x64xf32>
    %slice_scatter_63 = aten.call "slice_scatter.default"(%copy_55, %slice_scatter_62, 0, none, none, 1) bwd in "layers.1" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %t_64 = aten.call "t.default"(%t_13) bwd in "layers.1.up" : (tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<64x16xf32>
    %mm_65 = aten.call "mm.default"(%slice_scatter_63, %t_64) bwd in "layers.1.up" : (tensor<4x64xf32>, tensor<64x16xf32>) -> tensor<4x16xf32>
    %t_66 = aten.call "t.default"(%slice_scatter_63) bwd in "layers.1.up" : (tensor<4x64xf32>) -> tensor<64x4xf32, #aten.strides<[1, 64]>>
    %mm_67 = aten.call "mm.default"(%t_66, %add_12) bwd in "layers.1.up" : (tensor<64x4xf32, #aten.strides<[1, 64]>>, tensor<4x16xf32>) -> tensor<64x16xf32>
    %t_68 = aten.call "t.default"(%mm_67) bwd in "layers.1.up" : (tensor<64x16xf32>) -> tensor<16x64xf32, #aten.strides<[1, 16]>>
    %sum_69 = aten.call "sum.dim_IntList"(%slice_scatter_63, [0], true, none) bwd in "layers.1.up" : (tensor<4x64xf32>) -> tensor<1x64xf32>
    %view_70 = aten.call "view.default"(%sum_69, [64]) bwd in "layers.1.up" : (tensor<1x64xf32>) -> tensor<64xf32>
    fsdp.grad @layers.1.up.bias, %view_70 : tensor<64xf32>
    %add_71 = aten.call "add.Tensor"(%native_layer_norm_backward#0, %mm_65, 1) bwd in "layers.1.up" : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    %t_72 = aten.call "t.default"(%t_68) bwd in "layers.1.up" : (tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<64x16xf32>
    fsdp.grad @layers.1.up.weight, %t_72 : tensor<64x16xf32>
    %t_73 = aten.call "t.default"(%t_10) bwd in "layers.0.down" : (tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<16x64xf32>
    %mm_74 = aten.call "mm.default"(%add_71, %t_73) bwd in "layers.0.down" : (tensor<4x16xf32>, tensor<16x64xf32>) -> tensor<4x64xf32>
    %t_75 = aten.call "t.default"(%add_71) bwd in "layers.0.down" : (tensor<4x16xf32>) -> tensor<16x4xf32, #aten.strides<[1, 16]>>
    %mm_76 = aten.call "mm.default"(%t_75, %slice_scatter_7) bwd in "layers.0.down" : (tensor<16x4xf32, #aten.strides<[1, 16]>>, tensor<4x64xf32>) -> tensor<16x64xf32>
    %t_77 = aten.call "t.default"(%mm_76) bwd in "layers.0.down" : (tensor<16x64xf32>) -> tensor<64x16xf32, #aten.strides<[1, 64]>>
    %sum_78 = aten.call "sum.dim_IntList"(%add_71, [0], true, none) bwd in "layers.0.down" : (tensor<4x16xf32>) -> tensor<1x16xf32>
    %view_79 = aten.call "view.default"(%sum_78, [16]) bwd in "layers.0.down" : (tensor<1x16xf32>) -> tensor<16xf32>
    fsdp.grad @layers.0.down.bias, %view_79 : tensor<16xf32>
    %t_80 = aten.call "t.default"(%t_77) bwd in "layers.0.down" : (tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<16x64xf32>
    fsdp.grad @layers.0.down.weight, %t_80 : tensor<16x64xf32>
    %new_empty_strided_81 = aten.call "new_empty_strided.default"(%mm_74, [4, 64], [64, 1], none, none, none, none) bwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %copy_82 = aten.call "copy.default"(%new_empty_strided_81, %mm_74, false) bwd in "layers.0" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_83 = aten.call "slice.Tensor"(%copy_82, 0, none, none, 1) bwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_84 = aten.call "slice.Tensor"(%slice_83, 1, 32, none, 1) bwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>
    %clone_85 = aten.call "clone.default"(%slice_84, #aten.memory_format<contiguous>) bwd in "layers.0" : (tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>) -> tensor<4x32xf32>
    %threshold_backward_86 = aten.call "threshold_backward.default"(%clone_85, %slice_9, 0) bwd in "layers.0" : (tensor<4x32xf32>, tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>) -> tensor<4x32xf32>
    %copy_87 = aten.call "copy.default"(%slice_84, %threshold_backward_86, false) bwd in "layers.0" : (tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>, tensor<4x32xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>
    %slice_88 = aten.call "slice.Tensor"(%copy_82, 0, none, none, 1) bwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_scatter_89 = aten.call "slice_scatter.default"(%slice_88, %copy_87, 1, 32, none, 1) bwd in "layers.0" : (tensor<4x64xf32>, tensor<4x32xf32, #aten.strides<[64, 1], offset = 32>>) -> tensor<4x64xf32>
    %slice_scatter_90 = aten.call "slice_scatter.default"(%copy_82, %slice_scatter_89, 0, none, none, 1) bwd in "layers.0" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %new_empty_strided_91 = aten.call "new_empty_strided.default"(%slice_scatter_90, [4, 64], [64, 1], none, none, none, none) bwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %copy_92 = aten.call "copy.default"(%new_empty_strided_91, %slice_scatter_90, false) bwd in "layers.0" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_93 = aten.call "slice.Tensor"(%copy_92, 0, none, none, 1) bwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_94 = aten.call "slice.Tensor"(%slice_93, 1, none, 32, 1) bwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1]>>
    %clone_95 = aten.call "clone.default"(%slice_94, #aten.memory_format<contiguous>) bwd in "layers.0" : (tensor<4x32xf32, #aten.strides<[64, 1]>>) -> tensor<4x32xf32>
    %mul_96 = aten.call "mul.Scalar"(%clone_95, 2.000000e+00) bwd in "layers.0" : (tensor<4x32xf32>) -> tensor<4x32xf32>
    %copy_97 = aten.call "copy.default"(%slice_94, %mul_96, false) bwd in "layers.0" : (tensor<4x32xf32, #aten.strides<[64, 1]>>, tensor<4x32xf32>) -> tensor<4x32xf32, #aten.strides<[64, 1]>>
    %slice_98 = aten.call "slice.Tensor"(%copy_92, 0, none, none, 1) bwd in "layers.0" : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %slice_scatter_99 = aten.call "slice_scatter.default"(%slice_98, %copy_97, 1, none, 32, 1) bwd in "layers.0" : (tensor<4x64xf32>, tensor<4x32xf32, #aten.strides<[64, 1]>>) -> tensor<4x64xf32>
    %slice_scatter_100 = aten.call "slice_scatter.default"(%copy_92, %slice_scatter_99, 0, none, none, 1) bwd in "layers.0" : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %t_101 = aten.call "t.default"(%slice_scatter_100) bwd in "layers.0.up" : (tensor<4x64xf32>) -> tensor<64x4xf32, #aten.strides<[1, 64]>>
    %mm_102 = aten.call "mm.default"(%t_101, %x) bwd in "layers.0.up" : (tensor<64x4xf32, #aten.strides<[1, 64]>>, tensor<4x16xf32>) -> tensor<64x16xf32>
    %t_103 = aten.call "t.default"(%mm_102) bwd in "layers.0.up" : (tensor<64x16xf32>) -> tensor<16x64xf32, #aten.strides<[1, 16]>>
    %sum_104 = aten.call "sum.dim_IntList"(%slice_scatter_100, [0], true, none) bwd in "layers.0.up" : (tensor<4x64xf32>) -> tensor<1x64xf32>
    %view_105 = aten.call "view.default"(%sum_104, [64]) bwd in "layers.0.up" : (tensor<1x64xf32>) -> tensor<64xf32>
    fsdp.grad @layers.0.up.bias, %view_105 : tensor<64xf32>
    %t_106 = aten.call "t.default"(%t_103) bwd in "layers.0.up" : (tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<64x16xf32>
    fsdp.grad @layers.0.up.weight, %t_106 : tensor<64x16xf32>
    fsdp.update @layers.0.up.weight step %step lr %lr
    fsdp.update @layers.0.up.bias step %step lr %lr
    fsdp.update @layers.0.down.weight step %step lr %lr
    fsdp.update @layers.0.down.bias step %step lr %lr
    fsdp.update @layers.1.up.weight step %step lr %lr
    fsdp.update @layers.1.up.bias step %step lr %lr
    fsdp.update @layers.1.down.weight step %step lr %lr
    fsdp.update @layers.1.down.bias step %step lr %lr
    fsdp.update @norm.weight step %step lr %lr
    fsdp.update @norm.bias step %step lr %lr
    fsdp.update @head.weight step %step lr %lr
    fsdp.update @head.bias step %step lr %lr
    return %nll_loss_forward#0 : tensor<f32>
  }
}

