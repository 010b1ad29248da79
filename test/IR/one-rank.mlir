// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | FileCheck %s

// On one rank a group's gradients are packed where others reduce them. Planning adds their place.
// CHECK-LABEL: func.func @step
fsdp.param @w : tensor<4xf32>
fsdp.param @b : tensor<2xf32>
fsdp.mesh @mesh <dp = 1>
fsdp.group @l [@w, @b] of ["l"] over @mesh "dp" flat reshard_after_forward true
func.func @step(%gw: tensor<4xf32>, %gb: tensor<2xf32>, %step: i64, %lr: f64) {
  // CHECK: %[[D:.+]] = fsdp.pack @l(%{{.+}}, %{{.+}}) at 64 : (tensor<4xf32>, tensor<2xf32>) -> !fsdp.shard<@l, f32>
  %d = fsdp.pack @l(%gw, %gb) at 64 : (tensor<4xf32>, tensor<2xf32>) -> !fsdp.shard<@l, f32>
  // CHECK: fsdp.update @l with %[[D]] step %{{.+}} lr %{{.+}} : !fsdp.shard<@l, f32>
  fsdp.update @l with %d step %step lr %lr : !fsdp.shard<@l, f32>
  return
}
