// RUN: fsdp-opt %s --fsdp-fuse -verify-diagnostics -split-input-file

// Kernels end where collectives are, which a captured module does not have.
// expected-error @below {{fsdp-fuse takes a module of phase sharded or scheduled, got captured}}
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
}

// -----

// What has kernels has been fused.
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  // expected-error @below {{the step has been fused before: it has kernels}}
  fsdp.kernel @k exact {
  ^bb0(%a: tensor<8xf32>):
    %b = aten.call "neg.default"(%a) fwd in "" : (tensor<8xf32>) -> tensor<8xf32>
    fsdp.yield %b : tensor<8xf32>
  }
}
