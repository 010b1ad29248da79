// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

// 'fsdp.group': a float8_cast is of f32 parameters that are sharded in the arena, and has no other encoding beside it.
fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{has a float8_cast and an all_gather_extension; expected one of them}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true
    float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true>
    all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4>

// -----

fsdp.mesh @mesh <dp = 1>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{has a float8_cast and shards on 1 rank, where nothing is gathered; expected at least 2}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true
    float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true>

// -----

fsdp.mesh @mesh <dp = 4>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{has a float8_cast and keeps chunks over 2 ranks; expected reshard_after_forward true or false}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true to 2
    float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true>

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{has a float8_cast and offload_policy cpu; expected none}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true
    float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> offload_policy cpu

// -----

fsdp.mesh @mesh <dp = 2>
// expected-note @below {{declared here}}
fsdp.param @w : tensor<4x8xbf16>
// expected-error @below {{has a float8_cast and parameters of 'bf16'; expected f32}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true
    float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true>

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{has gather_dtype 'bf16', but float8_cast casts its parameters to 'f8E4M3FN'}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true
    float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype bf16

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{float8_cast casts to 'bf16', expected f8E4M3FN or f8E5M2}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true float8_cast<dtype = bf16, scale = f64, eps = 1.0e-12 : f64, saturated = true>

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{float8_cast computes the scale in 'bf16', expected f32 or f64}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true float8_cast<dtype = f8E4M3FN, scale = bf16, eps = 1.0e-12 : f64, saturated = true>

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{float8_cast has eps 0.000000e+00 : f64, expected an f64 above 0}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true float8_cast<dtype = f8E4M3FN, scale = f64, eps = 0.0 : f64, saturated = true>

// -----

// 'fsdp.partial_amax' is of groups that are gathered as float8, and has a number for each of their parameters.
fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-note @below {{declared here}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true
func.func @step(%s : !fsdp.shard<@g, f32>) {
  // expected-error @below {{takes a shard of group @g, which is not gathered as float8}}
  %part = fsdp.partial_amax(%s) : (!fsdp.shard<@g, f32>) -> tensor<1xf32>
  return
}

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true
    float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype f8E4M3FN
func.func @step(%s : !fsdp.shard<@g, f32>) {
  // expected-error @below {{yields 'tensor<2xf32>', expected 'tensor<1xf32>': one number for each parameter of its groups}}
  %part = fsdp.partial_amax(%s) : (!fsdp.shard<@g, f32>) -> tensor<2xf32>
  return
}

// -----

// 'fsdp.encode' of such a group takes the largest absolute values.
fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true
    float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype f8E4M3FN
func.func @step(%s : !fsdp.shard<@g, f32>) {
  // expected-error @below {{of group @g lacks the amax of the parameters, by which it casts them to float8}}
  %q = fsdp.encode %s : !fsdp.shard<@g, f32> to !fsdp.shard<@g, f8E4M3FN>
  return
}

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true
    all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4>
func.func @step(%s : !fsdp.shard<@g, f32>, %a : tensor<1xf32>) {
  // expected-error @below {{of group @g takes the amax of parameters, which its all_gather_extension does not}}
  %q = fsdp.encode %s by %a : !fsdp.shard<@g, f32> by tensor<1xf32> to !fsdp.shard<@g, ui8>
  return
}

// -----

// What is gathered is the cast shard.
fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-note @below {{declared here}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true
    float8_cast<dtype = f8E4M3FN, scale = f64, eps = 1.0e-12 : f64, saturated = true> gather_dtype f8E4M3FN
func.func @step() {
  %s = fsdp.shard @g : !fsdp.shard<@g, f32>
  // expected-error @below {{has a shard of 'f32' of group @g, expected 'f8E4M3FN'}}
  %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@g, f32>
  return
}
