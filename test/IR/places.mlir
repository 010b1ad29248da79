// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s

// Where a group keeps what stays between steps, each part by its name: in text, in the generic form and in bytecode.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<8xf32>
fsdp.param @b : tensor<8xf32>
fsdp.param @c : tensor<8xf32>
fsdp.param @d : tensor<8xf32>
// CHECK: fsdp.group @shard {{.*}} reshard_after_forward true at shard 0{{$}}
fsdp.group @shard [@a] of ["a"] over @mesh "dp" flat reshard_after_forward true at shard 0
// CHECK: fsdp.group @states {{.*}} reshard_after_forward true at shard 64 states [128, 192]{{$}}
fsdp.group @states [@b] of ["b"] over @mesh "dp" flat reshard_after_forward true at shard 64 states [128, 192]
// CHECK: fsdp.group @copy {{.*}} gather_dtype bf16 at shard 256 states [320, 384] copy 448{{$}}
fsdp.group @copy [@c] of ["c"] over @mesh "dp" flat reshard_after_forward true gather_dtype bf16
    at shard 256 states [320, 384] copy 448
// CHECK: fsdp.group @host {{.*}} optimizer_state host at shard 512 copy 576 host_states [0, 64]{{$}}
fsdp.group @host [@d] of ["d"] over @mesh "dp" flat reshard_after_forward true gather_dtype bf16 optimizer_state host
    at shard 512 copy 576 host_states [0, 64]
fsdp.param @e : tensor<8xf32>
// CHECK: fsdp.group @offloaded {{.*}} offload_policy cpu optimizer_state host at host_shard 0 host_states [64, 128] host_copy 192{{$}}
fsdp.group @offloaded [@e] of ["e"] over @mesh "dp" flat reshard_after_forward true gather_dtype bf16 offload_policy cpu
    optimizer_state host at host_shard 0 host_states [64, 128] host_copy 192
