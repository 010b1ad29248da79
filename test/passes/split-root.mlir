// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 split-root=true" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2" | FileCheck %s --check-prefix=WHOLE
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=1 split-root=true" | FileCheck %s --check-prefix=WHOLE
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 schedule=asap device=h100 up-to=sharded" | FileCheck %s --check-prefix=SEARCHED
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 up-to=sharded" | FileCheck %s --check-prefix=WHOLE
// RUN: echo '{split_root: false}' > %t.yaml
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 schedule=asap device=h100 up-to=sharded config=%t.yaml" | FileCheck %s --check-prefix=WHOLE
// RUN: not fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 split-root=maybe" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: fsdp-opt %s --fsdp-group-parameters="mesh=dp=2 split-root=true" --fsdp-recompute="policy=full" | FileCheck %s --check-prefix=BLOCKS

// What the root holds before and behind the blocks are groups of their own, of the modules that hold it: of `head` the
// weight, of `tail` what is below it. A parameter of the root module, one that two modules share, and one that is used
// outside of its module stay.
// CHECK-DAG: fsdp.group @layers.0 [@layers.0.w] of ["layers.0"] over
// CHECK-DAG: fsdp.group @layers.1 [@layers.1.w] of ["layers.1"] over
// CHECK: fsdp.group @tok [@tok.w] of ["tok"] part_of "" over @mesh "dp" flat reshard_after_forward false
// CHECK: fsdp.group @"tail, head" [@tail.norm.w, @tail.bias, @head.w] of ["tail", "head"] part_of "" over
// CHECK: fsdp.group @root [@scale, @both.w, @outside.w] of [""] over

// WHOLE-NOT: part_of
// WHOLE: fsdp.group @root [@scale, @tok.w, @both.w, @tail.norm.w, @tail.bias, @head.w, @outside.w] of [""]

// Where schedules are searched for that is the default, and each part is kept or gathered again by itself.
// SEARCHED: fsdp.group @tok {{.*}} part_of "" over @mesh "dp" flat reshard_after_forward auto
// SEARCHED: fsdp.group @"tail, head" {{.*}} part_of "" over @mesh "dp" flat reshard_after_forward auto

// WORD: split_root is 'maybe', expected true or false

// A part of the root is no block that is computed again.
// BLOCKS: fsdp.group @layers.0 {{.*}} recomputed full
// BLOCKS: fsdp.group @tok {{.*}} recomputed cheap

!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.model = "split", fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @scale : !m frozen
  fsdp.param @tok.w : !m frozen
  fsdp.param @both.w : !m aliases ["other.w"] frozen
  fsdp.param @layers.0.w : !m
  fsdp.param @layers.1.w : !m frozen
  fsdp.param @tail.norm.w : !m frozen
  fsdp.param @tail.bias : !m frozen
  fsdp.param @head.w : !m frozen
  fsdp.param @outside.w : !m frozen
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> !s {
    %x = fsdp.input "x" : !m
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %scale = fsdp.read @scale : !m
    %tok = fsdp.read @tok.w : !m
    %both = fsdp.read @both.w : !m
    %w0 = fsdp.read @layers.0.w : !m
    %w1 = fsdp.read @layers.1.w : !m
    %norm = fsdp.read @tail.norm.w : !m
    %bias = fsdp.read @tail.bias : !m
    %head = fsdp.read @head.w : !m
    %outside = fsdp.read @outside.w : !m
    %h = aten.call "mul.Tensor"(%x, %scale) fwd in "" : (!m, !m) -> !m
    %h0 = aten.call "mul.Tensor"(%h, %tok) fwd in "tok" : (!m, !m) -> !m
    %h1 = aten.call "mul.Tensor"(%h0, %w0) fwd in "layers.0" : (!m, !m) -> !m
    %h2 = aten.call "mul.Tensor"(%h1, %w1) fwd in "layers.1" : (!m, !m) -> !m
    %h3 = aten.call "mul.Tensor"(%h2, %norm) fwd in "tail.norm" : (!m, !m) -> !m
    %h4 = aten.call "mul.Tensor"(%h3, %bias) fwd in "tail" : (!m, !m) -> !m
    %h5 = aten.call "mul.Tensor"(%h4, %head) fwd in "head" : (!m, !m) -> !m
    %h6 = aten.call "mul.Tensor"(%h5, %outside) fwd in "" : (!m, !m) -> !m
    %h7 = aten.call "mul.Tensor"(%h6, %both) fwd in "both" : (!m, !m) -> !m
    %h8 = aten.call "mul.Tensor"(%h7, %both) fwd in "other" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%h8, none) fwd in "" : (!m) -> !s
    %g = aten.call "mul.Tensor"(%h1, %h8) bwd in "layers.0" : (!m, !m) -> !m
    fsdp.grad @layers.0.w, %g : !m
    fsdp.update @layers.0.w step %step lr %lr
    return %loss : !s
  }
}
