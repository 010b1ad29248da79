// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

func.func @operation(%x: tensor<4xf32>) {
  // expected-error @below {{'fsdpc::all_reduce.default' takes "sum", "avg" or, if it is an all_reduce, "max"}}
  %y = aten.call "fsdpc::all_reduce.default"(%x, "min") fwd in "" : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @maximum(%x: tensor<2x4xf32>) {
  // expected-error @below {{'fsdpc::reduce_scatter.default' takes "sum", "avg" or}}
  %y = aten.call "fsdpc::reduce_scatter.default"(%x, "max") fwd in "" : (tensor<2x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @gathered(%x: tensor<4xf32>) {
  // expected-error @below {{'fsdpc::all_gather.default' yields 'tensor<8xf32>', expected 'tensor<2x4xf32>'}}
  %y = aten.call "fsdpc::all_gather.default"(%x, 2) fwd in "" : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @ranks(%x: tensor<4xf32>) {
  // expected-error @below {{'fsdpc::all_gather.default' takes a number of ranks, at least 1}}
  %y = aten.call "fsdpc::all_gather.default"(%x, "sum") fwd in "" : (tensor<4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @dtype(%x: tensor<4xf32>) {
  // expected-error @below {{'fsdpc::all_reduce.default' yields 'tensor<4xf64>', expected 'tensor<4xf32>'}}
  %y = aten.call "fsdpc::all_reduce.default"(%x, "sum") fwd in "" : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @number(%x: tensor<f32>) {
  // expected-error @below {{'fsdpc::own_part.default' takes a tensor with a row for each rank, not a single number}}
  %y = aten.call "fsdpc::own_part.default"(%x) fwd in "" : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @arguments(%x: tensor<4xf32>) {
  // expected-error @below {{'fsdpc::all_reduce.default' takes one tensor, 2 arguments in all, and yields a tensor}}
  %y = aten.call "fsdpc::all_reduce.default"(%x) fwd in "" : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @strides(%x: tensor<4x2xf32, #aten.strides<[1, 4]>>) {
  // expected-error @below {{'fsdpc::all_reduce.default' takes and yields contiguous tensors}}
  %y = aten.call "fsdpc::all_reduce.default"(%x, "sum") fwd in "" : (tensor<4x2xf32, #aten.strides<[1, 4]>>) -> tensor<4x2xf32>
  return
}

// -----

// expected-error @below {{attribute 'fsdp.ranks' must be an i64 of at least 1 on the module}}
module attributes {fsdp.ranks = 0 : i64} {}
