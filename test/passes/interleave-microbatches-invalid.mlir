// RUN: fsdp-opt %s --split-input-file --fsdp-accumulate-gradients -verify-diagnostics

// One stage is no interleaving.
!v = tensor<4xf32>
!s = tensor<f32>
// expected-error @below {{order 1f1b has 1 stage, expected two or more}}
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a"]>} {
  fsdp.param @a.w : !v
  fsdp.param @b.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %b.w = fsdp.read @b.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%b, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %b) bwd in "" : (!s, !v) -> !v
    %b.d = aten.call "mul.Tensor"(%e, %a) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%e, %b.w) bwd in "b" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%b.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// Names of stages differ.
!v = tensor<4xf32>
!s = tensor<f32>
// expected-error @below {{stage 'a' is given twice}}
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a", "a"]>} {
  fsdp.param @a.w : !v
  fsdp.param @b.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %b.w = fsdp.read @b.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%b, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %b) bwd in "" : (!s, !v) -> !v
    %b.d = aten.call "mul.Tensor"(%e, %a) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%e, %b.w) bwd in "b" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%b.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// A stage is a module that runs.
!v = tensor<4xf32>
!s = tensor<f32>
// expected-error @below {{stage 'c' has no operation in the forward; accumulation.stages names modules that run, in the order of the forward}}
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a", "c"]>} {
  fsdp.param @a.w : !v
  fsdp.param @b.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %b.w = fsdp.read @b.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%b, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %b) bwd in "" : (!s, !v) -> !v
    %b.d = aten.call "mul.Tensor"(%e, %a) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%e, %b.w) bwd in "b" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%b.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// Stages stand in the order of the forward.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a", "c", "b"]>} {
  fsdp.param @a.w : !v
  fsdp.param @b.w : !v
  fsdp.param @c.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @c [@c.w] of ["c"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %b.w = fsdp.read @b.w : !v
    %c.w = fsdp.read @c.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    // expected-error @below {{module 'b' of stage 'b' runs before the begin of stage 'c'}}
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : (!v, !v) -> !v
    %c = aten.call "mul.Tensor"(%b, %c.w) fwd in "c" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%c, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %c) bwd in "" : (!s, !v) -> !v
    %c.d = aten.call "mul.Tensor"(%e, %b) bwd in "c" : (!v, !v) -> !v
    fsdp.grad @c.w, %c.d : !v
    %c.g = aten.call "mul.Tensor"(%e, %c.w) bwd in "c" : (!v, !v) -> !v
    %b.d = aten.call "mul.Tensor"(%c.g, %a) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%c.g, %b.w) bwd in "b" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%b.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    fsdp.update @c.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// The forward of a stage is one piece.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a", "b"]>} {
  fsdp.param @a.w : !v
  fsdp.param @b.w : !v
  fsdp.param @c.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @c [@c.w] of ["c"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %b.w = fsdp.read @b.w : !v
    %c.w = fsdp.read @c.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    // expected-note @below {{stage 'b' begins here}}
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : (!v, !v) -> !v
    // expected-error @below {{module 'a.again' of stage 'a' runs again behind the begin of stage 'b'}}
    %c = aten.call "mul.Tensor"(%b, %c.w) fwd in "a.again" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%c, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %c) bwd in "" : (!s, !v) -> !v
    %c.d = aten.call "mul.Tensor"(%e, %b) bwd in "a.again" : (!v, !v) -> !v
    fsdp.grad @c.w, %c.d : !v
    %c.g = aten.call "mul.Tensor"(%e, %c.w) bwd in "a.again" : (!v, !v) -> !v
    %b.d = aten.call "mul.Tensor"(%c.g, %a) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%c.g, %b.w) bwd in "b" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%b.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    fsdp.update @c.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// A group belongs to one stage.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a", "b"]>} {
  fsdp.param @a.w : !v
  fsdp.param @b.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  // expected-error @below {{group @ab runs in two stages: module 'a' in stage 'a' and module 'b' in stage 'b'; with order 1f1b a group belongs to one stage}}
  fsdp.group @ab [@a.w, @b.w] of ["a", "b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %b.w = fsdp.read @b.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    // expected-note @below {{the operation of module 'b'}}
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%b, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %b) bwd in "" : (!s, !v) -> !v
    %b.d = aten.call "mul.Tensor"(%e, %a) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%e, %b.w) bwd in "b" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%b.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// The root group runs in all stages.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a", "b"]>} {
  fsdp.param @a.w : !v
  fsdp.param @b.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  // expected-error @below {{parameter @a.w is in the root group, which runs in all stages; with order 1f1b each parameter belongs to the group of one stage: add its module to groups}}
  fsdp.group @root [@a.w] of [""] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %b.w = fsdp.read @b.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%b, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %b) bwd in "" : (!s, !v) -> !v
    %b.d = aten.call "mul.Tensor"(%e, %a) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%e, %b.w) bwd in "b" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%b.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// A parameter is of one stage: its gradient is no sum over stages.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a", "b"]>} {
  // expected-error @below {{parameter @a.w is used in two stages: by module 'a' in stage 'a' and by module 'b' in stage 'b'}}
  fsdp.param @a.w : !v
  fsdp.param @b.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %b.w = fsdp.read @b.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    // expected-note @below {{the second use}}
    %b = aten.call "mul.Tensor"(%a, %a.w) fwd in "b" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%b, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %b) bwd in "" : (!s, !v) -> !v
    %b.d = aten.call "mul.Tensor"(%e, %a) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%e, %b.w) bwd in "b" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%b.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : !s
  }
}

// -----

// The backward of a stage needs no gradient of an earlier stage.
!v = tensor<4xf32>
!s = tensor<f32>
module attributes {fsdp.accumulation = #fsdp.accumulation<2, loss = sum, stages = ["a", "b"]>} {
  fsdp.param @a.w : !v
  fsdp.param @b.w : !v
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward true
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %x = fsdp.input "x" : !v
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %a.w = fsdp.read @a.w : !v
    %b.w = fsdp.read @b.w : !v
    %a = aten.call "mul.Tensor"(%x, %a.w) fwd in "a" : (!v, !v) -> !v
    %b = aten.call "mul.Tensor"(%a, %b.w) fwd in "b" : (!v, !v) -> !v
    %loss = aten.call "sum.default"(%b, none) fwd in "" : (!v) -> !s
    %g = aten.call "ones_like.default"(%loss, none, none, none, none, none) bwd in "" : (!s) -> !s
    %e = aten.call "mul.Tensor"(%g, %b) bwd in "" : (!s, !v) -> !v
    // expected-note @below {{the gradient is made here}}
    %a.early = aten.call "mul.Tensor"(%e, %x) bwd in "a" : (!v, !v) -> !v
    // expected-error @below {{the backward of module 'b' in stage 'b' needs a gradient from module 'a' in stage 'a', whose backward runs later with order 1f1b}}
    %b.d = aten.call "mul.Tensor"(%a.early, %a) bwd in "b" : (!v, !v) -> !v
    fsdp.grad @b.w, %b.d : !v
    %b.g = aten.call "mul.Tensor"(%e, %b.w) bwd in "b" : (!v, !v) -> !v
    %a.d = aten.call "mul.Tensor"(%b.g, %x) bwd in "a" : (!v, !v) -> !v
    fsdp.grad @a.w, %a.d : !v
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : !s
  }
}
