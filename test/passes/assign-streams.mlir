// RUN: fsdp-opt %s --fsdp-assign-streams --fsdp-verify-scheduled | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: sed 's/fsdp.phase/fsdp.target = #fsdp.target<cuda>, fsdp.phase/' %s | fsdp-opt --fsdp-assign-streams --fsdp-verify-scheduled | FileCheck %s --check-prefixes=CHECK,CUDA

// Gathers go to the gather stream, reductions to the reduce stream; on GPUs both go to the gather stream.
// CHECK: %[[S:.+]] = fsdp.shard @l :
// CHECK: fsdp.all_gather.start %[[S]] over ["dp"] fwd on gather
// CPU: fsdp.reduce_scatter.start @l({{.*}}) over ["dp"] avg bwd on reduce
// CUDA: fsdp.reduce_scatter.start @l({{.*}}) over ["dp"] avg bwd on gather
// EXAMPLE: fsdp-assign-streams
!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @l.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @l [@l.w] of ["l"] over @mesh "dp" flat reshard_after_forward false
  func.func @step() -> !s {
    %s = fsdp.shard @l : !fsdp.shard<@l, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %u0 = fsdp.all_gather.start %s over ["dp"] fwd on compute : !fsdp.shard<@l, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %loss = aten.call "sum.default"(%w0, none) fwd in "l" : (!m) -> !s
    %g0 = aten.call "mul.Tensor"(%w0, %loss) bwd in "l" : (!m, !s) -> !m
    fsdp.reshard %u0 bwd
    %r0 = fsdp.reduce_scatter.start @l(%g0) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@l, f32>
    fsdp.update @l with %d0 step %step lr %lr : !fsdp.shard<@l, f32>
    return %loss : !s
  }
}
