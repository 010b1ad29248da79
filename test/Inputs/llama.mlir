module attributes {fsdp.model = "model", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @tok.weight : tensor<128x16xf32>
  fsdp.param @layers.0.attention_norm.weight : tensor<16xf32>
  fsdp.param @layers.0.attn.wq.weight : tensor<16x16xf32>
  fsdp.param @layers.0.attn.wk.weight : tensor<8x16xf32>
  fsdp.param @layers.0.attn.wv.weight : tensor<8x16xf32>
  fsdp.param @layers.0.attn.wo.weight : tensor<16x16xf32>
  fsdp.param @layers.0.ffn_norm.weight : tensor<16xf32>
  fsdp.param @layers.0.mlp.w1.weight : tensor<48x16xf32>
  fsdp.param @layers.0.mlp.w3.weight : tensor<48x16xf32>
  fsdp.param @layers.0.mlp.w2.weight : tensor<16x48xf32>
  fsdp.param @layers.1.attention_norm.weight : tensor<16xf32>
  fsdp.param @layers.1.attn.wq.weight : tensor<16x16xf32>
  fsdp.param @layers.1.attn.wk.weight : tensor<8x16xf32>
  fsdp.param @layers.1.attn.wv.weight : tensor<8x16xf32>
  fsdp.param @layers.1.attn.wo.weight : tensor<16x16xf32>
  fsdp.param @layers.1.ffn_norm.weight : tensor<16xf32>
  fsdp.param @layers.1.mlp.w1.weight : tensor<48x16xf32>
  fsdp.param @layers.1.mlp.w3.weight : tensor<48x16xf32>
  fsdp.param @layers.1.mlp.w2.weight : tensor<16x48xf32>
  fsdp.param @norm.weight : tensor<16xf32>
  fsdp.param @head.weight : tensor<128x16xf32>
  fsdp.buffer @cos : tensor<16x4xf32>
  fsdp.buffer @sin : tensor<16x4xf32>
  fsdp.optimizer adamw lr = 1.000000e-03 weight_decay = 1.000000e-01 betas = [9.000000e-01, 9.990000e-01] eps = 1.000000e-08
  func.func @step() -> tensor<f32> {
    %tokens = fsdp.input "tokens" : tensor<1x16xi64>
    %targets = fsdp.input "targets" : tensor<1x16xi64>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %cos = fsdp.read @cos : tensor<16x4xf32>
    %slice = aten.call "slice.Tensor"(%cos, 0, none, 16, 1) fwd in "" : (tensor<16x4xf32>) -> tensor<16x4xf32>
    %sin = fsdp.read @sin : tensor<16x4xf32>
    %slice_0 = aten.call "slice.Tensor"(%sin, 0, none, 16, 1) fwd in "" : (tensor<16x4xf32>) -> tensor<16x4xf32>
    %tok.weight = fsdp.read @tok.weight : tensor<128x16xf32>
    %embedding = aten.call "embedding.default"(%tok.weight, %tokens, -1, false, false) fwd in "tok" : (tensor<128x16xf32>, tensor<1x16xi64>) -> tensor<1x16x16xf32>
    %pow = aten.call "pow.Tensor_Scalar"(%embedding, 2) fwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mean = aten.call "mean.dim"(%pow, [-1], true, none) fwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x1xf32>
    %add = aten.call "add.Scalar"(%mean, 1.000000e-05, 1) fwd in "layers.0.attention_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %rsqrt = aten.call "rsqrt.default"(%add) fwd in "layers.0.attention_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul = aten.call "mul.Tensor"(%embedding, %rsqrt) fwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x1xf32>) -> tensor<1x16x16xf32>
    %layers.0.attention_norm.weight = fsdp.read @layers.0.attention_norm.weight : tensor<16xf32>
    %mul_1 = aten.call "mul.Tensor"(%mul, %layers.0.attention_norm.weight) fwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>, tensor<16xf32>) -> tensor<1x16x16xf32>
    %layers.0.attn.wq.weight = fsdp.read @layers.0.attn.wq.weight : tensor<16x16xf32>
    %t = aten.call "t.default"(%layers.0.attn.wq.weight) fwd in "layers.0.attn.wq" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %view = aten.call "view.default"(%mul_1, [16, 16]) fwd in "layers.0.attn.wq" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm = aten.call "mm.default"(%view, %t) fwd in "layers.0.attn.wq" : (tensor<16x16xf32>, tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    %_unsafe_view = aten.call "_unsafe_view.default"(%mm, [1, 16, 16]) fwd in "layers.0.attn.wq" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %view_2 = aten.call "view.default"(%_unsafe_view, [1, 16, 4, 4]) fwd in "layers.0.attn" : (tensor<1x16x16xf32>) -> tensor<1x16x4x4xf32>
    %transpose = aten.call "transpose.int"(%view_2, 1, 2) fwd in "layers.0.attn" : (tensor<1x16x4x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %split:2 = aten.call "split.Tensor"(%transpose, 2, -1) fwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>) -> (tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1], offset = 2>>)
    %mul_3 = aten.call "mul.Tensor"(%transpose, %slice) fwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<16x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %neg = aten.call "neg.default"(%split#1) fwd in "layers.0.attn" : (tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1], offset = 2>>) -> tensor<1x4x16x2xf32, #aten.strides<[128, 2, 8, 1]>>
    %cat = aten.call "cat.default"([%neg, %split#0], -1) fwd in "layers.0.attn" : (tensor<1x4x16x2xf32, #aten.strides<[128, 2, 8, 1]>>, tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x4x16x4xf32>
    %mul_4 = aten.call "mul.Tensor"(%cat, %slice_0) fwd in "layers.0.attn" : (tensor<1x4x16x4xf32>, tensor<16x4xf32>) -> tensor<1x4x16x4xf32>
    %add_5 = aten.call "add.Tensor"(%mul_3, %mul_4, 1) fwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %layers.0.attn.wk.weight = fsdp.read @layers.0.attn.wk.weight : tensor<8x16xf32>
    %t_6 = aten.call "t.default"(%layers.0.attn.wk.weight) fwd in "layers.0.attn.wk" : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<[1, 16]>>
    %view_7 = aten.call "view.default"(%mul_1, [16, 16]) fwd in "layers.0.attn.wk" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_8 = aten.call "mm.default"(%view_7, %t_6) fwd in "layers.0.attn.wk" : (tensor<16x16xf32>, tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<16x8xf32>
    %_unsafe_view_9 = aten.call "_unsafe_view.default"(%mm_8, [1, 16, 8]) fwd in "layers.0.attn.wk" : (tensor<16x8xf32>) -> tensor<1x16x8xf32>
    %view_10 = aten.call "view.default"(%_unsafe_view_9, [1, 16, 2, 4]) fwd in "layers.0.attn" : (tensor<1x16x8xf32>) -> tensor<1x16x2x4xf32>
    %transpose_11 = aten.call "transpose.int"(%view_10, 1, 2) fwd in "layers.0.attn" : (tensor<1x16x2x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %split_12:2 = aten.call "split.Tensor"(%transpose_11, 2, -1) fwd in "layers.0.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> (tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1], offset = 2>>)
    %mul_13 = aten.call "mul.Tensor"(%transpose_11, %slice) fwd in "layers.0.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<16x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %neg_14 = aten.call "neg.default"(%split_12#1) fwd in "layers.0.attn" : (tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1], offset = 2>>) -> tensor<1x2x16x2xf32, #aten.strides<[64, 2, 4, 1]>>
    %cat_15 = aten.call "cat.default"([%neg_14, %split_12#0], -1) fwd in "layers.0.attn" : (tensor<1x2x16x2xf32, #aten.strides<[64, 2, 4, 1]>>, tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x2x16x4xf32>
    %mul_16 = aten.call "mul.Tensor"(%cat_15, %slice_0) fwd in "layers.0.attn" : (tensor<1x2x16x4xf32>, tensor<16x4xf32>) -> tensor<1x2x16x4xf32>
    %add_17 = aten.call "add.Tensor"(%mul_13, %mul_16, 1) fwd in "layers.0.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %layers.0.attn.wv.weight = fsdp.read @layers.0.attn.wv.weight : tensor<8x16xf32>
    %t_18 = aten.call "t.default"(%layers.0.attn.wv.weight) fwd in "layers.0.attn.wv" : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<[1, 16]>>
    %view_19 = aten.call "view.default"(%mul_1, [16, 16]) fwd in "layers.0.attn.wv" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_20 = aten.call "mm.default"(%view_19, %t_18) fwd in "layers.0.attn.wv" : (tensor<16x16xf32>, tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<16x8xf32>
    %_unsafe_view_21 = aten.call "_unsafe_view.default"(%mm_20, [1, 16, 8]) fwd in "layers.0.attn.wv" : (tensor<16x8xf32>) -> tensor<1x16x8xf32>
    %view_22 = aten.call "view.default"(%_unsafe_view_21, [1, 16, 2, 4]) fwd in "layers.0.attn" : (tensor<1x16x8xf32>) -> tensor<1x16x2x4xf32>
    %transpose_23 = aten.call "transpose.int"(%view_22, 1, 2) fwd in "layers.0.attn" : (tensor<1x16x2x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %_scaled_dot_product_flash_attention_for_cpu:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu.default"(%add_5, %add_17, %transpose_23, 0.000000e+00, true, none, none) fwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16xf32, #aten.strides<[64, 1, 4]>>)
    %transpose_24 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu#0, 1, 2) fwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x16x4x4xf32>
    %view_25 = aten.call "view.default"(%transpose_24, [1, 16, 16]) fwd in "layers.0.attn" : (tensor<1x16x4x4xf32>) -> tensor<1x16x16xf32>
    %layers.0.attn.wo.weight = fsdp.read @layers.0.attn.wo.weight : tensor<16x16xf32>
    %t_26 = aten.call "t.default"(%layers.0.attn.wo.weight) fwd in "layers.0.attn.wo" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %view_27 = aten.call "view.default"(%view_25, [16, 16]) fwd in "layers.0.attn.wo" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_28 = aten.call "mm.default"(%view_27, %t_26) fwd in "layers.0.attn.wo" : (tensor<16x16xf32>, tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    %_unsafe_view_29 = aten.call "_unsafe_view.default"(%mm_28, [1, 16, 16]) fwd in "layers.0.attn.wo" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %add_30 = aten.call "add.Tensor"(%embedding, %_unsafe_view_29, 1) fwd in "layers.0" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %pow_31 = aten.call "pow.Tensor_Scalar"(%add_30, 2) fwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mean_32 = aten.call "mean.dim"(%pow_31, [-1], true, none) fwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x1xf32>
    %add_33 = aten.call "add.Scalar"(%mean_32, 1.000000e-05, 1) fwd in "layers.0.ffn_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %rsqrt_34 = aten.call "rsqrt.default"(%add_33) fwd in "layers.0.ffn_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_35 = aten.call "mul.Tensor"(%add_30, %rsqrt_34) fwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x1xf32>) -> tensor<1x16x16xf32>
    %layers.0.ffn_norm.weight = fsdp.read @layers.0.ffn_norm.weight : tensor<16xf32>
    %mul_36 = aten.call "mul.Tensor"(%mul_35, %layers.0.ffn_norm.weight) fwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>, tensor<16xf32>) -> tensor<1x16x16xf32>
    %layers.0.mlp.w1.weight = fsdp.read @layers.0.mlp.w1.weight : tensor<48x16xf32>
    %t_37 = aten.call "t.default"(%layers.0.mlp.w1.weight) fwd in "layers.0.mlp.w1" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %view_38 = aten.call "view.default"(%mul_36, [16, 16]) fwd in "layers.0.mlp.w1" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_39 = aten.call "mm.default"(%view_38, %t_37) fwd in "layers.0.mlp.w1" : (tensor<16x16xf32>, tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<16x48xf32>
    %_unsafe_view_40 = aten.call "_unsafe_view.default"(%mm_39, [1, 16, 48]) fwd in "layers.0.mlp.w1" : (tensor<16x48xf32>) -> tensor<1x16x48xf32>
    %silu = aten.call "silu.default"(%_unsafe_view_40) fwd in "layers.0.mlp" : (tensor<1x16x48xf32>) -> tensor<1x16x48xf32>
    %layers.0.mlp.w3.weight = fsdp.read @layers.0.mlp.w3.weight : tensor<48x16xf32>
    %t_41 = aten.call "t.default"(%layers.0.mlp.w3.weight) fwd in "layers.0.mlp.w3" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %view_42 = aten.call "view.default"(%mul_36, [16, 16]) fwd in "layers.0.mlp.w3" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_43 = aten.call "mm.default"(%view_42, %t_41) fwd in "layers.0.mlp.w3" : (tensor<16x16xf32>, tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<16x48xf32>
    %_unsafe_view_44 = aten.call "_unsafe_view.default"(%mm_43, [1, 16, 48]) fwd in "layers.0.mlp.w3" : (tensor<16x48xf32>) -> tensor<1x16x48xf32>
    %mul_45 = aten.call "mul.Tensor"(%silu, %_unsafe_view_44) fwd in "layers.0.mlp" : (tensor<1x16x48xf32>, tensor<1x16x48xf32>) -> tensor<1x16x48xf32>
    %layers.0.mlp.w2.weight = fsdp.read @layers.0.mlp.w2.weight : tensor<16x48xf32>
    %t_46 = aten.call "t.default"(%layers.0.mlp.w2.weight) fwd in "layers.0.mlp.w2" : (tensor<16x48xf32>) -> tensor<48x16xf32, #aten.strides<[1, 48]>>
    %view_47 = aten.call "view.default"(%mul_45, [16, 48]) fwd in "layers.0.mlp.w2" : (tensor<1x16x48xf32>) -> tensor<16x48xf32>
    %mm_48 = aten.call "mm.default"(%view_47, %t_46) fwd in "layers.0.mlp.w2" : (tensor<16x48xf32>, tensor<48x16xf32, #aten.strides<[1, 48]>>) -> tensor<16x16xf32>
    %_unsafe_view_49 = aten.call "_unsafe_view.default"(%mm_48, [1, 16, 16]) fwd in "layers.0.mlp.w2" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %add_50 = aten.call "add.Tensor"(%add_30, %_unsafe_view_49, 1) fwd in "layers.0" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %pow_51 = aten.call "pow.Tensor_Scalar"(%add_50, 2) fwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mean_52 = aten.call "mean.dim"(%pow_51, [-1], true, none) fwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x1xf32>
    %add_53 = aten.call "add.Scalar"(%mean_52, 1.000000e-05, 1) fwd in "layers.1.attention_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %rsqrt_54 = aten.call "rsqrt.default"(%add_53) fwd in "layers.1.attention_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_55 = aten.call "mul.Tensor"(%add_50, %rsqrt_54) fwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x1xf32>) -> tensor<1x16x16xf32>
    %layers.1.attention_norm.weight = fsdp.read @layers.1.attention_norm.weight : tensor<16xf32>
    %mul_56 = aten.call "mul.Tensor"(%mul_55, %layers.1.attention_norm.weight) fwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>, tensor<16xf32>) -> tensor<1x16x16xf32>
    %layers.1.attn.wq.weight = fsdp.read @layers.1.attn.wq.weight : tensor<16x16xf32>
    %t_57 = aten.call "t.default"(%layers.1.attn.wq.weight) fwd in "layers.1.attn.wq" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %view_58 = aten.call "view.default"(%mul_56, [16, 16]) fwd in "layers.1.attn.wq" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_59 = aten.call "mm.default"(%view_58, %t_57) fwd in "layers.1.attn.wq" : (tensor<16x16xf32>, tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    %_unsafe_view_60 = aten.call "_unsafe_view.default"(%mm_59, [1, 16, 16]) fwd in "layers.1.attn.wq" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %view_61 = aten.call "view.default"(%_unsafe_view_60, [1, 16, 4, 4]) fwd in "layers.1.attn" : (tensor<1x16x16xf32>) -> tensor<1x16x4x4xf32>
    %transpose_62 = aten.call "transpose.int"(%view_61, 1, 2) fwd in "layers.1.attn" : (tensor<1x16x4x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %split_63:2 = aten.call "split.Tensor"(%transpose_62, 2, -1) fwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>) -> (tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1], offset = 2>>)
    %mul_64 = aten.call "mul.Tensor"(%transpose_62, %slice) fwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<16x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %neg_65 = aten.call "neg.default"(%split_63#1) fwd in "layers.1.attn" : (tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1], offset = 2>>) -> tensor<1x4x16x2xf32, #aten.strides<[128, 2, 8, 1]>>
    %cat_66 = aten.call "cat.default"([%neg_65, %split_63#0], -1) fwd in "layers.1.attn" : (tensor<1x4x16x2xf32, #aten.strides<[128, 2, 8, 1]>>, tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x4x16x4xf32>
    %mul_67 = aten.call "mul.Tensor"(%cat_66, %slice_0) fwd in "layers.1.attn" : (tensor<1x4x16x4xf32>, tensor<16x4xf32>) -> tensor<1x4x16x4xf32>
    %add_68 = aten.call "add.Tensor"(%mul_64, %mul_67, 1) fwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %layers.1.attn.wk.weight = fsdp.read @layers.1.attn.wk.weight : tensor<8x16xf32>
    %t_69 = aten.call "t.default"(%layers.1.attn.wk.weight) fwd in "layers.1.attn.wk" : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<[1, 16]>>
    %view_70 = aten.call "view.default"(%mul_56, [16, 16]) fwd in "layers.1.attn.wk" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_71 = aten.call "mm.default"(%view_70, %t_69) fwd in "layers.1.attn.wk" : (tensor<16x16xf32>, tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<16x8xf32>
    %_unsafe_view_72 = aten.call "_unsafe_view.default"(%mm_71, [1, 16, 8]) fwd in "layers.1.attn.wk" : (tensor<16x8xf32>) -> tensor<1x16x8xf32>
    %view_73 = aten.call "view.default"(%_unsafe_view_72, [1, 16, 2, 4]) fwd in "layers.1.attn" : (tensor<1x16x8xf32>) -> tensor<1x16x2x4xf32>
    %transpose_74 = aten.call "transpose.int"(%view_73, 1, 2) fwd in "layers.1.attn" : (tensor<1x16x2x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %split_75:2 = aten.call "split.Tensor"(%transpose_74, 2, -1) fwd in "layers.1.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> (tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1], offset = 2>>)
    %mul_76 = aten.call "mul.Tensor"(%transpose_74, %slice) fwd in "layers.1.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<16x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %neg_77 = aten.call "neg.default"(%split_75#1) fwd in "layers.1.attn" : (tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1], offset = 2>>) -> tensor<1x2x16x2xf32, #aten.strides<[64, 2, 4, 1]>>
    %cat_78 = aten.call "cat.default"([%neg_77, %split_75#0], -1) fwd in "layers.1.attn" : (tensor<1x2x16x2xf32, #aten.strides<[64, 2, 4, 1]>>, tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x2x16x4xf32>
    %mul_79 = aten.call "mul.Tensor"(%cat_78, %slice_0) fwd in "layers.1.attn" : (tensor<1x2x16x4xf32>, tensor<16x4xf32>) -> tensor<1x2x16x4xf32>
    %add_80 = aten.call "add.Tensor"(%mul_76, %mul_79, 1) fwd in "layers.1.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %layers.1.attn.wv.weight = fsdp.read @layers.1.attn.wv.weight : tensor<8x16xf32>
    %t_81 = aten.call "t.default"(%layers.1.attn.wv.weight) fwd in "layers.1.attn.wv" : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<[1, 16]>>
    %view_82 = aten.call "view.default"(%mul_56, [16, 16]) fwd in "layers.1.attn.wv" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_83 = aten.call "mm.default"(%view_82, %t_81) fwd in "layers.1.attn.wv" : (tensor<16x16xf32>, tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<16x8xf32>
    %_unsafe_view_84 = aten.call "_unsafe_view.default"(%mm_83, [1, 16, 8]) fwd in "layers.1.attn.wv" : (tensor<16x8xf32>) -> tensor<1x16x8xf32>
    %view_85 = aten.call "view.default"(%_unsafe_view_84, [1, 16, 2, 4]) fwd in "layers.1.attn" : (tensor<1x16x8xf32>) -> tensor<1x16x2x4xf32>
    %transpose_86 = aten.call "transpose.int"(%view_85, 1, 2) fwd in "layers.1.attn" : (tensor<1x16x2x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %_scaled_dot_product_flash_attention_for_cpu_87:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu.default"(%add_68, %add_80, %transpose_86, 0.000000e+00, true, none, none) fwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16xf32, #aten.strides<[64, 1, 4]>>)
    %transpose_88 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu_87#0, 1, 2) fwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x16x4x4xf32>
    %view_89 = aten.call "view.default"(%transpose_88, [1, 16, 16]) fwd in "layers.1.attn" : (tensor<1x16x4x4xf32>) -> tensor<1x16x16xf32>
    %layers.1.attn.wo.weight = fsdp.read @layers.1.attn.wo.weight : tensor<16x16xf32>
    %t_90 = aten.call "t.default"(%layers.1.attn.wo.weight) fwd in "layers.1.attn.wo" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %view_91 = aten.call "view.default"(%view_89, [16, 16]) fwd in "layers.1.attn.wo" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_92 = aten.call "mm.default"(%view_91, %t_90) fwd in "layers.1.attn.wo" : (tensor<16x16xf32>, tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    %_unsafe_view_93 = aten.call "_unsafe_view.default"(%mm_92, [1, 16, 16]) fwd in "layers.1.attn.wo" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %add_94 = aten.call "add.Tensor"(%add_50, %_unsafe_view_93, 1) fwd in "layers.1" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %pow_95 = aten.call "pow.Tensor_Scalar"(%add_94, 2) fwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mean_96 = aten.call "mean.dim"(%pow_95, [-1], true, none) fwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x1xf32>
    %add_97 = aten.call "add.Scalar"(%mean_96, 1.000000e-05, 1) fwd in "layers.1.ffn_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %rsqrt_98 = aten.call "rsqrt.default"(%add_97) fwd in "layers.1.ffn_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_99 = aten.call "mul.Tensor"(%add_94, %rsqrt_98) fwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x1xf32>) -> tensor<1x16x16xf32>
    %layers.1.ffn_norm.weight = fsdp.read @layers.1.ffn_norm.weight : tensor<16xf32>
    %mul_100 = aten.call "mul.Tensor"(%mul_99, %layers.1.ffn_norm.weight) fwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>, tensor<16xf32>) -> tensor<1x16x16xf32>
    %layers.1.mlp.w1.weight = fsdp.read @layers.1.mlp.w1.weight : tensor<48x16xf32>
    %t_101 = aten.call "t.default"(%layers.1.mlp.w1.weight) fwd in "layers.1.mlp.w1" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %view_102 = aten.call "view.default"(%mul_100, [16, 16]) fwd in "layers.1.mlp.w1" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_103 = aten.call "mm.default"(%view_102, %t_101) fwd in "layers.1.mlp.w1" : (tensor<16x16xf32>, tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<16x48xf32>
    %_unsafe_view_104 = aten.call "_unsafe_view.default"(%mm_103, [1, 16, 48]) fwd in "layers.1.mlp.w1" : (tensor<16x48xf32>) -> tensor<1x16x48xf32>
    %silu_105 = aten.call "silu.default"(%_unsafe_view_104) fwd in "layers.1.mlp" : (tensor<1x16x48xf32>) -> tensor<1x16x48xf32>
    %layers.1.mlp.w3.weight = fsdp.read @layers.1.mlp.w3.weight : tensor<48x16xf32>
    %t_106 = aten.call "t.default"(%layers.1.mlp.w3.weight) fwd in "layers.1.mlp.w3" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %view_107 = aten.call "view.default"(%mul_100, [16, 16]) fwd in "layers.1.mlp.w3" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_108 = aten.call "mm.default"(%view_107, %t_106) fwd in "layers.1.mlp.w3" : (tensor<16x16xf32>, tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<16x48xf32>
    %_unsafe_view_109 = aten.call "_unsafe_view.default"(%mm_108, [1, 16, 48]) fwd in "layers.1.mlp.w3" : (tensor<16x48xf32>) -> tensor<1x16x48xf32>
    %mul_110 = aten.call "mul.Tensor"(%silu_105, %_unsafe_view_109) fwd in "layers.1.mlp" : (tensor<1x16x48xf32>, tensor<1x16x48xf32>) -> tensor<1x16x48xf32>
    %layers.1.mlp.w2.weight = fsdp.read @layers.1.mlp.w2.weight : tensor<16x48xf32>
    %t_111 = aten.call "t.default"(%layers.1.mlp.w2.weight) fwd in "layers.1.mlp.w2" : (tensor<16x48xf32>) -> tensor<48x16xf32, #aten.strides<[1, 48]>>
    %view_112 = aten.call "view.default"(%mul_110, [16, 48]) fwd in "layers.1.mlp.w2" : (tensor<1x16x48xf32>) -> tensor<16x48xf32>
    %mm_113 = aten.call "mm.default"(%view_112, %t_111) fwd in "layers.1.mlp.w2" : (tensor<16x48xf32>, tensor<48x16xf32, #aten.strides<[1, 48]>>) -> tensor<16x16xf32>
    %_unsafe_view_114 = aten.call "_unsafe_view.default"(%mm_113, [1, 16, 16]) fwd in "layers.1.mlp.w2" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %add_115 = aten.call "add.Tensor"(%add_94, %_unsafe_view_114, 1) fwd in "layers.1" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %pow_116 = aten.call "pow.Tensor_Scalar"(%add_115, 2) fwd in "norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mean_117 = aten.call "mean.dim"(%pow_116, [-1], true, none) fwd in "norm" : (tensor<1x16x16xf32>) -> tensor<1x16x1xf32>
    %add_118 = aten.call "add.Scalar"(%mean_117, 1.000000e-05, 1) fwd in "norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %rsqrt_119 = aten.call "rsqrt.default"(%add_118) fwd in "norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_120 = aten.call "mul.Tensor"(%add_115, %rsqrt_119) fwd in "norm" : (tensor<1x16x16xf32>, tensor<1x16x1xf32>) -> tensor<1x16x16xf32>
    %norm.weight = fsdp.read @norm.weight : tensor<16xf32>
    %mul_121 = aten.call "mul.Tensor"(%mul_120, %norm.weight) fwd in "norm" : (tensor<1x16x16xf32>, tensor<16xf32>) -> tensor<1x16x16xf32>
    %head.weight = fsdp.read @head.weight : tensor<128x16xf32>
    %t_122 = aten.call "t.default"(%head.weight) fwd in "head" : (tensor<128x16xf32>) -> tensor<16x128xf32, #aten.strides<[1, 16]>>
    %view_123 = aten.call "view.default"(%mul_121, [16, 16]) fwd in "head" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %mm_124 = aten.call "mm.default"(%view_123, %t_122) fwd in "head" : (tensor<16x16xf32>, tensor<16x128xf32, #aten.strides<[1, 16]>>) -> tensor<16x128xf32>
    %_unsafe_view_125 = aten.call "_unsafe_view.default"(%mm_124, [1, 16, 128]) fwd in "head" : (tensor<16x128xf32>) -> tensor<1x16x128xf32>
    %view_126 = aten.call "view.default"(%_unsafe_view_125, [-1, 128]) fwd in "" : (tensor<1x16x128xf32>) -> tensor<16x128xf32>
    %view_127 = aten.call "view.default"(%targets, [-1]) fwd in "" : (tensor<1x16xi64>) -> tensor<16xi64>
    %_log_softmax = aten.call "_log_softmax.default"(%view_126, 1, false) fwd in "" : (tensor<16x128xf32>) -> tensor<16x128xf32>
    %nll_loss_forward:2 = aten.call "nll_loss_forward.default"(%_log_softmax, %view_127, none, 1, -100) fwd in "" : (tensor<16x128xf32>, tensor<16xi64>) -> (tensor<f32>, tensor<f32>)
    %ones_like = aten.call "ones_like.default"(%nll_loss_forward#0, none, none, none, none, #aten.memory_format<contiguous>) bwd in "" : (tensor<f32>) -> tensor<f32>
    %nll_loss_backward = aten.call "nll_loss_backward.default"(%ones_like, %_log_softmax, %view_127, none, 1, -100, %nll_loss_forward#1) bwd in "" : (tensor<f32>, tensor<16x128xf32>, tensor<16xi64>, tensor<f32>) -> tensor<16x128xf32>
    %_log_softmax_backward_data = aten.call "_log_softmax_backward_data.default"(%nll_loss_backward, %_log_softmax, 1, f32) bwd in "" : (tensor<16x128xf32>, tensor<16x128xf32>) -> tensor<16x128xf32>
    %view_128 = aten.call "view.default"(%_log_softmax_backward_data, [1, 16, 128]) bwd in "" : (tensor<16x128xf32>) -> tensor<1x16x128xf32>
    %view_129 = aten.call "view.default"(%view_128, [16, 128]) bwd in "head" : (tensor<1x16x128xf32>) -> tensor<16x128xf32>
    %t_130 = aten.call "t.default"(%view_129) bwd in "head" : (tensor<16x128xf32>) -> tensor<128x16xf32, #aten.strides<[1, 128]>>
    %mm_131 = aten.call "mm.default"(%t_130, %view_123) bwd in "head" : (tensor<128x16xf32, #aten.strides<[1, 128]>>, tensor<16x16xf32>) -> tensor<128x16xf32>
    %t_132 = aten.call "t.default"(%mm_131) bwd in "head" : (tensor<128x16xf32>) -> tensor<16x128xf32, #aten.strides<[1, 16]>>
    %t_133 = aten.call "t.default"(%t_122) bwd in "head" : (tensor<16x128xf32, #aten.strides<[1, 16]>>) -> tensor<128x16xf32>
    %mm_134 = aten.call "mm.default"(%view_129, %t_133) bwd in "head" : (tensor<16x128xf32>, tensor<128x16xf32>) -> tensor<16x16xf32>
    %view_135 = aten.call "view.default"(%mm_134, [1, 16, 16]) bwd in "head" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %t_136 = aten.call "t.default"(%t_132) bwd in "head" : (tensor<16x128xf32, #aten.strides<[1, 16]>>) -> tensor<128x16xf32>
    fsdp.grad @head.weight, %t_136 : tensor<128x16xf32>
    %mul_137 = aten.call "mul.Tensor"(%view_135, %mul_120) bwd in "norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_138 = aten.call "mul.Tensor"(%view_135, %norm.weight) bwd in "norm" : (tensor<1x16x16xf32>, tensor<16xf32>) -> tensor<1x16x16xf32>
    %sum = aten.call "sum.dim_IntList"(%mul_137, [0, 1], true, none) bwd in "norm" : (tensor<1x16x16xf32>) -> tensor<1x1x16xf32>
    %view_139 = aten.call "view.default"(%sum, [16]) bwd in "norm" : (tensor<1x1x16xf32>) -> tensor<16xf32>
    fsdp.grad @norm.weight, %view_139 : tensor<16xf32>
    %mul_140 = aten.call "mul.Tensor"(%mul_138, %add_115) bwd in "norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_141 = aten.call "mul.Tensor"(%mul_138, %rsqrt_119) bwd in "norm" : (tensor<1x16x16xf32>, tensor<1x16x1xf32>) -> tensor<1x16x16xf32>
    %sum_142 = aten.call "sum.dim_IntList"(%mul_140, [2], true, none) bwd in "norm" : (tensor<1x16x16xf32>) -> tensor<1x16x1xf32>
    %pow_143 = aten.call "pow.Tensor_Scalar"(%rsqrt_119, 3) bwd in "norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_144 = aten.call "mul.Scalar"(%sum_142, -5.000000e-01) bwd in "norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_145 = aten.call "mul.Tensor"(%mul_144, %pow_143) bwd in "norm" : (tensor<1x16x1xf32>, tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %expand = aten.call "expand.default"(%mul_145, [1, 16, 16], false) bwd in "norm" : (tensor<1x16x1xf32>) -> tensor<1x16x16xf32, #aten.strides<[16, 1, 0]>>
    %div = aten.call "div.Scalar"(%expand, 16) bwd in "norm" : (tensor<1x16x16xf32, #aten.strides<[16, 1, 0]>>) -> tensor<1x16x16xf32>
    %pow_146 = aten.call "pow.Tensor_Scalar"(%add_115, 1.000000e+00) bwd in "norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_147 = aten.call "mul.Scalar"(%pow_146, 2.000000e+00) bwd in "norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_148 = aten.call "mul.Tensor"(%div, %mul_147) bwd in "norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %add_149 = aten.call "add.Tensor"(%mul_141, %mul_148, 1) bwd in "norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %view_150 = aten.call "view.default"(%add_149, [16, 16]) bwd in "layers.1.mlp.w2" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %t_151 = aten.call "t.default"(%view_150) bwd in "layers.1.mlp.w2" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %mm_152 = aten.call "mm.default"(%t_151, %view_112) bwd in "layers.1.mlp.w2" : (tensor<16x16xf32, #aten.strides<[1, 16]>>, tensor<16x48xf32>) -> tensor<16x48xf32>
    %t_153 = aten.call "t.default"(%mm_152) bwd in "layers.1.mlp.w2" : (tensor<16x48xf32>) -> tensor<48x16xf32, #aten.strides<[1, 48]>>
    %t_154 = aten.call "t.default"(%t_111) bwd in "layers.1.mlp.w2" : (tensor<48x16xf32, #aten.strides<[1, 48]>>) -> tensor<16x48xf32>
    %mm_155 = aten.call "mm.default"(%view_150, %t_154) bwd in "layers.1.mlp.w2" : (tensor<16x16xf32>, tensor<16x48xf32>) -> tensor<16x48xf32>
    %view_156 = aten.call "view.default"(%mm_155, [1, 16, 48]) bwd in "layers.1.mlp.w2" : (tensor<16x48xf32>) -> tensor<1x16x48xf32>
    %t_157 = aten.call "t.default"(%t_153) bwd in "layers.1.mlp.w2" : (tensor<48x16xf32, #aten.strides<[1, 48]>>) -> tensor<16x48xf32>
    fsdp.grad @layers.1.mlp.w2.weight, %t_157 : tensor<16x48xf32>
    %mul_158 = aten.call "mul.Tensor"(%view_156, %silu_105) bwd in "layers.1.mlp" : (tensor<1x16x48xf32>, tensor<1x16x48xf32>) -> tensor<1x16x48xf32>
    %mul_159 = aten.call "mul.Tensor"(%view_156, %_unsafe_view_109) bwd in "layers.1.mlp" : (tensor<1x16x48xf32>, tensor<1x16x48xf32>) -> tensor<1x16x48xf32>
    %view_160 = aten.call "view.default"(%mul_158, [16, 48]) bwd in "layers.1.mlp.w3" : (tensor<1x16x48xf32>) -> tensor<16x48xf32>
    %t_161 = aten.call "t.default"(%view_160) bwd in "layers.1.mlp.w3" : (tensor<16x48xf32>) -> tensor<48x16xf32, #aten.strides<[1, 48]>>
    %mm_162 = aten.call "mm.default"(%t_161, %view_107) bwd in "layers.1.mlp.w3" : (tensor<48x16xf32, #aten.strides<[1, 48]>>, tensor<16x16xf32>) -> tensor<48x16xf32>
    %t_163 = aten.call "t.default"(%mm_162) bwd in "layers.1.mlp.w3" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %t_164 = aten.call "t.default"(%t_106) bwd in "layers.1.mlp.w3" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    %mm_165 = aten.call "mm.default"(%view_160, %t_164) bwd in "layers.1.mlp.w3" : (tensor<16x48xf32>, tensor<48x16xf32>) -> tensor<16x16xf32>
    %view_166 = aten.call "view.default"(%mm_165, [1, 16, 16]) bwd in "layers.1.mlp.w3" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %t_167 = aten.call "t.default"(%t_163) bwd in "layers.1.mlp.w3" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    fsdp.grad @layers.1.mlp.w3.weight, %t_167 : tensor<48x16xf32>
    %silu_backward = aten.call "silu_backward.default"(%mul_159, %_unsafe_view_104) bwd in "layers.1.mlp" : (tensor<1x16x48xf32>, tensor<1x16x48xf32>) -> tensor<1x16x48xf32>
    %view_168 = aten.call "view.default"(%silu_backward, [16, 48]) bwd in "layers.1.mlp.w1" : (tensor<1x16x48xf32>) -> tensor<16x48xf32>
    %t_169 = aten.call "t.default"(%view_168) bwd in "layers.1.mlp.w1" : (tensor<16x48xf32>) -> tensor<48x16xf32, #aten.strides<[1, 48]>>
    %mm_170 = aten.call "mm.default"(%t_169, %view_102) bwd in "layers.1.mlp.w1" : (tensor<48x16xf32, #aten.strides<[1, 48]>>, tensor<16x16xf32>) -> tensor<48x16xf32>
    %t_171 = aten.call "t.default"(%mm_170) bwd in "layers.1.mlp.w1" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %t_172 = aten.call "t.default"(%t_101) bwd in "layers.1.mlp.w1" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    %mm_173 = aten.call "mm.default"(%view_168, %t_172) bwd in "layers.1.mlp.w1" : (tensor<16x48xf32>, tensor<48x16xf32>) -> tensor<16x16xf32>
    %view_174 = aten.call "view.default"(%mm_173, [1, 16, 16]) bwd in "layers.1.mlp.w1" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %add_175 = aten.call "add.Tensor"(%view_166, %view_174, 1) bwd in "layers.1.mlp.w1" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %t_176 = aten.call "t.default"(%t_171) bwd in "layers.1.mlp.w1" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    fsdp.grad @layers.1.mlp.w1.weight, %t_176 : tensor<48x16xf32>
    %mul_177 = aten.call "mul.Tensor"(%add_175, %mul_99) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_178 = aten.call "mul.Tensor"(%add_175, %layers.1.ffn_norm.weight) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>, tensor<16xf32>) -> tensor<1x16x16xf32>
    %sum_179 = aten.call "sum.dim_IntList"(%mul_177, [0, 1], true, none) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x1x16xf32>
    %view_180 = aten.call "view.default"(%sum_179, [16]) bwd in "layers.1.ffn_norm" : (tensor<1x1x16xf32>) -> tensor<16xf32>
    fsdp.grad @layers.1.ffn_norm.weight, %view_180 : tensor<16xf32>
    %mul_181 = aten.call "mul.Tensor"(%mul_178, %add_94) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_182 = aten.call "mul.Tensor"(%mul_178, %rsqrt_98) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x1xf32>) -> tensor<1x16x16xf32>
    %sum_183 = aten.call "sum.dim_IntList"(%mul_181, [2], true, none) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x1xf32>
    %add_184 = aten.call "add.Tensor"(%add_149, %mul_182, 1) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %pow_185 = aten.call "pow.Tensor_Scalar"(%rsqrt_98, 3) bwd in "layers.1.ffn_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_186 = aten.call "mul.Scalar"(%sum_183, -5.000000e-01) bwd in "layers.1.ffn_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_187 = aten.call "mul.Tensor"(%mul_186, %pow_185) bwd in "layers.1.ffn_norm" : (tensor<1x16x1xf32>, tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %expand_188 = aten.call "expand.default"(%mul_187, [1, 16, 16], false) bwd in "layers.1.ffn_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x16xf32, #aten.strides<[16, 1, 0]>>
    %div_189 = aten.call "div.Scalar"(%expand_188, 16) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32, #aten.strides<[16, 1, 0]>>) -> tensor<1x16x16xf32>
    %pow_190 = aten.call "pow.Tensor_Scalar"(%add_94, 1.000000e+00) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_191 = aten.call "mul.Scalar"(%pow_190, 2.000000e+00) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_192 = aten.call "mul.Tensor"(%div_189, %mul_191) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %add_193 = aten.call "add.Tensor"(%add_184, %mul_192, 1) bwd in "layers.1.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %view_194 = aten.call "view.default"(%add_193, [16, 16]) bwd in "layers.1.attn.wo" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %t_195 = aten.call "t.default"(%view_194) bwd in "layers.1.attn.wo" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %mm_196 = aten.call "mm.default"(%t_195, %view_91) bwd in "layers.1.attn.wo" : (tensor<16x16xf32, #aten.strides<[1, 16]>>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %t_197 = aten.call "t.default"(%mm_196) bwd in "layers.1.attn.wo" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %t_198 = aten.call "t.default"(%t_90) bwd in "layers.1.attn.wo" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    %mm_199 = aten.call "mm.default"(%view_194, %t_198) bwd in "layers.1.attn.wo" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %view_200 = aten.call "view.default"(%mm_199, [1, 16, 16]) bwd in "layers.1.attn.wo" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %t_201 = aten.call "t.default"(%t_197) bwd in "layers.1.attn.wo" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    fsdp.grad @layers.1.attn.wo.weight, %t_201 : tensor<16x16xf32>
    %view_202 = aten.call "view.default"(%view_200, [1, 16, 4, 4]) bwd in "layers.1.attn" : (tensor<1x16x16xf32>) -> tensor<1x16x4x4xf32>
    %transpose_203 = aten.call "transpose.int"(%view_202, 1, 2) bwd in "layers.1.attn" : (tensor<1x16x4x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %_scaled_dot_product_flash_attention_for_cpu_backward:3 = aten.call "_scaled_dot_product_flash_attention_for_cpu_backward.default"(%transpose_203, %add_68, %add_80, %transpose_86, %_scaled_dot_product_flash_attention_for_cpu_87#0, %_scaled_dot_product_flash_attention_for_cpu_87#1, 0.000000e+00, true, none, none) bwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16xf32, #aten.strides<[64, 1, 4]>>) -> (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>)
    %transpose_204 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu_backward#2, 1, 2) bwd in "layers.1.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x16x2x4xf32>
    %view_205 = aten.call "view.default"(%transpose_204, [1, 16, 8]) bwd in "layers.1.attn" : (tensor<1x16x2x4xf32>) -> tensor<1x16x8xf32>
    %view_206 = aten.call "view.default"(%view_205, [16, 8]) bwd in "layers.1.attn.wv" : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %t_207 = aten.call "t.default"(%view_206) bwd in "layers.1.attn.wv" : (tensor<16x8xf32>) -> tensor<8x16xf32, #aten.strides<[1, 8]>>
    %mm_208 = aten.call "mm.default"(%t_207, %view_82) bwd in "layers.1.attn.wv" : (tensor<8x16xf32, #aten.strides<[1, 8]>>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %t_209 = aten.call "t.default"(%mm_208) bwd in "layers.1.attn.wv" : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<[1, 16]>>
    %t_210 = aten.call "t.default"(%t_81) bwd in "layers.1.attn.wv" : (tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<8x16xf32>
    %mm_211 = aten.call "mm.default"(%view_206, %t_210) bwd in "layers.1.attn.wv" : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %view_212 = aten.call "view.default"(%mm_211, [1, 16, 16]) bwd in "layers.1.attn.wv" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %t_213 = aten.call "t.default"(%t_209) bwd in "layers.1.attn.wv" : (tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<8x16xf32>
    fsdp.grad @layers.1.attn.wv.weight, %t_213 : tensor<8x16xf32>
    %mul_214 = aten.call "mul.Tensor"(%_scaled_dot_product_flash_attention_for_cpu_backward#1, %slice_0) bwd in "layers.1.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<16x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %slice_215 = aten.call "slice.Tensor"(%mul_214, 3, 0, 2, 1) bwd in "layers.1.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1]>>
    %slice_216 = aten.call "slice.Tensor"(%mul_214, 3, 2, 4, 1) bwd in "layers.1.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1], offset = 2>>
    %neg_217 = aten.call "neg.default"(%slice_215) bwd in "layers.1.attn" : (tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x2x16x2xf32, #aten.strides<[64, 2, 4, 1]>>
    %mul_218 = aten.call "mul.Tensor"(%_scaled_dot_product_flash_attention_for_cpu_backward#1, %slice) bwd in "layers.1.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<16x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %cat_219 = aten.call "cat.default"([%slice_216, %neg_217], 3) bwd in "layers.1.attn" : (tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1], offset = 2>>, tensor<1x2x16x2xf32, #aten.strides<[64, 2, 4, 1]>>) -> tensor<1x2x16x4xf32>
    %add_220 = aten.call "add.Tensor"(%mul_218, %cat_219, 1) bwd in "layers.1.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %transpose_221 = aten.call "transpose.int"(%add_220, 1, 2) bwd in "layers.1.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x16x2x4xf32>
    %view_222 = aten.call "view.default"(%transpose_221, [1, 16, 8]) bwd in "layers.1.attn" : (tensor<1x16x2x4xf32>) -> tensor<1x16x8xf32>
    %view_223 = aten.call "view.default"(%view_222, [16, 8]) bwd in "layers.1.attn.wk" : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %t_224 = aten.call "t.default"(%view_223) bwd in "layers.1.attn.wk" : (tensor<16x8xf32>) -> tensor<8x16xf32, #aten.strides<[1, 8]>>
    %mm_225 = aten.call "mm.default"(%t_224, %view_70) bwd in "layers.1.attn.wk" : (tensor<8x16xf32, #aten.strides<[1, 8]>>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %t_226 = aten.call "t.default"(%mm_225) bwd in "layers.1.attn.wk" : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<[1, 16]>>
    %t_227 = aten.call "t.default"(%t_69) bwd in "layers.1.attn.wk" : (tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<8x16xf32>
    %mm_228 = aten.call "mm.default"(%view_223, %t_227) bwd in "layers.1.attn.wk" : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %view_229 = aten.call "view.default"(%mm_228, [1, 16, 16]) bwd in "layers.1.attn.wk" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %add_230 = aten.call "add.Tensor"(%view_212, %view_229, 1) bwd in "layers.1.attn.wk" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %t_231 = aten.call "t.default"(%t_226) bwd in "layers.1.attn.wk" : (tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<8x16xf32>
    fsdp.grad @layers.1.attn.wk.weight, %t_231 : tensor<8x16xf32>
    %mul_232 = aten.call "mul.Tensor"(%_scaled_dot_product_flash_attention_for_cpu_backward#0, %slice_0) bwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<16x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %slice_233 = aten.call "slice.Tensor"(%mul_232, 3, 0, 2, 1) bwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1]>>
    %slice_234 = aten.call "slice.Tensor"(%mul_232, 3, 2, 4, 1) bwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1], offset = 2>>
    %neg_235 = aten.call "neg.default"(%slice_233) bwd in "layers.1.attn" : (tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x4x16x2xf32, #aten.strides<[128, 2, 8, 1]>>
    %mul_236 = aten.call "mul.Tensor"(%_scaled_dot_product_flash_attention_for_cpu_backward#0, %slice) bwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<16x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %cat_237 = aten.call "cat.default"([%slice_234, %neg_235], 3) bwd in "layers.1.attn" : (tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1], offset = 2>>, tensor<1x4x16x2xf32, #aten.strides<[128, 2, 8, 1]>>) -> tensor<1x4x16x4xf32>
    %add_238 = aten.call "add.Tensor"(%mul_236, %cat_237, 1) bwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %transpose_239 = aten.call "transpose.int"(%add_238, 1, 2) bwd in "layers.1.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x16x4x4xf32>
    %view_240 = aten.call "view.default"(%transpose_239, [1, 16, 16]) bwd in "layers.1.attn" : (tensor<1x16x4x4xf32>) -> tensor<1x16x16xf32>
    %view_241 = aten.call "view.default"(%view_240, [16, 16]) bwd in "layers.1.attn.wq" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %t_242 = aten.call "t.default"(%view_241) bwd in "layers.1.attn.wq" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %mm_243 = aten.call "mm.default"(%t_242, %view_58) bwd in "layers.1.attn.wq" : (tensor<16x16xf32, #aten.strides<[1, 16]>>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %t_244 = aten.call "t.default"(%mm_243) bwd in "layers.1.attn.wq" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %t_245 = aten.call "t.default"(%t_57) bwd in "layers.1.attn.wq" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    %mm_246 = aten.call "mm.default"(%view_241, %t_245) bwd in "layers.1.attn.wq" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %view_247 = aten.call "view.default"(%mm_246, [1, 16, 16]) bwd in "layers.1.attn.wq" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %add_248 = aten.call "add.Tensor"(%add_230, %view_247, 1) bwd in "layers.1.attn.wq" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %t_249 = aten.call "t.default"(%t_244) bwd in "layers.1.attn.wq" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    fsdp.grad @layers.1.attn.wq.weight, %t_249 : tensor<16x16xf32>
    %mul_250 = aten.call "mul.Tensor"(%add_248, %mul_55) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_251 = aten.call "mul.Tensor"(%add_248, %layers.1.attention_norm.weight) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>, tensor<16xf32>) -> tensor<1x16x16xf32>
    %sum_252 = aten.call "sum.dim_IntList"(%mul_250, [0, 1], true, none) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x1x16xf32>
    %view_253 = aten.call "view.default"(%sum_252, [16]) bwd in "layers.1.attention_norm" : (tensor<1x1x16xf32>) -> tensor<16xf32>
    fsdp.grad @layers.1.attention_norm.weight, %view_253 : tensor<16xf32>
    %mul_254 = aten.call "mul.Tensor"(%mul_251, %add_50) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_255 = aten.call "mul.Tensor"(%mul_251, %rsqrt_54) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x1xf32>) -> tensor<1x16x16xf32>
    %sum_256 = aten.call "sum.dim_IntList"(%mul_254, [2], true, none) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x1xf32>
    %add_257 = aten.call "add.Tensor"(%add_193, %mul_255, 1) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %pow_258 = aten.call "pow.Tensor_Scalar"(%rsqrt_54, 3) bwd in "layers.1.attention_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_259 = aten.call "mul.Scalar"(%sum_256, -5.000000e-01) bwd in "layers.1.attention_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_260 = aten.call "mul.Tensor"(%mul_259, %pow_258) bwd in "layers.1.attention_norm" : (tensor<1x16x1xf32>, tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %expand_261 = aten.call "expand.default"(%mul_260, [1, 16, 16], false) bwd in "layers.1.attention_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x16xf32, #aten.strides<[16, 1, 0]>>
    %div_262 = aten.call "div.Scalar"(%expand_261, 16) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32, #aten.strides<[16, 1, 0]>>) -> tensor<1x16x16xf32>
    %pow_263 = aten.call "pow.Tensor_Scalar"(%add_50, 1.000000e+00) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_264 = aten.call "mul.Scalar"(%pow_263, 2.000000e+00) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_265 = aten.call "mul.Tensor"(%div_262, %mul_264) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %add_266 = aten.call "add.Tensor"(%add_257, %mul_265, 1) bwd in "layers.1.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %view_267 = aten.call "view.default"(%add_266, [16, 16]) bwd in "layers.0.mlp.w2" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %t_268 = aten.call "t.default"(%view_267) bwd in "layers.0.mlp.w2" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %mm_269 = aten.call "mm.default"(%t_268, %view_47) bwd in "layers.0.mlp.w2" : (tensor<16x16xf32, #aten.strides<[1, 16]>>, tensor<16x48xf32>) -> tensor<16x48xf32>
    %t_270 = aten.call "t.default"(%mm_269) bwd in "layers.0.mlp.w2" : (tensor<16x48xf32>) -> tensor<48x16xf32, #aten.strides<[1, 48]>>
    %t_271 = aten.call "t.default"(%t_46) bwd in "layers.0.mlp.w2" : (tensor<48x16xf32, #aten.strides<[1, 48]>>) -> tensor<16x48xf32>
    %mm_272 = aten.call "mm.default"(%view_267, %t_271) bwd in "layers.0.mlp.w2" : (tensor<16x16xf32>, tensor<16x48xf32>) -> tensor<16x48xf32>
    %view_273 = aten.call "view.default"(%mm_272, [1, 16, 48]) bwd in "layers.0.mlp.w2" : (tensor<16x48xf32>) -> tensor<1x16x48xf32>
    %t_274 = aten.call "t.default"(%t_270) bwd in "layers.0.mlp.w2" : (tensor<48x16xf32, #aten.strides<[1, 48]>>) -> tensor<16x48xf32>
    fsdp.grad @layers.0.mlp.w2.weight, %t_274 : tensor<16x48xf32>
    %mul_275 = aten.call "mul.Tensor"(%view_273, %silu) bwd in "layers.0.mlp" : (tensor<1x16x48xf32>, tensor<1x16x48xf32>) -> tensor<1x16x48xf32>
    %mul_276 = aten.call "mul.Tensor"(%view_273, %_unsafe_view_44) bwd in "layers.0.mlp" : (tensor<1x16x48xf32>, tensor<1x16x48xf32>) -> tensor<1x16x48xf32>
    %view_277 = aten.call "view.default"(%mul_275, [16, 48]) bwd in "layers.0.mlp.w3" : (tensor<1x16x48xf32>) -> tensor<16x48xf32>
    %t_278 = aten.call "t.default"(%view_277) bwd in "layers.0.mlp.w3" : (tensor<16x48xf32>) -> tensor<48x16xf32, #aten.strides<[1, 48]>>
    %mm_279 = aten.call "mm.default"(%t_278, %view_42) bwd in "layers.0.mlp.w3" : (tensor<48x16xf32, #aten.strides<[1, 48]>>, tensor<16x16xf32>) -> tensor<48x16xf32>
    %t_280 = aten.call "t.default"(%mm_279) bwd in "layers.0.mlp.w3" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %t_281 = aten.call "t.default"(%t_41) bwd in "layers.0.mlp.w3" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    %mm_282 = aten.call "mm.default"(%view_277, %t_281) bwd in "layers.0.mlp.w3" : (tensor<16x48xf32>, tensor<48x16xf32>) -> tensor<16x16xf32>
    %view_283 = aten.call "view.default"(%mm_282, [1, 16, 16]) bwd in "layers.0.mlp.w3" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %t_284 = aten.call "t.default"(%t_280) bwd in "layers.0.mlp.w3" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    fsdp.grad @layers.0.mlp.w3.weight, %t_284 : tensor<48x16xf32>
    %silu_backward_285 = aten.call "silu_backward.default"(%mul_276, %_unsafe_view_40) bwd in "layers.0.mlp" : (tensor<1x16x48xf32>, tensor<1x16x48xf32>) -> tensor<1x16x48xf32>
    %view_286 = aten.call "view.default"(%silu_backward_285, [16, 48]) bwd in "layers.0.mlp.w1" : (tensor<1x16x48xf32>) -> tensor<16x48xf32>
    %t_287 = aten.call "t.default"(%view_286) bwd in "layers.0.mlp.w1" : (tensor<16x48xf32>) -> tensor<48x16xf32, #aten.strides<[1, 48]>>
    %mm_288 = aten.call "mm.default"(%t_287, %view_38) bwd in "layers.0.mlp.w1" : (tensor<48x16xf32, #aten.strides<[1, 48]>>, tensor<16x16xf32>) -> tensor<48x16xf32>
    %t_289 = aten.call "t.default"(%mm_288) bwd in "layers.0.mlp.w1" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %t_290 = aten.call "t.default"(%t_37) bwd in "layers.0.mlp.w1" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    %mm_291 = aten.call "mm.default"(%view_286, %t_290) bwd in "layers.0.mlp.w1" : (tensor<16x48xf32>, tensor<48x16xf32>) -> tensor<16x16xf32>
    %view_292 = aten.call "view.default"(%mm_291, [1, 16, 16]) bwd in "layers.0.mlp.w1" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %add_293 = aten.call "add.Tensor"(%view_283, %view_292, 1) bwd in "layers.0.mlp.w1" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %t_294 = aten.call "t.default"(%t_289) bwd in "layers.0.mlp.w1" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    fsdp.grad @layers.0.mlp.w1.weight, %t_294 : tensor<48x16xf32>
    %mul_295 = aten.call "mul.Tensor"(%add_293, %mul_35) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_296 = aten.call "mul.Tensor"(%add_293, %layers.0.ffn_norm.weight) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>, tensor<16xf32>) -> tensor<1x16x16xf32>
    %sum_297 = aten.call "sum.dim_IntList"(%mul_295, [0, 1], true, none) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x1x16xf32>
    %view_298 = aten.call "view.default"(%sum_297, [16]) bwd in "layers.0.ffn_norm" : (tensor<1x1x16xf32>) -> tensor<16xf32>
    fsdp.grad @layers.0.ffn_norm.weight, %view_298 : tensor<16xf32>
    %mul_299 = aten.call "mul.Tensor"(%mul_296, %add_30) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_300 = aten.call "mul.Tensor"(%mul_296, %rsqrt_34) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x1xf32>) -> tensor<1x16x16xf32>
    %sum_301 = aten.call "sum.dim_IntList"(%mul_299, [2], true, none) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x1xf32>
    %add_302 = aten.call "add.Tensor"(%add_266, %mul_300, 1) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %pow_303 = aten.call "pow.Tensor_Scalar"(%rsqrt_34, 3) bwd in "layers.0.ffn_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_304 = aten.call "mul.Scalar"(%sum_301, -5.000000e-01) bwd in "layers.0.ffn_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_305 = aten.call "mul.Tensor"(%mul_304, %pow_303) bwd in "layers.0.ffn_norm" : (tensor<1x16x1xf32>, tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %expand_306 = aten.call "expand.default"(%mul_305, [1, 16, 16], false) bwd in "layers.0.ffn_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x16xf32, #aten.strides<[16, 1, 0]>>
    %div_307 = aten.call "div.Scalar"(%expand_306, 16) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32, #aten.strides<[16, 1, 0]>>) -> tensor<1x16x16xf32>
    %pow_308 = aten.call "pow.Tensor_Scalar"(%add_30, 1.000000e+00) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_309 = aten.call "mul.Scalar"(%pow_308, 2.000000e+00) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_310 = aten.call "mul.Tensor"(%div_307, %mul_309) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %add_311 = aten.call "add.Tensor"(%add_302, %mul_310, 1) bwd in "layers.0.ffn_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %view_312 = aten.call "view.default"(%add_311, [16, 16]) bwd in "layers.0.attn.wo" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %t_313 = aten.call "t.default"(%view_312) bwd in "layers.0.attn.wo" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %mm_314 = aten.call "mm.default"(%t_313, %view_27) bwd in "layers.0.attn.wo" : (tensor<16x16xf32, #aten.strides<[1, 16]>>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %t_315 = aten.call "t.default"(%mm_314) bwd in "layers.0.attn.wo" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %t_316 = aten.call "t.default"(%t_26) bwd in "layers.0.attn.wo" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    %mm_317 = aten.call "mm.default"(%view_312, %t_316) bwd in "layers.0.attn.wo" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %view_318 = aten.call "view.default"(%mm_317, [1, 16, 16]) bwd in "layers.0.attn.wo" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %t_319 = aten.call "t.default"(%t_315) bwd in "layers.0.attn.wo" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    fsdp.grad @layers.0.attn.wo.weight, %t_319 : tensor<16x16xf32>
    %view_320 = aten.call "view.default"(%view_318, [1, 16, 4, 4]) bwd in "layers.0.attn" : (tensor<1x16x16xf32>) -> tensor<1x16x4x4xf32>
    %transpose_321 = aten.call "transpose.int"(%view_320, 1, 2) bwd in "layers.0.attn" : (tensor<1x16x4x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %_scaled_dot_product_flash_attention_for_cpu_backward_322:3 = aten.call "_scaled_dot_product_flash_attention_for_cpu_backward.default"(%transpose_321, %add_5, %add_17, %transpose_23, %_scaled_dot_product_flash_attention_for_cpu#0, %_scaled_dot_product_flash_attention_for_cpu#1, 0.000000e+00, true, none, none) bwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16xf32, #aten.strides<[64, 1, 4]>>) -> (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>)
    %transpose_323 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu_backward_322#2, 1, 2) bwd in "layers.0.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x16x2x4xf32>
    %view_324 = aten.call "view.default"(%transpose_323, [1, 16, 8]) bwd in "layers.0.attn" : (tensor<1x16x2x4xf32>) -> tensor<1x16x8xf32>
    %view_325 = aten.call "view.default"(%view_324, [16, 8]) bwd in "layers.0.attn.wv" : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %t_326 = aten.call "t.default"(%view_325) bwd in "layers.0.attn.wv" : (tensor<16x8xf32>) -> tensor<8x16xf32, #aten.strides<[1, 8]>>
    %mm_327 = aten.call "mm.default"(%t_326, %view_19) bwd in "layers.0.attn.wv" : (tensor<8x16xf32, #aten.strides<[1, 8]>>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %t_328 = aten.call "t.default"(%mm_327) bwd in "layers.0.attn.wv" : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<[1, 16]>>
    %t_329 = aten.call "t.default"(%t_18) bwd in "layers.0.attn.wv" : (tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<8x16xf32>
    %mm_330 = aten.call "mm.default"(%view_325, %t_329) bwd in "layers.0.attn.wv" : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %view_331 = aten.call "view.default"(%mm_330, [1, 16, 16]) bwd in "layers.0.attn.wv" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %t_332 = aten.call "t.default"(%t_328) bwd in "layers.0.attn.wv" : (tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<8x16xf32>
    fsdp.grad @layers.0.attn.wv.weight, %t_332 : tensor<8x16xf32>
    %mul_333 = aten.call "mul.Tensor"(%_scaled_dot_product_flash_attention_for_cpu_backward_322#1, %slice_0) bwd in "layers.0.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<16x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %slice_334 = aten.call "slice.Tensor"(%mul_333, 3, 0, 2, 1) bwd in "layers.0.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1]>>
    %slice_335 = aten.call "slice.Tensor"(%mul_333, 3, 2, 4, 1) bwd in "layers.0.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1], offset = 2>>
    %neg_336 = aten.call "neg.default"(%slice_334) bwd in "layers.0.attn" : (tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x2x16x2xf32, #aten.strides<[64, 2, 4, 1]>>
    %mul_337 = aten.call "mul.Tensor"(%_scaled_dot_product_flash_attention_for_cpu_backward_322#1, %slice) bwd in "layers.0.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<16x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %cat_338 = aten.call "cat.default"([%slice_335, %neg_336], 3) bwd in "layers.0.attn" : (tensor<1x2x16x2xf32, #aten.strides<[128, 4, 8, 1], offset = 2>>, tensor<1x2x16x2xf32, #aten.strides<[64, 2, 4, 1]>>) -> tensor<1x2x16x4xf32>
    %add_339 = aten.call "add.Tensor"(%mul_337, %cat_338, 1) bwd in "layers.0.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>, tensor<1x2x16x4xf32>) -> tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>
    %transpose_340 = aten.call "transpose.int"(%add_339, 1, 2) bwd in "layers.0.attn" : (tensor<1x2x16x4xf32, #aten.strides<[128, 4, 8, 1]>>) -> tensor<1x16x2x4xf32>
    %view_341 = aten.call "view.default"(%transpose_340, [1, 16, 8]) bwd in "layers.0.attn" : (tensor<1x16x2x4xf32>) -> tensor<1x16x8xf32>
    %view_342 = aten.call "view.default"(%view_341, [16, 8]) bwd in "layers.0.attn.wk" : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %t_343 = aten.call "t.default"(%view_342) bwd in "layers.0.attn.wk" : (tensor<16x8xf32>) -> tensor<8x16xf32, #aten.strides<[1, 8]>>
    %mm_344 = aten.call "mm.default"(%t_343, %view_7) bwd in "layers.0.attn.wk" : (tensor<8x16xf32, #aten.strides<[1, 8]>>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %t_345 = aten.call "t.default"(%mm_344) bwd in "layers.0.attn.wk" : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<[1, 16]>>
    %t_346 = aten.call "t.default"(%t_6) bwd in "layers.0.attn.wk" : (tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<8x16xf32>
    %mm_347 = aten.call "mm.default"(%view_342, %t_346) bwd in "layers.0.attn.wk" : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %view_348 = aten.call "view.default"(%mm_347, [1, 16, 16]) bwd in "layers.0.attn.wk" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %add_349 = aten.call "add.Tensor"(%view_331, %view_348, 1) bwd in "layers.0.attn.wk" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %t_350 = aten.call "t.default"(%t_345) bwd in "layers.0.attn.wk" : (tensor<16x8xf32, #aten.strides<[1, 16]>>) -> tensor<8x16xf32>
    fsdp.grad @layers.0.attn.wk.weight, %t_350 : tensor<8x16xf32>
    %mul_351 = aten.call "mul.Tensor"(%_scaled_dot_product_flash_attention_for_cpu_backward_322#0, %slice_0) bwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<16x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %slice_352 = aten.call "slice.Tensor"(%mul_351, 3, 0, 2, 1) bwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1]>>
    %slice_353 = aten.call "slice.Tensor"(%mul_351, 3, 2, 4, 1) bwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1], offset = 2>>
    %neg_354 = aten.call "neg.default"(%slice_352) bwd in "layers.0.attn" : (tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x4x16x2xf32, #aten.strides<[128, 2, 8, 1]>>
    %mul_355 = aten.call "mul.Tensor"(%_scaled_dot_product_flash_attention_for_cpu_backward_322#0, %slice) bwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<16x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %cat_356 = aten.call "cat.default"([%slice_353, %neg_354], 3) bwd in "layers.0.attn" : (tensor<1x4x16x2xf32, #aten.strides<[256, 4, 16, 1], offset = 2>>, tensor<1x4x16x2xf32, #aten.strides<[128, 2, 8, 1]>>) -> tensor<1x4x16x4xf32>
    %add_357 = aten.call "add.Tensor"(%mul_355, %cat_356, 1) bwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>, tensor<1x4x16x4xf32>) -> tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>
    %transpose_358 = aten.call "transpose.int"(%add_357, 1, 2) bwd in "layers.0.attn" : (tensor<1x4x16x4xf32, #aten.strides<[256, 4, 16, 1]>>) -> tensor<1x16x4x4xf32>
    %view_359 = aten.call "view.default"(%transpose_358, [1, 16, 16]) bwd in "layers.0.attn" : (tensor<1x16x4x4xf32>) -> tensor<1x16x16xf32>
    %view_360 = aten.call "view.default"(%view_359, [16, 16]) bwd in "layers.0.attn.wq" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %t_361 = aten.call "t.default"(%view_360) bwd in "layers.0.attn.wq" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %mm_362 = aten.call "mm.default"(%t_361, %view) bwd in "layers.0.attn.wq" : (tensor<16x16xf32, #aten.strides<[1, 16]>>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %t_363 = aten.call "t.default"(%mm_362) bwd in "layers.0.attn.wq" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %t_364 = aten.call "t.default"(%t) bwd in "layers.0.attn.wq" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    %mm_365 = aten.call "mm.default"(%view_360, %t_364) bwd in "layers.0.attn.wq" : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %view_366 = aten.call "view.default"(%mm_365, [1, 16, 16]) bwd in "layers.0.attn.wq" : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %add_367 = aten.call "add.Tensor"(%add_349, %view_366, 1) bwd in "layers.0.attn.wq" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %t_368 = aten.call "t.default"(%t_363) bwd in "layers.0.attn.wq" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    fsdp.grad @layers.0.attn.wq.weight, %t_368 : tensor<16x16xf32>
    %mul_369 = aten.call "mul.Tensor"(%add_367, %mul) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_370 = aten.call "mul.Tensor"(%add_367, %layers.0.attention_norm.weight) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>, tensor<16xf32>) -> tensor<1x16x16xf32>
    %sum_371 = aten.call "sum.dim_IntList"(%mul_369, [0, 1], true, none) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x1x16xf32>
    %view_372 = aten.call "view.default"(%sum_371, [16]) bwd in "layers.0.attention_norm" : (tensor<1x1x16xf32>) -> tensor<16xf32>
    fsdp.grad @layers.0.attention_norm.weight, %view_372 : tensor<16xf32>
    %mul_373 = aten.call "mul.Tensor"(%mul_370, %embedding) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_374 = aten.call "mul.Tensor"(%mul_370, %rsqrt) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x1xf32>) -> tensor<1x16x16xf32>
    %sum_375 = aten.call "sum.dim_IntList"(%mul_373, [2], true, none) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x1xf32>
    %add_376 = aten.call "add.Tensor"(%add_311, %mul_374, 1) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %pow_377 = aten.call "pow.Tensor_Scalar"(%rsqrt, 3) bwd in "layers.0.attention_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_378 = aten.call "mul.Scalar"(%sum_375, -5.000000e-01) bwd in "layers.0.attention_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %mul_379 = aten.call "mul.Tensor"(%mul_378, %pow_377) bwd in "layers.0.attention_norm" : (tensor<1x16x1xf32>, tensor<1x16x1xf32>) -> tensor<1x16x1xf32>
    %expand_380 = aten.call "expand.default"(%mul_379, [1, 16, 16], false) bwd in "layers.0.attention_norm" : (tensor<1x16x1xf32>) -> tensor<1x16x16xf32, #aten.strides<[16, 1, 0]>>
    %div_381 = aten.call "div.Scalar"(%expand_380, 16) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32, #aten.strides<[16, 1, 0]>>) -> tensor<1x16x16xf32>
    %pow_382 = aten.call "pow.Tensor_Scalar"(%embedding, 1.000000e+00) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_383 = aten.call "mul.Scalar"(%pow_382, 2.000000e+00) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %mul_384 = aten.call "mul.Tensor"(%div_381, %mul_383) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %add_385 = aten.call "add.Tensor"(%add_376, %mul_384, 1) bwd in "layers.0.attention_norm" : (tensor<1x16x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16x16xf32>
    %embedding_dense_backward = aten.call "embedding_dense_backward.default"(%add_385, %tokens, 128, -1, false) bwd in "tok" : (tensor<1x16x16xf32>, tensor<1x16xi64>) -> tensor<128x16xf32>
    fsdp.grad @tok.weight, %embedding_dense_backward : tensor<128x16xf32>
    fsdp.update @tok.weight step %step lr %lr
    fsdp.update @layers.0.attention_norm.weight step %step lr %lr
    fsdp.update @layers.0.attn.wq.weight step %step lr %lr
    fsdp.update @layers.0.attn.wk.weight step %step lr %lr
    fsdp.update @layers.0.attn.wv.weight step %step lr %lr
    fsdp.update @layers.0.attn.wo.weight step %step lr %lr
    fsdp.update @layers.0.ffn_norm.weight step %step lr %lr
    fsdp.update @layers.0.mlp.w1.weight step %step lr %lr
    fsdp.update @layers.0.mlp.w3.weight step %step lr %lr
    fsdp.update @layers.0.mlp.w2.weight step %step lr %lr
    fsdp.update @layers.1.attention_norm.weight step %step lr %lr
    fsdp.update @layers.1.attn.wq.weight step %step lr %lr
    fsdp.update @layers.1.attn.wk.weight step %step lr %lr
    fsdp.update @layers.1.attn.wv.weight step %step lr %lr
    fsdp.update @layers.1.attn.wo.weight step %step lr %lr
    fsdp.update @layers.1.ffn_norm.weight step %step lr %lr
    fsdp.update @layers.1.mlp.w1.weight step %step lr %lr
    fsdp.update @layers.1.mlp.w3.weight step %step lr %lr
    fsdp.update @layers.1.mlp.w2.weight step %step lr %lr
    fsdp.update @norm.weight step %step lr %lr
    fsdp.update @head.weight step %step lr %lr
    return %nll_loss_forward#0 : tensor<f32>
  }
}

