// RUN: fsdp-opt %s --fsdp-fuse -verify-diagnostics -split-input-file

// Kernels are for CPUs.
// expected-error @below {{fusion is for steps of CPUs, this one was captured for 'cuda'}}
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>, fsdp.target = #fsdp.target<cuda>} {
}

// -----

// Order is settled before operators are fused.
// expected-error @below {{fsdp-fuse takes a module of phase scheduled, got sharded}}
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
}
