// RUN: fsdp-opt %s --fsdp-fuse -verify-diagnostics -split-input-file

// Order is settled before operators are fused.
// expected-error @below {{fsdp-fuse takes a module of phase scheduled, got sharded}}
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
}
