// RUN: fsdp-opt %s --split-input-file --fsdp-verify-captured --verify-diagnostics --allow-unregistered-dialect

// A whole step holds, with its groups.
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !m
  fsdp.buffer @b : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %w = fsdp.read @w : !m
    %d:2 = aten.call "native_dropout.default"(%w, 0.1, true) fwd in "" rng 0 : (!m) -> (!m, tensor<4x4xi1>)
    %and = aten.call "__and__.Tensor"(%d#1, %d#1) fwd in "" : (tensor<4x4xi1>, tensor<4x4xi1>) -> tensor<4x4xi1>
    %loss = aten.call "sum.default"(%d#0, none) fwd in "" : (!m) -> !s
    %dw = aten.call "mul.Tensor"(%w, %loss) bwd in "" : (!m, !s) -> !m
    fsdp.grad @w, %dw : !m
    fsdp.write @b, %dw : !m
    fsdp.update @w step %step lr %lr
    return %loss : !s
  }
}

// -----

// expected-error@below {{fsdp-verify-captured takes a module of phase captured, got planned}}
module attributes {fsdp.phase = #fsdp.module_phase<planned>} {
  func.func @step() -> tensor<f32> {
    %loss = fsdp.input "x" : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// C1: the function's name.
module {
  // expected-error@below {{C1: the step's function is named @train, expected @step}}
  func.func @train() -> tensor<f32> {
    %loss = fsdp.input "x" : tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// C1: inputs are operations.
module {
  // expected-error@below {{C1: the step has 1 arguments; inputs are 'fsdp.input'}}
  func.func @step(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
}

// -----

// C1: the loss is one number.
module {
  // expected-error@below {{C1: the step returns 'tensor<2xf32>', expected one floating-point scalar, the loss}}
  func.func @step() -> tensor<2xf32> {
    %x = fsdp.input "x" : tensor<2xf32>
    return %x : tensor<2xf32>
  }
}

// -----

// M1: one function.
module {
  // expected-note@below {{the first one is here}}
  func.func private @other()
  // expected-error@below {{M1: a module has one function, the step}}
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// C2: shards belong to the sharded phase.
module {
  fsdp.param @w : tensor<f32>
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    // expected-error@below {{C2: a captured step has no shards, collectives or norms: passes insert them}}
    %s = fsdp.shard @root : !fsdp.shard<@root, f32>
    %x = fsdp.input "x" : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// C2: so do collectives.
module {
  fsdp.param @w : tensor<f32>
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    // expected-error@below {{C2: a captured step has no shards, collectives or norms: passes insert them}}
    %r = fsdp.reduce_scatter.start @root(%x) over ["dp"] avg bwd on compute : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// C2: offsets belong to the planned phase.
module {
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    // expected-error@below {{C2: has arena offsets, which memory planning writes}}
    %y = aten.call "relu.default"(%x) fwd in "" at [0] : (tensor<f32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}

// -----

// C3: an operator in place.
module {
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    // expected-error@below {{C3: 'add_.Tensor' in module 'l' mutates an argument; a step is functional}}
    %y = aten.call "add_.Tensor"(%x, %x, 1) fwd in "l" : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}

// -----

// C3: an operator whose name does not say that it writes to an argument.
module {
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    %y = aten.call "relu.default"(%x) fwd in "l" : (tensor<f32>) -> tensor<f32>
    // expected-error@below {{C3: 'sigmoid_backward.grad_input' in module 'l' mutates an argument}}
    %dead = aten.call "sigmoid_backward.grad_input"(%y, %y, %y) fwd in "l" : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}

// -----

// C3: an operator whose schema does not say so, either.
!v = tensor<3xf32>
!x = tensor<2x3xf32>
module {
  fsdp.buffer @mean : !v
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : !x
    %m = fsdp.read @mean : !v
    %e:3 = aten.call "native_batch_norm.default"(%x, none, none, %m, %m, false, 0.1, 1.0e-5) fwd in "l" : (!x, !v, !v) -> (!x, tensor<0xf32>, tensor<0xf32>)
    // expected-error@below {{C3: 'native_batch_norm.default' in module 'l' mutates an argument}}
    %y:3 = aten.call "native_batch_norm.default"(%x, none, none, %m, %m, true, 0.1, 1.0e-5) fwd in "l" : (!x, !v, !v) -> (!x, !v, !v)
    %loss = aten.call "sum.default"(%y#0, none) fwd in "l" : (!x) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// C3: an operator with an output argument.
module {
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    // expected-error@below {{C3: 'add.out' in module '' mutates an argument}}
    %y = aten.call "add.out"(%x, %x, 1, %x) fwd in "" : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}

// -----

// C4: every parameter has a gradient.
module {
  // expected-error@below {{C4: parameter @w has no gradient}}
  fsdp.param @w : tensor<f32>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// C4: every parameter is updated.
module {
  // expected-error@below {{C4: parameter @w is never updated}}
  fsdp.param @w : tensor<f32>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    fsdp.grad @w, %x : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// C4: a parameter has one gradient.
module {
  fsdp.param @w : tensor<f32>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    // expected-note@below {{the first one is here}}
    fsdp.grad @w, %x : tensor<f32>
    // expected-error@below {{C4: parameter @w has two gradients}}
    fsdp.grad @w, %x : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// C4: a parameter is updated once.
module {
  fsdp.param @w : tensor<f32>
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<f32>
    fsdp.grad @w, %x : tensor<f32>
    // expected-note@below {{the first one is here}}
    fsdp.update @w step %step lr %lr
    // expected-error@below {{C4: parameter @w is updated twice}}
    fsdp.update @w step %step lr %lr
    return %x : tensor<f32>
  }
}

// -----

// C4: groups are updated later than in the captured phase.
module {
  fsdp.param @w : tensor<f32>
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<f32>
    // expected-error@below {{C4: updates group @root; a captured step updates parameters}}
    fsdp.update @root step %step lr %lr
    return %x : tensor<f32>
  }
}

// -----

// C4: there is an optimizer.
// expected-error@below {{C4: the module has parameters but no optimizer}}
module {
  fsdp.param @w : tensor<f32>
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<f32>
    fsdp.grad @w, %x : tensor<f32>
    fsdp.update @w step %step lr %lr
    return %x : tensor<f32>
  }
}

// -----

// C5: an update takes the step's number from the input of this name.
module {
  fsdp.param @w : tensor<f32>
  func.func @step() -> tensor<f32> {
    %number = "test.number"() : () -> i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<f32>
    fsdp.grad @w, %x : tensor<f32>
    // expected-error@below {{C5: takes its step from elsewhere than input "step"}}
    fsdp.update @w step %number lr %lr
    return %x : tensor<f32>
  }
}

// -----

// C5: the step's number is an i64.
module {
  func.func @step() -> tensor<f32> {
    // expected-error@below {{C5: input "step" has type 'f64', expected 'i64'}}
    %step = fsdp.input "step" : f64
    %x = fsdp.input "x" : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// C5: other inputs are tensors.
module {
  func.func @step() -> tensor<f32> {
    // expected-error@below {{C5: input "rate" has type 'f64', expected a tensor}}
    %rate = fsdp.input "rate" : f64
    %x = fsdp.input "x" : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// C5: inputs have different names.
module {
  func.func @step() -> tensor<f32> {
    // expected-note@below {{the first one is here}}
    %x = fsdp.input "x" : tensor<f32>
    // expected-error@below {{C5: two inputs are named "x"}}
    %y = fsdp.input "x" : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// C5: random draws have different positions.
module {
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    // expected-note@below {{the first one is here}}
    %a = aten.call "bernoulli.default"(%x, none) fwd in "" rng 3 : (tensor<f32>) -> tensor<f32>
    // expected-error@below {{C5: two draws of random numbers have position 3}}
    %b = aten.call "bernoulli.default"(%x, none) fwd in "" rng 3 : (tensor<f32>) -> tensor<f32>
    return %a : tensor<f32>
  }
}

// -----

// C5: the backward may repeat a draw, here after the views and values that lead to it.
module {
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    %a = aten.call "relu.default"(%x) fwd in "l" : (tensor<f32>) -> tensor<f32>
    %d:2 = aten.call "native_dropout.default"(%a, 0.1, true) fwd in "l" rng 0 : (tensor<f32>) -> (tensor<f32>, tensor<i1>)
    %b = aten.call "relu.default"(%x) bwd in "l" : (tensor<f32>) -> tensor<f32>
    %e:2 = aten.call "native_dropout.default"(%b, 0.1, true) bwd in "l" rng 0 : (tensor<f32>) -> (tensor<f32>, tensor<i1>)
    return %d#0 : tensor<f32>
  }
}

// -----

// C5: a draw of the backward on other values is another draw.
module {
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    %a = aten.call "relu.default"(%x) fwd in "l" : (tensor<f32>) -> tensor<f32>
    // expected-note@below {{the first one is here}}
    %d:2 = aten.call "native_dropout.default"(%a, 0.1, true) fwd in "l" rng 0 : (tensor<f32>) -> (tensor<f32>, tensor<i1>)
    %b = aten.call "neg.default"(%x) bwd in "l" : (tensor<f32>) -> tensor<f32>
    // expected-error@below {{C5: two draws of random numbers have position 0, and that of the backward does not repeat the forward's on the same values}}
    %e:2 = aten.call "native_dropout.default"(%b, 0.1, true) bwd in "l" rng 0 : (tensor<f32>) -> (tensor<f32>, tensor<i1>)
    return %d#0 : tensor<f32>
  }
}

// -----

// C5: so is one with another probability.
module {
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    // expected-note@below {{the first one is here}}
    %d:2 = aten.call "native_dropout.default"(%x, 0.1, true) fwd in "l" rng 0 : (tensor<f32>) -> (tensor<f32>, tensor<i1>)
    // expected-error@below {{C5: two draws of random numbers have position 0, and that of the backward does not repeat the forward's on the same values}}
    %e:2 = aten.call "native_dropout.default"(%x, 0.5, true) bwd in "l" rng 0 : (tensor<f32>) -> (tensor<f32>, tensor<i1>)
    return %d#0 : tensor<f32>
  }
}

// -----

// C6: the forward does not use the backward.
module {
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    // expected-note@below {{which is made here}}
    %a = aten.call "relu.default"(%x) bwd in "l" : (tensor<f32>) -> tensor<f32>
    // expected-error@below {{C6: 'relu.default' of the forward, in module 'm', uses a value of the backward}}
    %b = aten.call "relu.default"(%a) fwd in "m" : (tensor<f32>) -> tensor<f32>
    return %b : tensor<f32>
  }
}

// -----

// C7: groups hold every parameter.
module {
  fsdp.param @w : tensor<f32>
  // expected-error@below {{C7: parameter @v is in no group}}
  fsdp.param @v : tensor<f32>
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @root [@w] of [""] over @mesh "dp" flat reshard_after_forward none
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// C5: a buffer has one new value.
module {
  fsdp.buffer @b : tensor<f32>
  func.func @step() -> tensor<f32> {
    %x = fsdp.input "x" : tensor<f32>
    // expected-note@below {{the first one is here}}
    fsdp.write @b, %x : tensor<f32>
    // expected-error@below {{C5: buffer @b is written twice}}
    fsdp.write @b, %x : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

// An evaluation holds without gradients, updates and an optimizer.
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : tensor<4xf32>
  func.func @evaluate() -> tensor<f32> {
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : tensor<4xf32>
  func.func @evaluate() -> tensor<f32> {
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    // expected-error@below {{C4: an evaluation has no backward, no gradients and no updates}}
    fsdp.grad @w, %w : tensor<4xf32>
    return %loss : tensor<f32>
  }
}
