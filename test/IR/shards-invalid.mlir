// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

// A shard is of the group that its type names.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
fsdp.param @b : tensor<4xf32>
fsdp.group @k [@b] of ["k"] over @mesh "dp" flat reshard_after_forward true
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-error@below {{of @l yields '!fsdp.shard<@k, f32>'}}
  %s = fsdp.shard @l : !fsdp.shard<@k, f32>
  return
}

// -----

// A shard is in its parameters' dtype, or in that in which it is gathered.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true gather_dtype bf16
func.func @step(%g: tensor<4xf32>) {
  // expected-error@below {{has a shard of 'f16' of group @l, expected 'bf16'}}
  %s = fsdp.shard @l : !fsdp.shard<@l, f16>
  return
}

// -----

// A gather takes the shard in its own dtype.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true gather_dtype bf16
func.func @step(%g: tensor<4xf32>) {
  %s = fsdp.shard @l : !fsdp.shard<@l, f32>
  // expected-error@below {{has a shard of 'f32' of group @l, expected 'bf16'}}
  %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@l, f32>
  return
}

// -----

// A group is gathered over the axis over which it is sharded.
fsdp.mesh @mesh <replicate = 2, shard = 2>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.group @l [@a] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  %s = fsdp.shard @l : !fsdp.shard<@l, f32>
  // expected-error@below {{is over ["replicate"], but group @l is sharded over axis "shard"}}
  %u = fsdp.all_gather.start %s over ["replicate"] fwd on gather : !fsdp.shard<@l, f32>
  return
}

// -----

// It is reduced over this axis.
fsdp.mesh @mesh <replicate = 2, shard = 2>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.group @l [@a] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-error@below {{is over ["replicate"], but group @l is sharded over axis "shard"}}
  %r = fsdp.reduce_scatter.start @l(%g) over ["replicate"] avg bwd on reduce : tensor<4xf32>
  return
}

// -----

// It is reduced over one axis at a time.
fsdp.mesh @mesh <replicate = 2, shard = 2>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.group @l [@a] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-error@below {{is over ["replicate", "shard"], but group @l is sharded over axis "shard"}}
  %r = fsdp.reduce_scatter.start @l(%g) over ["replicate", "shard"] avg bwd on reduce : tensor<4xf32>
  return
}

// -----

// Then it is reduced over the other axis.
fsdp.mesh @mesh <replicate = 2, shard = 2>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.group @l [@a] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  %r = fsdp.reduce_scatter.start @l(%g) over ["shard"] avg bwd on reduce : tensor<4xf32>
  // expected-error@below {{is over ["shard"], but group @l is replicated over axis "replicate"}}
  %a = fsdp.all_reduce.start %r over ["shard"] avg bwd on replicate : !fsdp.handle
  return
}

// -----

// A group without replicas is not reduced over any.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  %r = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on reduce : tensor<4xf32>
  // expected-error@below {{is over ["replicate"], but group @l is not replicated}}
  %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
  return
}

// -----

// A tensor is reduced over axes of the mesh.
// expected-note@below {{declared here}}
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%t: tensor<f64>) {
  // expected-error@below {{is over ["tp"], expected axes of the mesh, each once}}
  %n = fsdp.all_reduce.start %t over ["tp"] sum bwd on reduce : tensor<f64>
  return
}

// -----

// It is over each axis once.
// expected-note@below {{declared here}}
fsdp.mesh @mesh <replicate = 2, shard = 2>
func.func @step(%t: tensor<f64>) {
  // expected-error@below {{is over ["shard", "shard"], expected axes of the mesh, each once}}
  %n = fsdp.all_reduce.start %t over ["shard", "shard"] sum bwd on reduce : tensor<f64>
  return
}

// -----

// It is over some axis.
fsdp.mesh @mesh <dp = 2>
func.func @step(%t: tensor<f64>) {
  // expected-error@below {{is over no axis}}
  %n = fsdp.all_reduce.start %t over [] sum bwd on reduce : tensor<f64>
  return
}

// -----

// What is reduced over the replicas is what a reduction has begun, a shard or a tensor.
fsdp.mesh @mesh <replicate = 2, shard = 2>
fsdp.param @a : tensor<4xf32>
fsdp.group @l [@a] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  %lr = fsdp.input "lr" : f64
  // expected-error@below {{operand #0 must be a handle, a shard or a tensor, but got 'f64'}}
  %a = fsdp.all_reduce.start %lr over ["replicate"] avg bwd on replicate : f64
  return
}

// -----

// It is not the handle of a gather.
fsdp.mesh @mesh <replicate = 2, shard = 2>
fsdp.param @a : tensor<4xf32>
fsdp.group @l [@a] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  %s = fsdp.shard @l : !fsdp.shard<@l, f32>
  // expected-note@below {{but it comes from fsdp.all_gather.start}}
  %u = fsdp.all_gather.start %s over ["shard"] fwd on gather : !fsdp.shard<@l, f32>
  // expected-error@below {{takes the handle of a fsdp.reduce_scatter.start}}
  %a = fsdp.all_reduce.start %u over ["replicate"] avg bwd on replicate : !fsdp.handle
  return
}

// -----

// A reduction's wait yields the shard of its group.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
fsdp.param @b : tensor<4xf32>
fsdp.group @k [@b] of ["k"] over @mesh "dp" flat reshard_after_forward true
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-note@below {{started here}}
  %r = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on reduce : tensor<4xf32>
  // expected-error@below {{yields '!fsdp.shard<@k, f32>', expected '!fsdp.shard<@l, f32>'}}
  %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@k, f32>
  return
}

// -----

// It yields it in the gradients' dtype.
fsdp.mesh @mesh <dp = 2>
fsdp.param @a : tensor<4xf32>
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-note@below {{started here}}
  %r = fsdp.reduce_scatter.start @l(%g) over ["dp"] avg bwd on reduce : tensor<4xf32>
  // expected-error@below {{yields '!fsdp.shard<@l, bf16>', expected '!fsdp.shard<@l, f32>'}}
  %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, bf16>
  return
}

// -----

// Gradients are packed as a shard of their group.
fsdp.mesh @mesh <dp = 1>
fsdp.param @a : tensor<4xf32>
fsdp.param @b : tensor<4xf32>
fsdp.group @k [@b] of ["k"] over @mesh "dp" flat reshard_after_forward true
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-error@below {{of @l yields '!fsdp.shard<@k, f32>'}}
  %d = fsdp.pack @l(%g) : (tensor<4xf32>) -> !fsdp.shard<@k, f32>
  return
}

// -----

// One gradient per parameter is packed.
fsdp.mesh @mesh <dp = 1>
fsdp.param @a : tensor<4xf32>
// expected-note@below {{declared here}}
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-error@below {{has 2 values for group @l, expected 1}}
  %d = fsdp.pack @l(%g, %g) : (tensor<4xf32>, tensor<4xf32>) -> !fsdp.shard<@l, f32>
  return
}

// -----

// A group is updated with its own gradient.
fsdp.mesh @mesh <dp = 1>
fsdp.param @a : tensor<4xf32>
fsdp.param @b : tensor<4xf32>
fsdp.group @k [@b] of ["k"] over @mesh "dp" flat reshard_after_forward true
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>, %step: i64, %lr: f64) {
  // expected-note@below {{made here}}
  %d = fsdp.pack @k(%g) : (tensor<4xf32>) -> !fsdp.shard<@k, f32>
  // expected-error@below {{of @l takes the gradient of @k}}
  fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@k, f32>
  return
}

// -----

// It is updated with its own state.
fsdp.mesh @mesh <dp = 1>
fsdp.param @a : tensor<4xf32>
fsdp.param @b : tensor<4xf32>
fsdp.group @k [@b] of ["k"] over @mesh "dp" flat reshard_after_forward true
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>, %step: i64, %lr: f64) {
  %d = fsdp.pack @l(%g) : (tensor<4xf32>) -> !fsdp.shard<@l, f32>
  %h = fsdp.fetch_state.start @k
  // expected-note@below {{made here}}
  %x = fsdp.fetch_state.wait %h : !fsdp.state<@k>
  // expected-error@below {{of @l takes the optimizer state of @k}}
  fsdp.update @l with %d step %step lr %lr state %x : !fsdp.shard<@l, f32>, !fsdp.state<@k>
  return
}

// -----

// A fetch's wait yields the state that is fetched.
fsdp.mesh @mesh <dp = 1>
fsdp.param @a : tensor<4xf32>
fsdp.param @b : tensor<4xf32>
fsdp.group @k [@b] of ["k"] over @mesh "dp" flat reshard_after_forward true
fsdp.group @l [@a] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%g: tensor<4xf32>) {
  // expected-note@below {{started here}}
  %h = fsdp.fetch_state.start @l
  // expected-error@below {{yields '!fsdp.state<@k>', expected '!fsdp.state<@l>'}}
  %x = fsdp.fetch_state.wait %h : !fsdp.state<@k>
  return
}

// -----

// What is stored has no gaps, which would not be copied.
func.func @step(%a: tensor<2x2xf32, #aten.strides<[4, 1]>>) {
  // expected-error@below {{whose elements have 16 of 24 bytes, expected a tensor without gaps}}
  %t = fsdp.store.start %a : tensor<2x2xf32, #aten.strides<[4, 1]>>
  return
}

// -----

func.func @step(%a: tensor<0x2xf32>) {
  // expected-error@below {{stores 'tensor<0x2xf32>', which has no bytes}}
  %t = fsdp.store.start %a : tensor<0x2xf32>
  return
}

// -----

// A number is not stored.
func.func @step(%lr: f64) {
  // expected-error@below {{operand #0 must be a shard or a tensor, but got 'f64'}}
  %t = fsdp.store.start %lr : f64
  return
}

// -----

// A store's wait yields what is stored.
func.func @step(%a: tensor<4xf32>) {
  // expected-note@below {{started here}}
  %t = fsdp.store.start %a : tensor<4xf32>
  // expected-error@below {{yields '!fsdp.host<tensor<2x2xf32>>', expected '!fsdp.host<tensor<4xf32>>'}}
  %s = fsdp.store.wait %t : !fsdp.host<tensor<2x2xf32>>
  return
}

// -----

// A fetch's wait yields what was stored.
func.func @step(%a: tensor<4xf32>) {
  %t = fsdp.store.start %a : tensor<4xf32>
  %s = fsdp.store.wait %t : !fsdp.host<tensor<4xf32>>
  // expected-note@below {{started here}}
  %h = fsdp.fetch.start %s : !fsdp.host<tensor<4xf32>>
  // expected-error@below {{yields 'tensor<4xbf16>', expected 'tensor<4xf32>'}}
  %b = fsdp.fetch.wait %h : tensor<4xbf16>
  return
}

// -----

// A chunk on the host is gathered, not fetched.
func.func @step(%k: !fsdp.shard<@g, f32, 2>) {
  %t = fsdp.store.start %k : !fsdp.shard<@g, f32, 2>
  %s = fsdp.store.wait %t : !fsdp.host<!fsdp.shard<@g, f32, 2>>
  // expected-error@below {{takes a chunk, '!fsdp.shard<@g, f32, 2>', which only 'fsdp.all_gather.start' takes}}
  %h = fsdp.fetch.start %s : !fsdp.host<!fsdp.shard<@g, f32, 2>>
  return
}

// -----

// Of what is on the host only chunks are gathered.
func.func @step(%a: tensor<4xf32>) {
  %t = fsdp.store.start %a : tensor<4xf32>
  %s = fsdp.store.wait %t : !fsdp.host<tensor<4xf32>>
  // expected-error@below {{takes '!fsdp.host<tensor<4xf32>>', expected a shard, or a chunk on the host}}
  %u = fsdp.all_gather.start %s over ["dp"] bwd on gather : !fsdp.host<tensor<4xf32>>
  return
}

// -----

// A store's handle is not fetched, nor is what nobody stored.
func.func @step(%s: !fsdp.host<tensor<4xf32>>) {
  // expected-error@below {{takes what no fsdp.store.wait yields}}
  %h = fsdp.fetch.start %s : !fsdp.host<tensor<4xf32>>
  return
}

// -----

// It is not the handle of a fetch.
func.func @step(%a: tensor<4xf32>) {
  // expected-note@below {{but it comes from fsdp.store.start}}
  %t = fsdp.store.start %a : tensor<4xf32>
  // expected-error@below {{takes the handle of a fsdp.fetch.start}}
  %b = fsdp.fetch.wait %t : tensor<4xf32>
  return
}
