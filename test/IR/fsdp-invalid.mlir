// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

// Trained parameters are floating-point numbers of at least 16 bits.
// expected-error@below {{parameter @w has element type 'i64', expected a floating-point type of at least 16 bits; parameters of other types must be frozen}}
fsdp.param @w : tensor<4xi64>

// -----

// expected-error@below {{parameter @w has element type 'f8E5M2', expected a floating-point type of at least 16 bits}}
fsdp.param @w : tensor<4xf8E5M2>

// -----

// expected-error@below {{parameter @w has element type 'complex<f32>', expected a real type}}
fsdp.param @w : tensor<4xcomplex<f32>> frozen

// -----

// Each kind of optimizer has its own hyperparameters.
// expected-error@below {{'sgd' needs 'momentum'}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0

// -----

// expected-error@below {{'adamw' has no 'momentum'}}
fsdp.optimizer adamw lr = 0.1 weight_decay = 0.0 momentum = 0.9 betas = [0.9, 0.999] eps = 1.0e-8

// -----

// expected-error@below {{'betas' holds 1 number, expected 2}}
fsdp.optimizer adam lr = 0.1 weight_decay = 0.0 betas = [0.9] eps = 1.0e-8

// -----

// Each kind of optimizer has its own options.
// expected-error@below {{'sgd' has no 'amsgrad'}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9 amsgrad

// -----

// expected-error@below {{'adam' has no 'dampening'}}
fsdp.optimizer adam lr = 0.1 weight_decay = 0.0 dampening = 0.5 betas = [0.9, 0.999] eps = 1.0e-8

// -----

// expected-error@below {{'rmsprop' needs 'alpha'}}
fsdp.optimizer rmsprop lr = 0.1 weight_decay = 0.0 momentum = 0.0 eps = 1.0e-8

// -----

// expected-error@below {{'adagrad' has no 'momentum_decay'}}
fsdp.optimizer adagrad lr = 0.1 weight_decay = 0.0 eps = 1.0e-10 momentum_decay = 0.1

// -----

// expected-error@below {{'adam' has no 'decoupled_weight_decay'}}
fsdp.optimizer adam lr = 0.1 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8 decoupled_weight_decay

// -----

// expected-error@below {{'ema_decay' is 1, expected at least 0 and less than 1}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 ema_decay = 1.0

// -----

// Elements of gradients are clipped to a number above 0, in fp32, too.
// expected-error@below {{'clip_grad_value' is 0, expected a finite number above 0 (in fp32)}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_value = 0.0

// -----

// expected-error@below {{'clip_grad_value' is 1e+300, expected a finite number above 0 (in fp32)}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_value = 1.0e300

// -----

// Gradients are clipped in one way.
// expected-error@below {{clips gradients by both 'clip_grad_norm' and 'clip_grad_value', expected one of them}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 clip_grad_value = 1.0 clip_grad_norm = 1.0

// -----

// expected-error@below {{'state_dtype': adam has no state 'ema', it has exp_avg, exp_avg_sq}}
fsdp.optimizer adam lr = 0.1 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8 state_dtype = {ema = f32}

// -----

// expected-error@below {{'rho' is 1.5, expected at least 0 and at most 1}}
fsdp.optimizer adadelta lr = 1.0 weight_decay = 0.0 rho = 1.5 eps = 1.0e-6

// -----

// expected-error@below {{'state_dtype': rmsprop has no state 'grad_avg', it has square_avg}}
fsdp.optimizer rmsprop lr = 0.1 weight_decay = 0.0 momentum = 0.0 alpha = 0.99 eps = 1.0e-8 state_dtype = {grad_avg = bf16}

// -----

// State has a name of the optimizer's, and a dtype in which updates compute, or a narrower one.
// expected-error@below {{'state_dtype': sgd has no state 'exp_avg', it has momentum_buffer}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9 state_dtype = {exp_avg = bf16}

// -----

// expected-error@below {{'state_dtype': sgd without momentum keeps no state}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 state_dtype = {momentum_buffer = bf16}

// -----

// expected-error@below {{'state_dtype' of exp_avg is f16, expected f32 or bf16}}
fsdp.optimizer adam lr = 0.1 weight_decay = 0.0 betas = [0.9, 0.999] eps = 1.0e-8 state_dtype = {exp_avg = f16}

// -----

// expected-error@below {{momentum is 0, expected more than 0 with nesterov}}
fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0 nesterov

// -----

// An optimizer group names declared parameters.
// expected-error@below {{names parameter @w, which is not declared}}
fsdp.optimizer_group [@w] lr = 0.1

// -----

// expected-error@below {{has no parameters}}
fsdp.optimizer_group [] lr = 0.1

// -----

fsdp.param @w : tensor<4xf32>
// expected-error@below {{'weight_decay' is -1, expected a finite number, 0 or more}}
fsdp.optimizer_group [@w] weight_decay = -1.0

// -----

// A region is recomputed by one of the policies selected and full.
// expected-error@below {{recomputes 'cheap', expected selected or full}}
fsdp.recompute_region "layers.0" cheap

// -----

// expected-error@below {{has 'keep', which is of 'selected'}}
fsdp.recompute_region "layers.0" full keep ["mm"]

// -----

// Hyperparameters have the bounds of torch.optim.
// expected-error@below {{'lr' is nan, expected a finite number, 0 or more}}
fsdp.optimizer sgd lr = 0x7FF8000000000000 weight_decay = 0.0 momentum = 0.9

// -----

// expected-error@below {{'eps' is -1, expected a finite number, 0 or more}}
fsdp.optimizer adam lr = 0.1 weight_decay = 0.0 betas = [0.9, 0.999] eps = -1.0

// -----

// expected-error@below {{'betas' is 1, expected at least 0 and less than 1}}
fsdp.optimizer adam lr = 0.1 weight_decay = 0.0 betas = [0.9, 1.0] eps = 1.0e-8

// -----

// A mesh has at most 2^24 ranks.
// expected-error@below {{axis 'dp' has 9223372036854775807 ranks, expected at least 1 and at most 16777216}}
fsdp.mesh @mesh <dp = 9223372036854775807>

// -----

// expected-error@below {{has more than 16777216 ranks}}
fsdp.mesh @mesh <replicate = 16777216, shard = 2>

// -----

// An axis of a mesh has at least one rank.
// expected-error@below {{axis 'dp' has 0 ranks, expected at least 1 and at most 16777216}}
fsdp.mesh @mesh <dp = 0>

// -----

// The axes of a mesh have different names.
// expected-error@below {{has two axes 'dp'}}
fsdp.mesh @mesh <dp = 2, dp = 2>

// -----

// A group names declared parameters.
fsdp.mesh @mesh <dp = 2>
// expected-error@below {{names parameter @w, which is not declared}}
fsdp.group @l [@w] of ["l"] over @mesh "dp" flat reshard_after_forward true

// -----

// A group names parameters, no buffers.
fsdp.mesh @mesh <dp = 2>
// expected-note@below {{declared here as fsdp.buffer}}
fsdp.buffer @b : tensor<4xf32>
// expected-error@below {{names parameter @b, which is no parameter}}
fsdp.group @l [@b] of ["l"] over @mesh "dp" flat reshard_after_forward true

// -----

// The initial value of a buffer has the type of the buffer.
// expected-error@below {{buffer @b is 'tensor<4xf32>', its init is 'tensor<2xf32>'}}
fsdp.buffer @b : tensor<4xf32> init dense<0.0> : tensor<2xf32>

// -----

// A group names all axes of its mesh, the axis of replicas first.
// expected-note@below {{declared here}}
fsdp.mesh @mesh <dp = 2>
// expected-error@below {{is sharded over axis 'tp', but mesh @mesh has axis 'dp'}}
fsdp.group @l [] of ["l"] over @mesh "tp" flat reshard_after_forward true

// -----

// A group has one dtype.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.param @b : tensor<4xbf16>
// expected-error@below {{holds parameter @b of 'bf16' beside @a of 'f32'; a group has one dtype}}
fsdp.group @l [@a, @b] of ["l"] over @mesh "dp" flat reshard_after_forward true

// -----

// A read has the type of the parameter or buffer.
// expected-note@below {{declared here}}
fsdp.param @w : tensor<4xf32>
func.func @step() {
  // expected-error@below {{has type 'tensor<5xf32>' for parameter @w, expected 'tensor<4xf32>'}}
  %w = fsdp.read @w : tensor<5xf32>
  return
}

// -----

// Only parameters and buffers are read.
fsdp.mesh @mesh <dp = 2>
fsdp.group @l [] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step() {
  // expected-error@below {{reads @l, which is no parameter and no buffer}}
  %w = fsdp.read @l : tensor<5xf32>
  return
}

// -----

// A gradient has the type of its parameter.
// expected-note@below {{declared here}}
fsdp.param @w : tensor<4xf32>
func.func @step(%g: tensor<5xf32>) {
  // expected-error@below {{has type 'tensor<5xf32>' for the gradient of parameter @w, expected 'tensor<4xf32>'}}
  fsdp.grad @w, %g : tensor<5xf32>
  return
}

// -----

// A write has the type of its buffer.
// expected-note@below {{declared here}}
fsdp.buffer @b : tensor<4xf32>
func.func @step(%v: tensor<5xf32>) {
  // expected-error@below {{has type 'tensor<5xf32>' for buffer @b, expected 'tensor<4xf32>'}}
  fsdp.write @b, %v : tensor<5xf32>
  return
}

// -----

// Only parameters and groups are updated.
fsdp.buffer @b : tensor<4xf32>
func.func @step(%step: i64, %lr: f64) {
  // expected-error@below {{updates @b, which is no parameter and no group}}
  fsdp.update @b step %step lr %lr
  return
}

// -----

// A shard names a declared group.
func.func @step() {
  // expected-error@below {{names group @l, which is not declared}}
  %s = fsdp.shard @l : !fsdp.shard<@l, f32>
  return
}

// -----

// The wait of a gather yields one value per parameter.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step() {
  %s = fsdp.shard @l : !fsdp.shard<@l, f32>
  %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
  // expected-error@below {{has 2 values for group @l, expected 1}}
  %w:2 = fsdp.all_gather.wait %u : tensor<4xf32>, tensor<4xf32>
  return
}

// -----

// Each value of the wait of a gather has the type of its parameter.
fsdp.mesh @mesh <dp = 2>
// expected-note@below {{declared here}}
fsdp.param @a : tensor<4xf32>
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step() {
  %s = fsdp.shard @l : !fsdp.shard<@l, f32>
  %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
  // expected-error@below {{has type 'tensor<3xf32>' for parameter @a, expected 'tensor<4xf32>'}}
  %w = fsdp.all_gather.wait %u : tensor<3xf32>
  return
}

// -----

// The wait of a gather takes the handle of a gather.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-note@below {{but it comes from fsdp.reduce_scatter.start}}
  %r = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on reduce : tensor<4xf32>
  // expected-error@below {{takes the handle of a fsdp.all_gather.start}}
  %w = fsdp.all_gather.wait %r : tensor<4xf32>
  return
}

// -----

// A reduce-scatter takes one gradient per parameter.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-error@below {{has 2 values for group @l, expected 1}}
  %r = fsdp.reduce_scatter.start @l(%g, %g) over ["dp"] avg bwd on reduce : tensor<4xf32>, tensor<4xf32>
  return
}

// -----

// The wait of an all-reduce yields the shard of the group that is reduced.
fsdp.mesh @mesh <replicate = 2, shard = 2>
fsdp.param @a : tensor<4xf32>
fsdp.param @b : tensor<4xf32>
fsdp.group @k [@a] of ["k"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
fsdp.group @l [@b] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  %r = fsdp.reduce_scatter.start @k(%g) over ["shard"] avg bwd on reduce : tensor<4xf32>
  // expected-note@below {{started here}}
  %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
  // expected-error@below {{yields '!fsdp.shard<@l, f32>', expected '!fsdp.shard<@k, f32>'}}
  %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
  return
}

// -----

// An all-reduce takes the handle of a reduce-scatter.
fsdp.mesh @mesh <replicate = 2, shard = 2>
fsdp.param @a : tensor<4xf32>
fsdp.group @k [@a] of ["k"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
func.func @step() {
  %s = fsdp.shard @k : !fsdp.shard<@k, f32>
  // expected-note@below {{but it comes from fsdp.all_gather.start}}
  %u = fsdp.all_gather.start %s over ["shard"] fwd on gather : !fsdp.shard<@k, f32>
  // expected-error@below {{takes the handle of a fsdp.reduce_scatter.start}}
  %x = fsdp.all_reduce.start %u over ["replicate"] avg bwd on replicate : !fsdp.handle
  return
}

// -----

// The wait of an all-reduce takes the handle of an all-reduce.
fsdp.mesh @mesh <replicate = 2, shard = 2>
fsdp.param @a : tensor<4xf32>
fsdp.group @k [@a] of ["k"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-note@below {{but it comes from fsdp.reduce_scatter.start}}
  %r = fsdp.reduce_scatter.start @k(%g) over ["shard"] avg bwd on reduce : tensor<4xf32>
  // expected-error@below {{takes the handle of a fsdp.all_reduce.start}}
  %f = fsdp.all_reduce.wait %r : !fsdp.shard<@k, f32>
  return
}

// -----

// expected-note@below {{declared here}}
fsdp.mesh @mesh <shard = 2, replicate = 2>
// expected-error@below {{is replicated over axis 'replicate' and sharded over axis 'shard', but mesh @mesh has axes 'shard', 'replicate'}}
fsdp.group @l [] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true

// -----

// expected-note@below {{declared here}}
fsdp.mesh @mesh <replicate = 2, shard = 2>
// expected-error@below {{is sharded over axis 'shard', but mesh @mesh has axes 'replicate', 'shard'}}
fsdp.group @l [] of ["l"] over @mesh "shard" flat reshard_after_forward true

// -----

// The dialect's attributes of a module have known names and types.
// expected-error@below {{attribute 'fsdp.prefetch' must be a #fsdp.prefetch on the module}}
module attributes {fsdp.prefetch = "none"} {}

// -----

// expected-error@below {{unknown attribute 'fsdp.fase'}}
module attributes {fsdp.fase = 1} {}

// -----

// Sizes of memory are at least 0 and less than 2^47 bytes.
// expected-error@below {{attribute 'fsdp.arena_bytes' must be an i64 of at least 0 and less than 2^47 (bytes) on the module}}
module attributes {fsdp.arena_bytes = 1152921504606846976 : i64} {}

// -----

// expected-error@below {{attribute 'fsdp.bound_ns' must be an i64 of at least 0 on the module}}
module attributes {fsdp.bound_ns = -1 : i64} {}

// -----

// expected-error@below {{attribute 'fsdp.peak_live_bytes' must be an i64 of at least 0 and less than 2^47 (bytes) on the module}}
module attributes {fsdp.peak_live_bytes = -5 : i64} {}

// -----

// A group has at most one decision of each subject.
fsdp.mesh @mesh <dp = 2>
// expected-error@below {{has two decisions of recomputed, expected one}}
fsdp.group @l [] of ["l"] over @mesh "dp" flat reshard_after_forward true decisions [#fsdp.decision<recomputed, "a">, #fsdp.decision<recomputed, "b">]

// -----

// A decision names its reason.
fsdp.mesh @mesh <dp = 2>
// expected-error@below {{has a decision of gather_dtype without a reason}}
fsdp.group @l [] of ["l"] over @mesh "dp" flat reshard_after_forward true decisions [#fsdp.decision<gather_dtype, " ">]

// -----

// The policy that was decided for a group is not auto.
fsdp.mesh @mesh <dp = 2>
// expected-error@below {{has recomputed auto, expected the policy that was decided}}
fsdp.group @l [] of ["l"] over @mesh "dp" flat reshard_after_forward true recomputed auto

// -----

// The flat layout cuts no dimension.
fsdp.param @w : tensor<4x4xf32>
fsdp.mesh @mesh <dp = 2>
// expected-error@below {{has shard_dims and the flat layout, which cuts no dimension; expected the per_param layout}}
fsdp.group @l [@w] of ["l"] over @mesh "dp" flat shard_dims [1] reshard_after_forward true

// -----

// Each parameter is cut on one dimension.
fsdp.param @w : tensor<4x4xf32>
fsdp.mesh @mesh <dp = 2>
// expected-error@below {{has 2 shard_dims, expected one for each of its 1 parameters}}
fsdp.group @l [@w] of ["l"] over @mesh "dp" per_param shard_dims [1, 0] reshard_after_forward true

// -----

// The dimension is there.
// expected-note@below {{declared here}}
fsdp.param @w : tensor<4x4xf32>
fsdp.mesh @mesh <dp = 2>
// expected-error@below {{cuts parameter @w on dimension 2, but it has 2 dimensions}}
fsdp.group @l [@w] of ["l"] over @mesh "dp" per_param shard_dims [2] reshard_after_forward true

// -----

// Only dimension 0 is padded.
fsdp.param @rows : tensor<5xf32>
// expected-note@below {{declared here}}
fsdp.param @w : tensor<4x5xf32>
fsdp.mesh @mesh <dp = 2>
// expected-error@below {{cuts parameter @w on dimension 1, whose size 5 is not divisible by the 2 ranks of axis 'dp'; only dimension 0 is padded}}
fsdp.group @l [@rows, @w] of ["l"] over @mesh "dp" per_param shard_dims [0, 1] reshard_after_forward true
