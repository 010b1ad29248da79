// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 layout=per-param" | FileCheck %s --check-prefixes=GROUPS,PARAM
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2" | FileCheck %s --check-prefixes=GROUPS,FLAT
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 layout=per-param" -o %t.mlir
// RUN: fsdp-compile %t.mlir --emit plan | FileCheck %s --check-prefix=PLAN

// Frozen parameters of another dtype than their group's are groups of the same modules, one for each
// dtype. A policy holds for the parameters that the program casts.
// GROUPS: fsdp.group @root.frozen [@layers.0.bits] of [""] {{.*}} reshard_after_forward none{{$}}
// FLAT: fsdp.group @root.frozen_0 [@layers.0.base] of [""] {{.*}} mixed_precision <param_dtype = bf16, reduce_dtype = f32>
// GROUPS: fsdp.group @root.frozen_{{[01]}} [@layers.0.w8] of [""] {{.*}} reshard_after_forward none{{$}}
// GROUPS: fsdp.group @root.frozen_{{[12]}} [@layers.0.scale] of [""] {{.*}} reshard_after_forward none{{$}}
// PARAM: fsdp.group @root [@layers.0.lora, @layers.0.base] of [""] {{.*}} mixed_precision <param_dtype = bf16, reduce_dtype = f32>
// FLAT: fsdp.group @root [@layers.0.lora] of [""] {{.*}} mixed_precision <param_dtype = bf16, reduce_dtype = f32>

// They are gathered in their own dtypes.
// PLAN: group @root.frozen per_param u8, 8 elements per rank
// PLAN: group @root.frozen_0 per_param f8e4m3, 8 elements per rank
// PLAN: group @root.frozen_1 per_param f32, 8 elements per rank at {{[0-9]+}}{{$}}
// PLAN: group @root per_param f32, 16 elements per rank at {{[0-9]+}}, gathered as bf16
// PLAN: all_gather.start @root.frozen {{.*}} 8 bytes per rank
// PLAN: all_gather.start @root.frozen_0 {{.*}} 8 bytes per rank
!m = tensor<4x4xf32>
!h = tensor<4x4xbf16>
!s = tensor<bf16>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @layers.0.bits : tensor<4x4xui8> frozen
  fsdp.param @layers.0.base : !m frozen
  fsdp.param @layers.0.w8 : tensor<4x4xf8E4M3FN> frozen
  fsdp.param @layers.0.scale : !m frozen
  fsdp.param @layers.0.lora : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mixed_precision [""] param_dtype bf16 reduce_dtype f32
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a = fsdp.read @layers.0.lora : !m
    %b = fsdp.read @layers.0.base : !m
    %bits = fsdp.read @layers.0.bits : tensor<4x4xui8>
    %w8 = fsdp.read @layers.0.w8 : tensor<4x4xf8E4M3FN>
    %scale = fsdp.read @layers.0.scale : !m
    %ha = aten.call "_to_copy.default"(%a, bf16, none, none, none, false, none) fwd in "" : (!m) -> !h
    %hb = aten.call "_to_copy.default"(%b, bf16, none, none, none, false, none) fwd in "" : (!m) -> !h
    %q = aten.call "_to_copy.default"(%bits, f32, none, none, none, false, none) fwd in "layers.0" : (tensor<4x4xui8>) -> !m
    %e = aten.call "_to_copy.default"(%w8, f32, none, none, none, false, none) fwd in "layers.0" : (tensor<4x4xf8E4M3FN>) -> !m
    %qs = aten.call "mul.Tensor"(%q, %scale) fwd in "layers.0" : (!m, !m) -> !m
    %qe = aten.call "mul.Tensor"(%qs, %e) fwd in "layers.0" : (!m, !m) -> !m
    %k = aten.call "_to_copy.default"(%qe, bf16, none, none, none, false, none) fwd in "layers.0" : (!m) -> !h
    %kb = aten.call "mul.Tensor"(%k, %hb) fwd in "layers.0" : (!h, !h) -> !h
    %y = aten.call "mul.Tensor"(%ha, %kb) fwd in "layers.0" : (!h, !h) -> !h
    %loss = aten.call "sum.default"(%y, none) fwd in "" : (!h) -> !s
    %da = aten.call "_to_copy.default"(%kb, f32, none, none, none, false, none) bwd in "" : (!h) -> !m
    fsdp.grad @layers.0.lora, %da : !m
    fsdp.update @layers.0.lora step %step lr %lr
    return %loss : !s
  }
}
