// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s

// A step on two replicas of two ranks, with every operation of the scheduled phase.
// CHECK: module attributes {fsdp.model = "tiny", fsdp.phase = #fsdp.module_phase<scheduled>}
module attributes {fsdp.model = "tiny", fsdp.phase = #fsdp.module_phase<scheduled>} {
  // CHECK: fsdp.mesh @mesh <replicate = 2, shard = 2>
  fsdp.mesh @mesh <replicate = 2, shard = 2>
  // CHECK: fsdp.optimizer adamw lr = 1.000000e-03 weight_decay = 1.000000e-01 betas = [9.000000e-01, 9.990000e-01] eps = 1.000000e-08 clip_grad_norm = 1.000000e+00
  fsdp.optimizer adamw lr = 0.001 weight_decay = 0.1 betas = [0.9, 0.999] eps = 1.0e-8 clip_grad_norm = 1.0
  // CHECK: fsdp.param @l.w : tensor<4x8xf32> aliases ["head.w"]
  fsdp.param @l.w : tensor<4x8xf32> aliases ["head.w"]
  // CHECK: fsdp.buffer @count : tensor<f32>
  fsdp.buffer @count : tensor<f32>
  // CHECK: fsdp.buffer @calls : tensor<2xi64> init dense<[1, 2]> : tensor<2xi64>
  fsdp.buffer @calls : tensor<2xi64> init dense<[1, 2]> : tensor<2xi64>
  // CHECK: fsdp.group @l [@l.w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true optimizer_state {{ *}}host
  fsdp.group @l [@l.w] of ["l"] over @mesh "shard" replicated "replicate" flat reshard_after_forward true optimizer_state host
  func.func @step() -> tensor<f32> {
    // CHECK: %[[S:.+]] = fsdp.shard @l : {{.*}}<@l, f32>
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    // CHECK: %step = fsdp.input "step" : i64
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<2x8xf32>
    %count = fsdp.read @count : tensor<f32>
    // CHECK: %[[U:.+]] = fsdp.all_gather.start %[[S]] over ["shard"] fwd on gather : {{.*}}<@l, f32>
    %u = fsdp.all_gather.start %s over ["shard"] fwd on gather : !fsdp.shard<@l, f32>
    // CHECK: %[[W:.+]] = fsdp.all_gather.wait %[[U]] : tensor<4x8xf32>
    %w = fsdp.all_gather.wait %u : tensor<4x8xf32>
    // CHECK: aten.call "t.default"(%[[W]]) fwd in "l" : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<[1, 8]>>
    %t = aten.call "t.default"(%w) fwd in "l" : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<[1, 8]>>
    %y = aten.call "mm.default"(%x, %t) fwd in "l" : (tensor<2x8xf32>, tensor<8x4xf32, #aten.strides<[1, 8]>>) -> tensor<2x4xf32>
    // CHECK: fsdp.reshard %[[U]] fwd
    fsdp.reshard %u fwd
    // CHECK: aten.call "native_dropout.default"(%{{.+}}, 1.000000e-01, true) fwd in "l.drop" rng 0
    %drop:2 = aten.call "native_dropout.default"(%y, 0.1, true) fwd in "l.drop" rng 0 : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
    // CHECK: aten.call "masked_fill.Scalar"(%{{.+}}, %{{.+}}, 0xFFF0000000000000 : f64) fwd in ""
    %m = aten.call "masked_fill.Scalar"(%drop#0, %drop#1, 0xFFF0000000000000 : f64) fwd in "" : (tensor<2x4xf32>, tensor<2x4xi1>) -> tensor<2x4xf32>
    // CHECK: aten.call "sum.dim_IntList"(%{{.+}}, [0, 1], false, none) fwd in ""
    %loss = aten.call "sum.dim_IntList"(%m, [0, 1], false, none) fwd in "" : (tensor<2x4xf32>) -> tensor<f32>
    // CHECK: aten.call "ones_like.default"(%{{.+}}, none, none, #aten.device, false, #aten.memory_format<preserve>) bwd in ""
    %g = aten.call "ones_like.default"(%loss, none, none, #aten.device, false, #aten.memory_format<preserve>) bwd in "" : (tensor<f32>) -> tensor<f32>
    %e = aten.call "expand.default"(%g, [4, 8], false) bwd in "l" : (tensor<f32>) -> tensor<4x8xf32, #aten.strides<[0, 0]>>
    // CHECK: aten.call "_to_copy.default"(%{{.+}}, f32, #aten.strided, #aten.device, none, false, none) bwd in "l"
    %c = aten.call "_to_copy.default"(%e, f32, #aten.strided, #aten.device, none, false, none) bwd in "l" : (tensor<4x8xf32, #aten.strides<[0, 0]>>) -> tensor<4x8xf32>
    // CHECK: aten.call "cat.default"([%{{.+}}, %{{.+}}], 0) bwd in "l"
    %cat = aten.call "cat.default"([%c, %c], 0) bwd in "l" : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    // CHECK: %[[R:.+]] = fsdp.reduce_scatter.start @l(%{{.+}}) over ["shard"] avg bwd on reduce : tensor<4x8xf32>
    %r = fsdp.reduce_scatter.start @l(%c) over ["shard"] avg bwd on reduce : tensor<4x8xf32>
    // CHECK: fsdp.reduce_scatter.wait %[[R]] : {{.*}}<@l, f32>
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@l, f32>
    // CHECK: %[[A:.+]] = fsdp.all_reduce.start %[[R]] over ["replicate"] avg bwd on replicate : !fsdp.handle
    %a = fsdp.all_reduce.start %r over ["replicate"] avg bwd on replicate : !fsdp.handle
    // CHECK: %[[H:.+]] = fsdp.fetch_state.start @l
    %h = fsdp.fetch_state.start @l
    // CHECK: %[[F:.+]] = fsdp.all_reduce.wait %[[A]] : !fsdp.shard<@l, f32>
    %f = fsdp.all_reduce.wait %a : !fsdp.shard<@l, f32>
    // CHECK: %[[PART:.+]] = fsdp.partial_norm 2(%[[F]]) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    %part = fsdp.partial_norm 2(%f) : (!fsdp.shard<@l, f32>) -> tensor<f64>
    // CHECK: %[[N:.+]] = fsdp.all_reduce.start %[[PART]] over ["shard"] sum bwd on reduce : tensor<f64>
    %n = fsdp.all_reduce.start %part over ["shard"] sum bwd on reduce : tensor<f64>
    // CHECK: %[[TOTAL:.+]] = fsdp.all_reduce.wait %[[N]] : tensor<f64>
    %total = fsdp.all_reduce.wait %n : tensor<f64>
    // CHECK: %[[CLIP:.+]] = fsdp.clip_factor %[[TOTAL]] : tensor<f64>
    %clip = fsdp.clip_factor %total : tensor<f64>
    // CHECK: %[[STATE:.+]] = fsdp.fetch_state.wait %[[H]] : {{.*}}<@l>
    %state = fsdp.fetch_state.wait %h : !fsdp.state<@l>
    // CHECK: fsdp.update @l with %[[F]] step %step lr %lr clip %[[CLIP]] state %[[STATE]] : !fsdp.shard<@l, f32>, !fsdp.state<@l>
    fsdp.update @l with %f step %step lr %lr clip %clip state %state : !fsdp.shard<@l, f32>, !fsdp.state<@l>
    // CHECK: %[[STORE:.+]] = fsdp.store_state.start %[[STATE]] : {{.*}}<@l>
    %store = fsdp.store_state.start %state : !fsdp.state<@l>
    // CHECK: fsdp.store_state.wait %[[STORE]]
    fsdp.store_state.wait %store
    fsdp.write @count, %count : tensor<f32>
    return %loss : tensor<f32>
  }
}
