// RUN: fsdp-opt %s --fsdp-fuse -verify-diagnostics -split-input-file

// Kernels end where collectives are, which a captured module does not have.
// expected-error @below {{fsdp-fuse takes a module of phase sharded or scheduled, got captured}}
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
}
