module attributes {fsdp.model = "gpt2", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @wte.weight : tensor<64x16xf32> aliases ["head.weight"]
  fsdp.param @wpe.weight : tensor<16x16xf32>
  fsdp.param @h.0.ln_1.weight : tensor<16xf32>
  fsdp.param @h.0.ln_1.bias : tensor<16xf32>
  fsdp.param @h.0.qkv.weight : tensor<48x16xf32>
  fsdp.param @h.0.qkv.bias : tensor<48xf32>
  fsdp.param @h.0.proj.weight : tensor<16x16xf32>
  fsdp.param @h.0.proj.bias : tensor<16xf32>
  fsdp.param @h.0.ln_2.weight : tensor<16xf32>
  fsdp.param @h.0.ln_2.bias : tensor<16xf32>
  fsdp.param @h.0.up.weight : tensor<64x16xf32>
  fsdp.param @h.0.up.bias : tensor<64xf32>
  fsdp.param @h.0.down.weight : tensor<16x64xf32>
  fsdp.param @h.0.down.bias : tensor<16xf32>
  fsdp.param @h.1.ln_1.weight : tensor<16xf32>
  fsdp.param @h.1.ln_1.bias : tensor<16xf32>
  fsdp.param @h.1.qkv.weight : tensor<48x16xf32>
  fsdp.param @h.1.qkv.bias : tensor<48xf32>
  fsdp.param @h.1.proj.weight : tensor<16x16xf32>
  fsdp.param @h.1.proj.bias : tensor<16xf32>
  fsdp.param @h.1.ln_2.weight : tensor<16xf32>
  fsdp.param @h.1.ln_2.bias : tensor<16xf32>
  fsdp.param @h.1.up.weight : tensor<64x16xf32>
  fsdp.param @h.1.up.bias : tensor<64xf32>
  fsdp.param @h.1.down.weight : tensor<16x64xf32>
  fsdp.param @h.1.down.bias : tensor<16xf32>
  fsdp.param @ln_f.weight : tensor<16xf32>
  fsdp.param @ln_f.bias : tensor<16xf32>
  fsdp.optimizer sgd lr = 1.000000e-03 weight_decay = 0.000000e+00 momentum = 9.000000e-01
  func.func @step() -> tensor<f32> {
    %tokens = fsdp.input "tokens" : tensor<2x16xi64>
    %targets = fsdp.input "targets" : tensor<2x16xi64>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %arange = aten.call "arange.default"(16, none, none, #aten.device, none) fwd in "" : () -> tensor<16xi64>
    %wte.weight = fsdp.read @wte.weight : tensor<64x16xf32>
    %embedding = aten.call "embedding.default"(%wte.weight, %tokens, -1, false, false) fwd in "wte" : (tensor<64x16xf32>, tensor<2x16xi64>) -> tensor<2x16x16xf32>
    %wpe.weight = fsdp.read @wpe.weight : tensor<16x16xf32>
    %embedding_0 = aten.call "embedding.default"(%wpe.weight, %arange, -1, false, false) fwd in "wpe" : (tensor<16x16xf32>, tensor<16xi64>) -> tensor<16x16xf32>
    %add = aten.call "add.Tensor"(%embedding, %embedding_0, 1) fwd in "" : (tensor<2x16x16xf32>, tensor<16x16xf32>) -> tensor<2x16x16xf32>
    %h.0.ln_1.weight = fsdp.read @h.0.ln_1.weight : tensor<16xf32>
    %h.0.ln_1.bias = fsdp.read @h.0.ln_1.bias : tensor<16xf32>
    %native_layer_norm:3 = aten.call "native_layer_norm.default"(%add, [16], %h.0.ln_1.weight, %h.0.ln_1.bias, 1.000000e-05) fwd in "h.0.ln_1" : (tensor<2x16x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x16xf32>, tensor<2x16x1xf32>, tensor<2x16x1xf32>)
    %view = aten.call "view.default"(%native_layer_norm#0, [32, 16]) fwd in "h.0.qkv" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %h.0.qkv.weight = fsdp.read @h.0.qkv.weight : tensor<48x16xf32>
    %t = aten.call "t.default"(%h.0.qkv.weight) fwd in "h.0.qkv" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %h.0.qkv.bias = fsdp.read @h.0.qkv.bias : tensor<48xf32>
    %addmm = aten.call "addmm.default"(%h.0.qkv.bias, %view, %t, 1, 1) fwd in "h.0.qkv" : (tensor<48xf32>, tensor<32x16xf32>, tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<32x48xf32>
    %view_1 = aten.call "view.default"(%addmm, [2, 16, 48]) fwd in "h.0.qkv" : (tensor<32x48xf32>) -> tensor<2x16x48xf32>
    %split:3 = aten.call "split.Tensor"(%view_1, 16, 2) fwd in "h.0" : (tensor<2x16x48xf32>) -> (tensor<2x16x16xf32, #aten.strides<[768, 48, 1]>>, tensor<2x16x16xf32, #aten.strides<[768, 48, 1], offset = 16>>, tensor<2x16x16xf32, #aten.strides<[768, 48, 1], offset = 32>>)
    %view_2 = aten.call "view.default"(%split#0, [2, 16, 2, 8]) fwd in "h.0" : (tensor<2x16x16xf32, #aten.strides<[768, 48, 1]>>) -> tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1]>>
    %transpose = aten.call "transpose.int"(%view_2, 1, 2) fwd in "h.0" : (tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1]>>) -> tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1]>>
    %view_3 = aten.call "view.default"(%split#1, [2, 16, 2, 8]) fwd in "h.0" : (tensor<2x16x16xf32, #aten.strides<[768, 48, 1], offset = 16>>) -> tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1], offset = 16>>
    %transpose_4 = aten.call "transpose.int"(%view_3, 1, 2) fwd in "h.0" : (tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1], offset = 16>>) -> tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 16>>
    %view_5 = aten.call "view.default"(%split#2, [2, 16, 2, 8]) fwd in "h.0" : (tensor<2x16x16xf32, #aten.strides<[768, 48, 1], offset = 32>>) -> tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1], offset = 32>>
    %transpose_6 = aten.call "transpose.int"(%view_5, 1, 2) fwd in "h.0" : (tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1], offset = 32>>) -> tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 32>>
    %_scaled_dot_product_flash_attention_for_cpu:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu.default"(%transpose, %transpose_4, %transpose_6, 0.000000e+00, true, none, none) fwd in "h.0" : (tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1]>>, tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 16>>, tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 32>>) -> (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16xf32, #aten.strides<[32, 1, 2]>>)
    %transpose_7 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu#0, 1, 2) fwd in "h.0" : (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>) -> tensor<2x16x2x8xf32>
    %view_8 = aten.call "view.default"(%transpose_7, [2, 16, 16]) fwd in "h.0" : (tensor<2x16x2x8xf32>) -> tensor<2x16x16xf32>
    %view_9 = aten.call "view.default"(%view_8, [32, 16]) fwd in "h.0.proj" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %h.0.proj.weight = fsdp.read @h.0.proj.weight : tensor<16x16xf32>
    %t_10 = aten.call "t.default"(%h.0.proj.weight) fwd in "h.0.proj" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %h.0.proj.bias = fsdp.read @h.0.proj.bias : tensor<16xf32>
    %addmm_11 = aten.call "addmm.default"(%h.0.proj.bias, %view_9, %t_10, 1, 1) fwd in "h.0.proj" : (tensor<16xf32>, tensor<32x16xf32>, tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<32x16xf32>
    %view_12 = aten.call "view.default"(%addmm_11, [2, 16, 16]) fwd in "h.0.proj" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %add_13 = aten.call "add.Tensor"(%add, %view_12, 1) fwd in "h.0" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %h.0.ln_2.weight = fsdp.read @h.0.ln_2.weight : tensor<16xf32>
    %h.0.ln_2.bias = fsdp.read @h.0.ln_2.bias : tensor<16xf32>
    %native_layer_norm_14:3 = aten.call "native_layer_norm.default"(%add_13, [16], %h.0.ln_2.weight, %h.0.ln_2.bias, 1.000000e-05) fwd in "h.0.ln_2" : (tensor<2x16x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x16xf32>, tensor<2x16x1xf32>, tensor<2x16x1xf32>)
    %view_15 = aten.call "view.default"(%native_layer_norm_14#0, [32, 16]) fwd in "h.0.up" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %h.0.up.weight = fsdp.read @h.0.up.weight : tensor<64x16xf32>
    %t_16 = aten.call "t.default"(%h.0.up.weight) fwd in "h.0.up" : (tensor<64x16xf32>) -> tensor<16x64xf32, #aten.strides<[1, 16]>>
    %h.0.up.bias = fsdp.read @h.0.up.bias : tensor<64xf32>
    %addmm_17 = aten.call "addmm.default"(%h.0.up.bias, %view_15, %t_16, 1, 1) fwd in "h.0.up" : (tensor<64xf32>, tensor<32x16xf32>, tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<32x64xf32>
    %view_18 = aten.call "view.default"(%addmm_17, [2, 16, 64]) fwd in "h.0.up" : (tensor<32x64xf32>) -> tensor<2x16x64xf32>
    %gelu = aten.call "gelu.default"(%view_18, "tanh") fwd in "h.0" : (tensor<2x16x64xf32>) -> tensor<2x16x64xf32>
    %view_19 = aten.call "view.default"(%gelu, [32, 64]) fwd in "h.0.down" : (tensor<2x16x64xf32>) -> tensor<32x64xf32>
    %h.0.down.weight = fsdp.read @h.0.down.weight : tensor<16x64xf32>
    %t_20 = aten.call "t.default"(%h.0.down.weight) fwd in "h.0.down" : (tensor<16x64xf32>) -> tensor<64x16xf32, #aten.strides<[1, 64]>>
    %h.0.down.bias = fsdp.read @h.0.down.bias : tensor<16xf32>
    %addmm_21 = aten.call "addmm.default"(%h.0.down.bias, %view_19, %t_20, 1, 1) fwd in "h.0.down" : (tensor<16xf32>, tensor<32x64xf32>, tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<32x16xf32>
    %view_22 = aten.call "view.default"(%addmm_21, [2, 16, 16]) fwd in "h.0.down" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %add_23 = aten.call "add.Tensor"(%add_13, %view_22, 1) fwd in "h.0" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %h.1.ln_1.weight = fsdp.read @h.1.ln_1.weight : tensor<16xf32>
    %h.1.ln_1.bias = fsdp.read @h.1.ln_1.bias : tensor<16xf32>
    %native_layer_norm_24:3 = aten.call "native_layer_norm.default"(%add_23, [16], %h.1.ln_1.weight, %h.1.ln_1.bias, 1.000000e-05) fwd in "h.1.ln_1" : (tensor<2x16x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x16xf32>, tensor<2x16x1xf32>, tensor<2x16x1xf32>)
    %view_25 = aten.call "view.default"(%native_layer_norm_24#0, [32, 16]) fwd in "h.1.qkv" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %h.1.qkv.weight = fsdp.read @h.1.qkv.weight : tensor<48x16xf32>
    %t_26 = aten.call "t.default"(%h.1.qkv.weight) fwd in "h.1.qkv" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %h.1.qkv.bias = fsdp.read @h.1.qkv.bias : tensor<48xf32>
    %addmm_27 = aten.call "addmm.default"(%h.1.qkv.bias, %view_25, %t_26, 1, 1) fwd in "h.1.qkv" : (tensor<48xf32>, tensor<32x16xf32>, tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<32x48xf32>
    %view_28 = aten.call "view.default"(%addmm_27, [2, 16, 48]) fwd in "h.1.qkv" : (tensor<32x48xf32>) -> tensor<2x16x48xf32>
    %split_29:3 = aten.call "split.Tensor"(%view_28, 16, 2) fwd in "h.1" : (tensor<2x16x48xf32>) -> (tensor<2x16x16xf32, #aten.strides<[768, 48, 1]>>, tensor<2x16x16xf32, #aten.strides<[768, 48, 1], offset = 16>>, tensor<2x16x16xf32, #aten.strides<[768, 48, 1], offset = 32>>)
    %view_30 = aten.call "view.default"(%split_29#0, [2, 16, 2, 8]) fwd in "h.1" : (tensor<2x16x16xf32, #aten.strides<[768, 48, 1]>>) -> tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1]>>
    %transpose_31 = aten.call "transpose.int"(%view_30, 1, 2) fwd in "h.1" : (tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1]>>) -> tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1]>>
    %view_32 = aten.call "view.default"(%split_29#1, [2, 16, 2, 8]) fwd in "h.1" : (tensor<2x16x16xf32, #aten.strides<[768, 48, 1], offset = 16>>) -> tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1], offset = 16>>
    %transpose_33 = aten.call "transpose.int"(%view_32, 1, 2) fwd in "h.1" : (tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1], offset = 16>>) -> tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 16>>
    %view_34 = aten.call "view.default"(%split_29#2, [2, 16, 2, 8]) fwd in "h.1" : (tensor<2x16x16xf32, #aten.strides<[768, 48, 1], offset = 32>>) -> tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1], offset = 32>>
    %transpose_35 = aten.call "transpose.int"(%view_34, 1, 2) fwd in "h.1" : (tensor<2x16x2x8xf32, #aten.strides<[768, 48, 8, 1], offset = 32>>) -> tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 32>>
    %_scaled_dot_product_flash_attention_for_cpu_36:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu.default"(%transpose_31, %transpose_33, %transpose_35, 0.000000e+00, true, none, none) fwd in "h.1" : (tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1]>>, tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 16>>, tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 32>>) -> (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16xf32, #aten.strides<[32, 1, 2]>>)
    %transpose_37 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu_36#0, 1, 2) fwd in "h.1" : (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>) -> tensor<2x16x2x8xf32>
    %view_38 = aten.call "view.default"(%transpose_37, [2, 16, 16]) fwd in "h.1" : (tensor<2x16x2x8xf32>) -> tensor<2x16x16xf32>
    %view_39 = aten.call "view.default"(%view_38, [32, 16]) fwd in "h.1.proj" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %h.1.proj.weight = fsdp.read @h.1.proj.weight : tensor<16x16xf32>
    %t_40 = aten.call "t.default"(%h.1.proj.weight) fwd in "h.1.proj" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %h.1.proj.bias = fsdp.read @h.1.proj.bias : tensor<16xf32>
    %addmm_41 = aten.call "addmm.default"(%h.1.proj.bias, %view_39, %t_40, 1, 1) fwd in "h.1.proj" : (tensor<16xf32>, tensor<32x16xf32>, tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<32x16xf32>
    %view_42 = aten.call "view.default"(%addmm_41, [2, 16, 16]) fwd in "h.1.proj" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %add_43 = aten.call "add.Tensor"(%add_23, %view_42, 1) fwd in "h.1" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %h.1.ln_2.weight = fsdp.read @h.1.ln_2.weight : tensor<16xf32>
    %h.1.ln_2.bias = fsdp.read @h.1.ln_2.bias : tensor<16xf32>
    %native_layer_norm_44:3 = aten.call "native_layer_norm.default"(%add_43, [16], %h.1.ln_2.weight, %h.1.ln_2.bias, 1.000000e-05) fwd in "h.1.ln_2" : (tensor<2x16x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x16xf32>, tensor<2x16x1xf32>, tensor<2x16x1xf32>)
    %view_45 = aten.call "view.default"(%native_layer_norm_44#0, [32, 16]) fwd in "h.1.up" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %h.1.up.weight = fsdp.read @h.1.up.weight : tensor<64x16xf32>
    %t_46 = aten.call "t.default"(%h.1.up.weight) fwd in "h.1.up" : (tensor<64x16xf32>) -> tensor<16x64xf32, #aten.strides<[1, 16]>>
    %h.1.up.bias = fsdp.read @h.1.up.bias : tensor<64xf32>
    %addmm_47 = aten.call "addmm.default"(%h.1.up.bias, %view_45, %t_46, 1, 1) fwd in "h.1.up" : (tensor<64xf32>, tensor<32x16xf32>, tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<32x64xf32>
    %view_48 = aten.call "view.default"(%addmm_47, [2, 16, 64]) fwd in "h.1.up" : (tensor<32x64xf32>) -> tensor<2x16x64xf32>
    %gelu_49 = aten.call "gelu.default"(%view_48, "tanh") fwd in "h.1" : (tensor<2x16x64xf32>) -> tensor<2x16x64xf32>
    %view_50 = aten.call "view.default"(%gelu_49, [32, 64]) fwd in "h.1.down" : (tensor<2x16x64xf32>) -> tensor<32x64xf32>
    %h.1.down.weight = fsdp.read @h.1.down.weight : tensor<16x64xf32>
    %t_51 = aten.call "t.default"(%h.1.down.weight) fwd in "h.1.down" : (tensor<16x64xf32>) -> tensor<64x16xf32, #aten.strides<[1, 64]>>
    %h.1.down.bias = fsdp.read @h.1.down.bias : tensor<16xf32>
    %addmm_52 = aten.call "addmm.default"(%h.1.down.bias, %view_50, %t_51, 1, 1) fwd in "h.1.down" : (tensor<16xf32>, tensor<32x64xf32>, tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<32x16xf32>
    %view_53 = aten.call "view.default"(%addmm_52, [2, 16, 16]) fwd in "h.1.down" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %add_54 = aten.call "add.Tensor"(%add_43, %view_53, 1) fwd in "h.1" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %ln_f.weight = fsdp.read @ln_f.weight : tensor<16xf32>
    %ln_f.bias = fsdp.read @ln_f.bias : tensor<16xf32>
    %native_layer_norm_55:3 = aten.call "native_layer_norm.default"(%add_54, [16], %ln_f.weight, %ln_f.bias, 1.000000e-05) fwd in "ln_f" : (tensor<2x16x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x16xf32>, tensor<2x16x1xf32>, tensor<2x16x1xf32>)
    %t_56 = aten.call "t.default"(%wte.weight) fwd in "head" : (tensor<64x16xf32>) -> tensor<16x64xf32, #aten.strides<[1, 16]>>
    %view_57 = aten.call "view.default"(%native_layer_norm_55#0, [32, 16]) fwd in "head" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %mm = aten.call "mm.default"(%view_57, %t_56) fwd in "head" : (tensor<32x16xf32>, tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<32x64xf32>
    %_unsafe_view = aten.call "_unsafe_view.default"(%mm, [2, 16, 64]) fwd in "head" : (tensor<32x64xf32>) -> tensor<2x16x64xf32>
    %view_58 = aten.call "view.default"(%_unsafe_view, [-1, 64]) fwd in "" : (tensor<2x16x64xf32>) -> tensor<32x64xf32>
    %view_59 = aten.call "view.default"(%targets, [-1]) fwd in "" : (tensor<2x16xi64>) -> tensor<32xi64>
    %_log_softmax = aten.call "_log_softmax.default"(%view_58, 1, false) fwd in "" : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %nll_loss_forward:2 = aten.call "nll_loss_forward.default"(%_log_softmax, %view_59, none, 1, -100) fwd in "" : (tensor<32x64xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<f32>)
    %ones_like = aten.call "ones_like.default"(%nll_loss_forward#0, none, none, none, none, #aten.memory_format<contiguous>) bwd in "" : (tensor<f32>) -> tensor<f32>
    %nll_loss_backward = aten.call "nll_loss_backward.default"(%ones_like, %_log_softmax, %view_59, none, 1, -100, %nll_loss_forward#1) bwd in "" : (tensor<f32>, tensor<32x64xf32>, tensor<32xi64>, tensor<f32>) -> tensor<32x64xf32>
    %_log_softmax_backward_data = aten.call "_log_softmax_backward_data.default"(%nll_loss_backward, %_log_softmax, 1, f32) bwd in "" : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    %view_60 = aten.call "view.default"(%_log_softmax_backward_data, [2, 16, 64]) bwd in "" : (tensor<32x64xf32>) -> tensor<2x16x64xf32>
    %view_61 = aten.call "view.default"(%view_60, [32, 64]) bwd in "head" : (tensor<2x16x64xf32>) -> tensor<32x64xf32>
    %t_62 = aten.call "t.default"(%view_61) bwd in "head" : (tensor<32x64xf32>) -> tensor<64x32xf32, #aten.strides<[1, 64]>>
    %mm_63 = aten.call "mm.default"(%t_62, %view_57) bwd in "head" : (tensor<64x32xf32, #aten.strides<[1, 64]>>, tensor<32x16xf32>) -> tensor<64x16xf32>
    %t_64 = aten.call "t.default"(%mm_63) bwd in "head" : (tensor<64x16xf32>) -> tensor<16x64xf32, #aten.strides<[1, 16]>>
    %t_65 = aten.call "t.default"(%t_56) bwd in "head" : (tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<64x16xf32>
    %mm_66 = aten.call "mm.default"(%view_61, %t_65) bwd in "head" : (tensor<32x64xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
    %view_67 = aten.call "view.default"(%mm_66, [2, 16, 16]) bwd in "head" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %t_68 = aten.call "t.default"(%t_64) bwd in "head" : (tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<64x16xf32>
    %native_layer_norm_backward:3 = aten.call "native_layer_norm_backward.default"(%view_67, %add_54, [16], %native_layer_norm_55#1, %native_layer_norm_55#2, %ln_f.weight, %ln_f.bias, [true, true, true]) bwd in "ln_f" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>, tensor<2x16x1xf32>, tensor<2x16x1xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x16xf32>, tensor<16xf32>, tensor<16xf32>)
    fsdp.grad @ln_f.weight, %native_layer_norm_backward#1 : tensor<16xf32>
    fsdp.grad @ln_f.bias, %native_layer_norm_backward#2 : tensor<16xf32>
    %view_69 = aten.call "view.default"(%native_layer_norm_backward#0, [32, 16]) bwd in "h.1.down" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %t_70 = aten.call "t.default"(%t_51) bwd in "h.1.down" : (tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<16x64xf32>
    %mm_71 = aten.call "mm.default"(%view_69, %t_70) bwd in "h.1.down" : (tensor<32x16xf32>, tensor<16x64xf32>) -> tensor<32x64xf32>
    %t_72 = aten.call "t.default"(%view_69) bwd in "h.1.down" : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<[1, 16]>>
    %mm_73 = aten.call "mm.default"(%t_72, %view_50) bwd in "h.1.down" : (tensor<16x32xf32, #aten.strides<[1, 16]>>, tensor<32x64xf32>) -> tensor<16x64xf32>
    %t_74 = aten.call "t.default"(%mm_73) bwd in "h.1.down" : (tensor<16x64xf32>) -> tensor<64x16xf32, #aten.strides<[1, 64]>>
    %sum = aten.call "sum.dim_IntList"(%view_69, [0], true, none) bwd in "h.1.down" : (tensor<32x16xf32>) -> tensor<1x16xf32>
    %view_75 = aten.call "view.default"(%sum, [16]) bwd in "h.1.down" : (tensor<1x16xf32>) -> tensor<16xf32>
    fsdp.grad @h.1.down.bias, %view_75 : tensor<16xf32>
    %t_76 = aten.call "t.default"(%t_74) bwd in "h.1.down" : (tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<16x64xf32>
    fsdp.grad @h.1.down.weight, %t_76 : tensor<16x64xf32>
    %view_77 = aten.call "view.default"(%mm_71, [2, 16, 64]) bwd in "h.1.down" : (tensor<32x64xf32>) -> tensor<2x16x64xf32>
    %gelu_backward = aten.call "gelu_backward.default"(%view_77, %view_48, "tanh") bwd in "h.1" : (tensor<2x16x64xf32>, tensor<2x16x64xf32>) -> tensor<2x16x64xf32>
    %view_78 = aten.call "view.default"(%gelu_backward, [32, 64]) bwd in "h.1.up" : (tensor<2x16x64xf32>) -> tensor<32x64xf32>
    %t_79 = aten.call "t.default"(%t_46) bwd in "h.1.up" : (tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<64x16xf32>
    %mm_80 = aten.call "mm.default"(%view_78, %t_79) bwd in "h.1.up" : (tensor<32x64xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
    %t_81 = aten.call "t.default"(%view_78) bwd in "h.1.up" : (tensor<32x64xf32>) -> tensor<64x32xf32, #aten.strides<[1, 64]>>
    %mm_82 = aten.call "mm.default"(%t_81, %view_45) bwd in "h.1.up" : (tensor<64x32xf32, #aten.strides<[1, 64]>>, tensor<32x16xf32>) -> tensor<64x16xf32>
    %t_83 = aten.call "t.default"(%mm_82) bwd in "h.1.up" : (tensor<64x16xf32>) -> tensor<16x64xf32, #aten.strides<[1, 16]>>
    %sum_84 = aten.call "sum.dim_IntList"(%view_78, [0], true, none) bwd in "h.1.up" : (tensor<32x64xf32>) -> tensor<1x64xf32>
    %view_85 = aten.call "view.default"(%sum_84, [64]) bwd in "h.1.up" : (tensor<1x64xf32>) -> tensor<64xf32>
    fsdp.grad @h.1.up.bias, %view_85 : tensor<64xf32>
    %t_86 = aten.call "t.default"(%t_83) bwd in "h.1.up" : (tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<64x16xf32>
    fsdp.grad @h.1.up.weight, %t_86 : tensor<64x16xf32>
    %view_87 = aten.call "view.default"(%mm_80, [2, 16, 16]) bwd in "h.1.up" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %native_layer_norm_backward_88:3 = aten.call "native_layer_norm_backward.default"(%view_87, %add_43, [16], %native_layer_norm_44#1, %native_layer_norm_44#2, %h.1.ln_2.weight, %h.1.ln_2.bias, [true, true, true]) bwd in "h.1.ln_2" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>, tensor<2x16x1xf32>, tensor<2x16x1xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x16xf32>, tensor<16xf32>, tensor<16xf32>)
    fsdp.grad @h.1.ln_2.weight, %native_layer_norm_backward_88#1 : tensor<16xf32>
    fsdp.grad @h.1.ln_2.bias, %native_layer_norm_backward_88#2 : tensor<16xf32>
    %add_89 = aten.call "add.Tensor"(%native_layer_norm_backward#0, %native_layer_norm_backward_88#0, 1) bwd in "h.1.ln_2" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %view_90 = aten.call "view.default"(%add_89, [32, 16]) bwd in "h.1.proj" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %t_91 = aten.call "t.default"(%t_40) bwd in "h.1.proj" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    %mm_92 = aten.call "mm.default"(%view_90, %t_91) bwd in "h.1.proj" : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %t_93 = aten.call "t.default"(%view_90) bwd in "h.1.proj" : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<[1, 16]>>
    %mm_94 = aten.call "mm.default"(%t_93, %view_39) bwd in "h.1.proj" : (tensor<16x32xf32, #aten.strides<[1, 16]>>, tensor<32x16xf32>) -> tensor<16x16xf32>
    %t_95 = aten.call "t.default"(%mm_94) bwd in "h.1.proj" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %sum_96 = aten.call "sum.dim_IntList"(%view_90, [0], true, none) bwd in "h.1.proj" : (tensor<32x16xf32>) -> tensor<1x16xf32>
    %view_97 = aten.call "view.default"(%sum_96, [16]) bwd in "h.1.proj" : (tensor<1x16xf32>) -> tensor<16xf32>
    fsdp.grad @h.1.proj.bias, %view_97 : tensor<16xf32>
    %t_98 = aten.call "t.default"(%t_95) bwd in "h.1.proj" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    fsdp.grad @h.1.proj.weight, %t_98 : tensor<16x16xf32>
    %view_99 = aten.call "view.default"(%mm_92, [2, 16, 16]) bwd in "h.1.proj" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %view_100 = aten.call "view.default"(%view_99, [2, 16, 2, 8]) bwd in "h.1" : (tensor<2x16x16xf32>) -> tensor<2x16x2x8xf32>
    %transpose_101 = aten.call "transpose.int"(%view_100, 1, 2) bwd in "h.1" : (tensor<2x16x2x8xf32>) -> tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>
    %_scaled_dot_product_flash_attention_for_cpu_backward:3 = aten.call "_scaled_dot_product_flash_attention_for_cpu_backward.default"(%transpose_101, %transpose_31, %transpose_33, %transpose_35, %_scaled_dot_product_flash_attention_for_cpu_36#0, %_scaled_dot_product_flash_attention_for_cpu_36#1, 0.000000e+00, true, none, none) bwd in "h.1" : (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1]>>, tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 16>>, tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 32>>, tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16xf32, #aten.strides<[32, 1, 2]>>) -> (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>)
    %transpose_102 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu_backward#2, 1, 2) bwd in "h.1" : (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>) -> tensor<2x16x2x8xf32>
    %view_103 = aten.call "view.default"(%transpose_102, [2, 16, 16]) bwd in "h.1" : (tensor<2x16x2x8xf32>) -> tensor<2x16x16xf32>
    %transpose_104 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu_backward#1, 1, 2) bwd in "h.1" : (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>) -> tensor<2x16x2x8xf32>
    %view_105 = aten.call "view.default"(%transpose_104, [2, 16, 16]) bwd in "h.1" : (tensor<2x16x2x8xf32>) -> tensor<2x16x16xf32>
    %transpose_106 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu_backward#0, 1, 2) bwd in "h.1" : (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>) -> tensor<2x16x2x8xf32>
    %view_107 = aten.call "view.default"(%transpose_106, [2, 16, 16]) bwd in "h.1" : (tensor<2x16x2x8xf32>) -> tensor<2x16x16xf32>
    %cat = aten.call "cat.default"([%view_107, %view_105, %view_103], 2) bwd in "h.1" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x48xf32>
    %view_108 = aten.call "view.default"(%cat, [32, 48]) bwd in "h.1.qkv" : (tensor<2x16x48xf32>) -> tensor<32x48xf32>
    %t_109 = aten.call "t.default"(%t_26) bwd in "h.1.qkv" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    %mm_110 = aten.call "mm.default"(%view_108, %t_109) bwd in "h.1.qkv" : (tensor<32x48xf32>, tensor<48x16xf32>) -> tensor<32x16xf32>
    %t_111 = aten.call "t.default"(%view_108) bwd in "h.1.qkv" : (tensor<32x48xf32>) -> tensor<48x32xf32, #aten.strides<[1, 48]>>
    %mm_112 = aten.call "mm.default"(%t_111, %view_25) bwd in "h.1.qkv" : (tensor<48x32xf32, #aten.strides<[1, 48]>>, tensor<32x16xf32>) -> tensor<48x16xf32>
    %t_113 = aten.call "t.default"(%mm_112) bwd in "h.1.qkv" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %sum_114 = aten.call "sum.dim_IntList"(%view_108, [0], true, none) bwd in "h.1.qkv" : (tensor<32x48xf32>) -> tensor<1x48xf32>
    %view_115 = aten.call "view.default"(%sum_114, [48]) bwd in "h.1.qkv" : (tensor<1x48xf32>) -> tensor<48xf32>
    fsdp.grad @h.1.qkv.bias, %view_115 : tensor<48xf32>
    %t_116 = aten.call "t.default"(%t_113) bwd in "h.1.qkv" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    fsdp.grad @h.1.qkv.weight, %t_116 : tensor<48x16xf32>
    %view_117 = aten.call "view.default"(%mm_110, [2, 16, 16]) bwd in "h.1.qkv" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %native_layer_norm_backward_118:3 = aten.call "native_layer_norm_backward.default"(%view_117, %add_23, [16], %native_layer_norm_24#1, %native_layer_norm_24#2, %h.1.ln_1.weight, %h.1.ln_1.bias, [true, true, true]) bwd in "h.1.ln_1" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>, tensor<2x16x1xf32>, tensor<2x16x1xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x16xf32>, tensor<16xf32>, tensor<16xf32>)
    fsdp.grad @h.1.ln_1.weight, %native_layer_norm_backward_118#1 : tensor<16xf32>
    fsdp.grad @h.1.ln_1.bias, %native_layer_norm_backward_118#2 : tensor<16xf32>
    %add_119 = aten.call "add.Tensor"(%add_89, %native_layer_norm_backward_118#0, 1) bwd in "h.1.ln_1" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %view_120 = aten.call "view.default"(%add_119, [32, 16]) bwd in "h.0.down" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %t_121 = aten.call "t.default"(%t_20) bwd in "h.0.down" : (tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<16x64xf32>
    %mm_122 = aten.call "mm.default"(%view_120, %t_121) bwd in "h.0.down" : (tensor<32x16xf32>, tensor<16x64xf32>) -> tensor<32x64xf32>
    %t_123 = aten.call "t.default"(%view_120) bwd in "h.0.down" : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<[1, 16]>>
    %mm_124 = aten.call "mm.default"(%t_123, %view_19) bwd in "h.0.down" : (tensor<16x32xf32, #aten.strides<[1, 16]>>, tensor<32x64xf32>) -> tensor<16x64xf32>
    %t_125 = aten.call "t.default"(%mm_124) bwd in "h.0.down" : (tensor<16x64xf32>) -> tensor<64x16xf32, #aten.strides<[1, 64]>>
    %sum_126 = aten.call "sum.dim_IntList"(%view_120, [0], true, none) bwd in "h.0.down" : (tensor<32x16xf32>) -> tensor<1x16xf32>
    %view_127 = aten.call "view.default"(%sum_126, [16]) bwd in "h.0.down" : (tensor<1x16xf32>) -> tensor<16xf32>
    fsdp.grad @h.0.down.bias, %view_127 : tensor<16xf32>
    %t_128 = aten.call "t.default"(%t_125) bwd in "h.0.down" : (tensor<64x16xf32, #aten.strides<[1, 64]>>) -> tensor<16x64xf32>
    fsdp.grad @h.0.down.weight, %t_128 : tensor<16x64xf32>
    %view_129 = aten.call "view.default"(%mm_122, [2, 16, 64]) bwd in "h.0.down" : (tensor<32x64xf32>) -> tensor<2x16x64xf32>
    %gelu_backward_130 = aten.call "gelu_backward.default"(%view_129, %view_18, "tanh") bwd in "h.0" : (tensor<2x16x64xf32>, tensor<2x16x64xf32>) -> tensor<2x16x64xf32>
    %view_131 = aten.call "view.default"(%gelu_backward_130, [32, 64]) bwd in "h.0.up" : (tensor<2x16x64xf32>) -> tensor<32x64xf32>
    %t_132 = aten.call "t.default"(%t_16) bwd in "h.0.up" : (tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<64x16xf32>
    %mm_133 = aten.call "mm.default"(%view_131, %t_132) bwd in "h.0.up" : (tensor<32x64xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
    %t_134 = aten.call "t.default"(%view_131) bwd in "h.0.up" : (tensor<32x64xf32>) -> tensor<64x32xf32, #aten.strides<[1, 64]>>
    %mm_135 = aten.call "mm.default"(%t_134, %view_15) bwd in "h.0.up" : (tensor<64x32xf32, #aten.strides<[1, 64]>>, tensor<32x16xf32>) -> tensor<64x16xf32>
    %t_136 = aten.call "t.default"(%mm_135) bwd in "h.0.up" : (tensor<64x16xf32>) -> tensor<16x64xf32, #aten.strides<[1, 16]>>
    %sum_137 = aten.call "sum.dim_IntList"(%view_131, [0], true, none) bwd in "h.0.up" : (tensor<32x64xf32>) -> tensor<1x64xf32>
    %view_138 = aten.call "view.default"(%sum_137, [64]) bwd in "h.0.up" : (tensor<1x64xf32>) -> tensor<64xf32>
    fsdp.grad @h.0.up.bias, %view_138 : tensor<64xf32>
    %t_139 = aten.call "t.default"(%t_136) bwd in "h.0.up" : (tensor<16x64xf32, #aten.strides<[1, 16]>>) -> tensor<64x16xf32>
    fsdp.grad @h.0.up.weight, %t_139 : tensor<64x16xf32>
    %view_140 = aten.call "view.default"(%mm_133, [2, 16, 16]) bwd in "h.0.up" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %native_layer_norm_backward_141:3 = aten.call "native_layer_norm_backward.default"(%view_140, %add_13, [16], %native_layer_norm_14#1, %native_layer_norm_14#2, %h.0.ln_2.weight, %h.0.ln_2.bias, [true, true, true]) bwd in "h.0.ln_2" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>, tensor<2x16x1xf32>, tensor<2x16x1xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x16xf32>, tensor<16xf32>, tensor<16xf32>)
    fsdp.grad @h.0.ln_2.weight, %native_layer_norm_backward_141#1 : tensor<16xf32>
    fsdp.grad @h.0.ln_2.bias, %native_layer_norm_backward_141#2 : tensor<16xf32>
    %add_142 = aten.call "add.Tensor"(%add_119, %native_layer_norm_backward_141#0, 1) bwd in "h.0.ln_2" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %view_143 = aten.call "view.default"(%add_142, [32, 16]) bwd in "h.0.proj" : (tensor<2x16x16xf32>) -> tensor<32x16xf32>
    %t_144 = aten.call "t.default"(%t_10) bwd in "h.0.proj" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    %mm_145 = aten.call "mm.default"(%view_143, %t_144) bwd in "h.0.proj" : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
    %t_146 = aten.call "t.default"(%view_143) bwd in "h.0.proj" : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<[1, 16]>>
    %mm_147 = aten.call "mm.default"(%t_146, %view_9) bwd in "h.0.proj" : (tensor<16x32xf32, #aten.strides<[1, 16]>>, tensor<32x16xf32>) -> tensor<16x16xf32>
    %t_148 = aten.call "t.default"(%mm_147) bwd in "h.0.proj" : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<[1, 16]>>
    %sum_149 = aten.call "sum.dim_IntList"(%view_143, [0], true, none) bwd in "h.0.proj" : (tensor<32x16xf32>) -> tensor<1x16xf32>
    %view_150 = aten.call "view.default"(%sum_149, [16]) bwd in "h.0.proj" : (tensor<1x16xf32>) -> tensor<16xf32>
    fsdp.grad @h.0.proj.bias, %view_150 : tensor<16xf32>
    %t_151 = aten.call "t.default"(%t_148) bwd in "h.0.proj" : (tensor<16x16xf32, #aten.strides<[1, 16]>>) -> tensor<16x16xf32>
    fsdp.grad @h.0.proj.weight, %t_151 : tensor<16x16xf32>
    %view_152 = aten.call "view.default"(%mm_145, [2, 16, 16]) bwd in "h.0.proj" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %view_153 = aten.call "view.default"(%view_152, [2, 16, 2, 8]) bwd in "h.0" : (tensor<2x16x16xf32>) -> tensor<2x16x2x8xf32>
    %transpose_154 = aten.call "transpose.int"(%view_153, 1, 2) bwd in "h.0" : (tensor<2x16x2x8xf32>) -> tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>
    %_scaled_dot_product_flash_attention_for_cpu_backward_155:3 = aten.call "_scaled_dot_product_flash_attention_for_cpu_backward.default"(%transpose_154, %transpose, %transpose_4, %transpose_6, %_scaled_dot_product_flash_attention_for_cpu#0, %_scaled_dot_product_flash_attention_for_cpu#1, 0.000000e+00, true, none, none) bwd in "h.0" : (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1]>>, tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 16>>, tensor<2x2x16x8xf32, #aten.strides<[768, 8, 48, 1], offset = 32>>, tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16xf32, #aten.strides<[32, 1, 2]>>) -> (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>)
    %transpose_156 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu_backward_155#2, 1, 2) bwd in "h.0" : (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>) -> tensor<2x16x2x8xf32>
    %view_157 = aten.call "view.default"(%transpose_156, [2, 16, 16]) bwd in "h.0" : (tensor<2x16x2x8xf32>) -> tensor<2x16x16xf32>
    %transpose_158 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu_backward_155#1, 1, 2) bwd in "h.0" : (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>) -> tensor<2x16x2x8xf32>
    %view_159 = aten.call "view.default"(%transpose_158, [2, 16, 16]) bwd in "h.0" : (tensor<2x16x2x8xf32>) -> tensor<2x16x16xf32>
    %transpose_160 = aten.call "transpose.int"(%_scaled_dot_product_flash_attention_for_cpu_backward_155#0, 1, 2) bwd in "h.0" : (tensor<2x2x16x8xf32, #aten.strides<[256, 8, 16, 1]>>) -> tensor<2x16x2x8xf32>
    %view_161 = aten.call "view.default"(%transpose_160, [2, 16, 16]) bwd in "h.0" : (tensor<2x16x2x8xf32>) -> tensor<2x16x16xf32>
    %cat_162 = aten.call "cat.default"([%view_161, %view_159, %view_157], 2) bwd in "h.0" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x48xf32>
    %view_163 = aten.call "view.default"(%cat_162, [32, 48]) bwd in "h.0.qkv" : (tensor<2x16x48xf32>) -> tensor<32x48xf32>
    %t_164 = aten.call "t.default"(%t) bwd in "h.0.qkv" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    %mm_165 = aten.call "mm.default"(%view_163, %t_164) bwd in "h.0.qkv" : (tensor<32x48xf32>, tensor<48x16xf32>) -> tensor<32x16xf32>
    %t_166 = aten.call "t.default"(%view_163) bwd in "h.0.qkv" : (tensor<32x48xf32>) -> tensor<48x32xf32, #aten.strides<[1, 48]>>
    %mm_167 = aten.call "mm.default"(%t_166, %view) bwd in "h.0.qkv" : (tensor<48x32xf32, #aten.strides<[1, 48]>>, tensor<32x16xf32>) -> tensor<48x16xf32>
    %t_168 = aten.call "t.default"(%mm_167) bwd in "h.0.qkv" : (tensor<48x16xf32>) -> tensor<16x48xf32, #aten.strides<[1, 16]>>
    %sum_169 = aten.call "sum.dim_IntList"(%view_163, [0], true, none) bwd in "h.0.qkv" : (tensor<32x48xf32>) -> tensor<1x48xf32>
    %view_170 = aten.call "view.default"(%sum_169, [48]) bwd in "h.0.qkv" : (tensor<1x48xf32>) -> tensor<48xf32>
    fsdp.grad @h.0.qkv.bias, %view_170 : tensor<48xf32>
    %t_171 = aten.call "t.default"(%t_168) bwd in "h.0.qkv" : (tensor<16x48xf32, #aten.strides<[1, 16]>>) -> tensor<48x16xf32>
    fsdp.grad @h.0.qkv.weight, %t_171 : tensor<48x16xf32>
    %view_172 = aten.call "view.default"(%mm_165, [2, 16, 16]) bwd in "h.0.qkv" : (tensor<32x16xf32>) -> tensor<2x16x16xf32>
    %native_layer_norm_backward_173:3 = aten.call "native_layer_norm_backward.default"(%view_172, %add, [16], %native_layer_norm#1, %native_layer_norm#2, %h.0.ln_1.weight, %h.0.ln_1.bias, [true, true, true]) bwd in "h.0.ln_1" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>, tensor<2x16x1xf32>, tensor<2x16x1xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16x16xf32>, tensor<16xf32>, tensor<16xf32>)
    fsdp.grad @h.0.ln_1.weight, %native_layer_norm_backward_173#1 : tensor<16xf32>
    fsdp.grad @h.0.ln_1.bias, %native_layer_norm_backward_173#2 : tensor<16xf32>
    %add_174 = aten.call "add.Tensor"(%add_142, %native_layer_norm_backward_173#0, 1) bwd in "h.0.ln_1" : (tensor<2x16x16xf32>, tensor<2x16x16xf32>) -> tensor<2x16x16xf32>
    %sum_175 = aten.call "sum.dim_IntList"(%add_174, [0], true, none) bwd in "" : (tensor<2x16x16xf32>) -> tensor<1x16x16xf32>
    %view_176 = aten.call "view.default"(%sum_175, [16, 16]) bwd in "" : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %embedding_dense_backward = aten.call "embedding_dense_backward.default"(%view_176, %arange, 16, -1, false) bwd in "wpe" : (tensor<16x16xf32>, tensor<16xi64>) -> tensor<16x16xf32>
    fsdp.grad @wpe.weight, %embedding_dense_backward : tensor<16x16xf32>
    %embedding_dense_backward_177 = aten.call "embedding_dense_backward.default"(%add_174, %tokens, 64, -1, false) bwd in "wte" : (tensor<2x16x16xf32>, tensor<2x16xi64>) -> tensor<64x16xf32>
    %add_178 = aten.call "add.Tensor"(%t_68, %embedding_dense_backward_177, 1) bwd in "wte" : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
    fsdp.grad @wte.weight, %add_178 : tensor<64x16xf32>
    fsdp.update @wte.weight step %step lr %lr
    fsdp.update @wpe.weight step %step lr %lr
    fsdp.update @h.0.ln_1.weight step %step lr %lr
    fsdp.update @h.0.ln_1.bias step %step lr %lr
    fsdp.update @h.0.qkv.weight step %step lr %lr
    fsdp.update @h.0.qkv.bias step %step lr %lr
    fsdp.update @h.0.proj.weight step %step lr %lr
    fsdp.update @h.0.proj.bias step %step lr %lr
    fsdp.update @h.0.ln_2.weight step %step lr %lr
    fsdp.update @h.0.ln_2.bias step %step lr %lr
    fsdp.update @h.0.up.weight step %step lr %lr
    fsdp.update @h.0.up.bias step %step lr %lr
    fsdp.update @h.0.down.weight step %step lr %lr
    fsdp.update @h.0.down.bias step %step lr %lr
    fsdp.update @h.1.ln_1.weight step %step lr %lr
    fsdp.update @h.1.ln_1.bias step %step lr %lr
    fsdp.update @h.1.qkv.weight step %step lr %lr
    fsdp.update @h.1.qkv.bias step %step lr %lr
    fsdp.update @h.1.proj.weight step %step lr %lr
    fsdp.update @h.1.proj.bias step %step lr %lr
    fsdp.update @h.1.ln_2.weight step %step lr %lr
    fsdp.update @h.1.ln_2.bias step %step lr %lr
    fsdp.update @h.1.up.weight step %step lr %lr
    fsdp.update @h.1.up.bias step %step lr %lr
    fsdp.update @h.1.down.weight step %step lr %lr
    fsdp.update @h.1.down.bias step %step lr %lr
    fsdp.update @ln_f.weight step %step lr %lr
    fsdp.update @ln_f.bias step %step lr %lr
    return %nll_loss_forward#0 : tensor<f32>
  }
}

