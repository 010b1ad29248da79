// RUN: not fsdp-opt %s --fsdp-schedule=prefetch=far 2>&1 | FileCheck %s

// CHECK: error: prefetch is 'far', expected fsdp2 or none
module attributes {fsdp.phase = #fsdp.module_phase<sharded>} {
  func.func @step() -> tensor<f32> {
    %loss = fsdp.input "x" : tensor<f32>
    return %loss : tensor<f32>
  }
}
