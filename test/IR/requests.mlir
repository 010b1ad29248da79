// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s

// What the user asks for stands beside what passes decided, and why: in text, in the generic form and in bytecode.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<8xf32>
fsdp.param @b : tensor<8xf32>
fsdp.param @c : tensor<8xf32>
// CHECK: fsdp.group @both {{.*}} reshard_after_forward true mixed_precision <param_dtype = bf16, reduce_dtype = f32> gather_dtype bf16 recompute auto recomputed full offload_optimizer false optimizer_state device{{$}}
fsdp.group @both [@a] of ["a"] over @mesh "dp" flat reshard_after_forward true
    mixed_precision <param_dtype = bf16, reduce_dtype = f32> gather_dtype bf16
    recompute auto recomputed full offload_optimizer false optimizer_state device
// CHECK: fsdp.group @reduced {{.*}} reshard_after_forward true mixed_precision <reduce_dtype = f16> reduce_dtype f16{{$}}
fsdp.group @reduced [@b] of ["b"] over @mesh "dp" flat reshard_after_forward true
    mixed_precision <reduce_dtype = f16> reduce_dtype f16
// CHECK: fsdp.group @reasons {{.*}} decisions [#fsdp.decision<gather_dtype, "used in 'l.\22x\22'">, #fsdp.decision<recomputed, "time">] at shard 0{{$}}
fsdp.group @reasons [@c] of ["c"] over @mesh "dp" flat reshard_after_forward true
    decisions [#fsdp.decision<gather_dtype, "used in 'l.\22x\22'">, #fsdp.decision<recomputed, "time">] at shard 0
