// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{has all_gather_extension int8 and the flat layout; expected per_param, in which each rank holds a part of each parameter}}
fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward true
    all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4>

// -----

fsdp.mesh @mesh <dp = 1>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{has all_gather_extension int8 and shards on 1 rank, where nothing is gathered; expected at least 2}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true
    all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4>

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{has all_gather_extension int8 and cuts parameter w on dimension 1; expected 0}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param shard_dims [1] reshard_after_forward true
    all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4>

// -----

fsdp.mesh @mesh <dp = 4>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{has all_gather_extension int8 and keeps chunks over 2 ranks; expected reshard_after_forward true or false}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true to 2
    all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4>

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{has all_gather_extension int8 and offload_policy cpu; expected none}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true
    all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4> offload_policy cpu

// -----

fsdp.mesh @mesh <dp = 2>
// expected-note @below {{declared here}}
fsdp.param @w : tensor<4x8xbf16>
// expected-error @below {{has all_gather_extension int8 and parameters of 'bf16'; expected f32}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true
    all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4>

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{bytes_per_element is 0, expected 1 to 16}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true all_gather_extension<"int8", bytes_per_element = 0, bytes_per_part = 4>

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{name is 'a::b', expected letters, digits and _}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true all_gather_extension<"a::b", bytes_per_element = 1, bytes_per_part = 4>

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-error @below {{all_reduce_hook is '', expected letters, digits and _}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true all_reduce_hook ""

// -----

// An encoded shard is that of a group that asks for it.
fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-note @below {{declared here}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true
func.func @step() {
  %s = fsdp.shard @g : !fsdp.shard<@g, f32>
  // expected-error @below {{encodes a shard of group @g, which has no all_gather_extension}}
  %q = fsdp.encode %s : !fsdp.shard<@g, f32> to !fsdp.shard<@g, ui8>
  return
}

// -----

// What such a group gathers is encoded.
fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-note @below {{declared here}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true
    all_gather_extension<"int8", bytes_per_element = 1, bytes_per_part = 4>
func.func @step() {
  %s = fsdp.shard @g : !fsdp.shard<@g, f32>
  // expected-error @below {{has a shard of 'f32' of group @g, expected 'ui8'}}
  %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@g, f32>
  return
}

// -----

fsdp.mesh @mesh <dp = 2>
fsdp.param @w : tensor<4x8xf32>
// expected-note @below {{declared here}}
fsdp.group @g [@w] of [""] over @mesh "dp" per_param reshard_after_forward true
func.func @step(%d : !fsdp.shard<@g, f32>) {
  // expected-error @below {{is of group @g, which has no all_reduce_hook}}
  %h = fsdp.all_reduce_hook %d : !fsdp.shard<@g, f32>
  return
}
