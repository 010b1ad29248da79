// RUN: fsdp-opt %s --split-input-file --verify-diagnostics --fsdp-verify-captured

!v = tensor<4xf32>
!s = tensor<f32>
module {
  // expected-error @+1 {{C4: parameter @w is frozen, but has 'fsdp.grad'}}
  fsdp.param @w : !v frozen
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %loss = aten.call "sum.default"(%x, none) fwd in "" : (!v) -> !s
    // expected-note @+1 {{which is here}}
    fsdp.grad @w, %x : !v
    return %loss : !s
  }
}

// -----

!v = tensor<4xf32>
module {
  // expected-note @+1 {{declared here}}
  fsdp.param @f : !v frozen
  fsdp.param @w : !v
  fsdp.mesh @mesh <dp = 2>
  // expected-error @+1 {{has parameter @w behind @f, which is frozen; frozen parameters are last}}
  fsdp.group @g [@f, @w] of [""] over @mesh "dp" per_param reshard_after_forward none
}

// -----

!v = tensor<4xf32>
module {
  fsdp.param @w : !v
  fsdp.param @f : !v frozen
  fsdp.mesh @mesh <dp = 2>
  // expected-error @+1 {{has the flat layout and holds frozen parameters, as @f, beside others, as @w}}
  fsdp.group @g [@w, @f] of [""] over @mesh "dp" flat reshard_after_forward none
}

// -----

!v = tensor<4xf32>
module {
  fsdp.param @w : !v
  fsdp.param @f : !v frozen
  fsdp.mesh @mesh <dp = 2>
  // expected-note @+1 {{declared here}}
  fsdp.group @g [@w, @f] of [""] over @mesh "dp" per_param reshard_after_forward none
  func.func @step() {
    %x = fsdp.input "x" : !v
    // expected-error @+1 {{has 2 values for group @g, expected 1: 1 of its parameters are frozen}}
    %r = fsdp.reduce_scatter.start @g(%x, %x) over ["dp"] avg bwd on reduce : !v, !v
    return
  }
}

// -----

!v = tensor<4xf32>
!s = tensor<f32>
module {
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    // expected-error @+1 {{the call in 'b@x' is no number from 0}}
    %loss = aten.call "sum.default"(%x, none) fwd in "a.b@x" : (!v) -> !s
    return %loss : !s
  }
}
