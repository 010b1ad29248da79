module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @w : tensor<4xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  fsdp.mesh @mesh <dp = 1>
  fsdp.group @g [@w] of [""] over @mesh "dp" flat reshard_after_forward false optimizer_state host
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : tensor<4xf32>
    %loss = aten.call "sum.default"(%w, none) fwd in "" : (tensor<4xf32>) -> tensor<f32>
    %g = aten.call "neg.default"(%w) bwd in "" : (tensor<4xf32>) -> tensor<4xf32>
    %h = fsdp.fetch_state.start @g
    %x = fsdp.fetch_state.wait %h : !fsdp.state<@g>
    %d = fsdp.pack @g(%g) : (tensor<4xf32>) -> !fsdp.shard<@g, f32>
    fsdp.update @g with %d step %step lr %lr state %x : !fsdp.shard<@g, f32>, !fsdp.state<@g>
    %t = fsdp.store_state.start %x : !fsdp.state<@g>
    return %loss : tensor<f32>
  }
}
