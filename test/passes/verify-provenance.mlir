// fsdp-insert-collectives notes a digest of what is computed, which no pass behind it changes, and the
// verifiers of later phases compare.
// RUN: fsdp-opt %s --fsdp-pipeline="fusion=off up-to=scheduled" -o %t.mlir
// RUN: grep -o 'provenance = "[0-9a-f]*"' %t.mlir > %t.digest
// RUN: FileCheck %s --input-file=%t.digest --check-prefix=DIGEST
// DIGEST: {{^}}provenance = "{{[0-9a-f]+"$}}

// It is that of the captured step, however this is sharded, scheduled and planned.
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 layout=per-param reshard-after-forward=true" | grep -o 'provenance = "[0-9a-f]*"' | cmp - %t.digest
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=replicate=2,shard=2 recompute=full" | grep -o 'provenance = "[0-9a-f]*"' | cmp - %t.digest
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 device=h100 schedule=auto budget=20 buckets offload-optimizer=all" | grep -o 'provenance = "[0-9a-f]*"' | cmp - %t.digest

// A module that says nothing is not compared.
// RUN: sed 's/relu.default/neg.default/; s/fsdp.provenance = "[0-9a-f]*", //' %t.mlir | fsdp-opt --fsdp-verify-scheduled

// It says it as a string.
// RUN: sed 's/fsdp.provenance = "[0-9a-f]*"/fsdp.provenance = 3/' %t.mlir | not fsdp-opt 2>&1 | FileCheck %s --check-prefix=STRING
// STRING: 'fsdp.provenance' {{.*}}a string

// S9: another operator is another step.
// RUN: sed 's/relu.default/neg.default/' %t.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s
// CHECK: error: S9: the step computes something else than what was captured
// CHECK-SAME: ('fsdp.provenance' is "{{[0-9a-f]+}}", the step's is "{{[0-9a-f]+}}")

// S9: fsdp-verify-sharded and fsdp-verify-planned say so, too.
// RUN: fsdp-opt %s --fsdp-pipeline="up-to=sharded" | sed 's/relu.default/neg.default/' | not fsdp-opt --fsdp-verify-sharded 2>&1 | FileCheck %s
// RUN: fsdp-opt %s --fsdp-pipeline | sed 's/relu.default/neg.default/' | not fsdp-opt --fsdp-verify-planned 2>&1 | FileCheck %s

// S9: so are another literal, other operands, another constant, another input and other random numbers.
// RUN: sed 's/5.000000e-01, 1)/2.500000e-01, 1)/' %t.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s
// RUN: sed 's/"sub.Tensor"(%%native_dropout#0, %%constant/"sub.Tensor"(%%constant, %%native_dropout#0/' %t.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s
// RUN: sed 's/dense<2.0/dense<3.0/' %t.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s
// RUN: sed 's/fsdp.input "x"/fsdp.input "y"/' %t.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s
// RUN: sed 's/rng 0/rng 1/' %t.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s

// S9: so are gradients of other parameters, another value of a buffer and another loss.
// RUN: sed 's/@root(%%mul_4, %%mul_5)/@root(%%mul_5, %%mul_4)/' %t.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s
// RUN: sed 's/write @b, %%add/write @b, %%b/' %t.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s
// RUN: sed 's/return %%sum /return %%sum_3 /' %t.mlir | not fsdp-opt --fsdp-verify-scheduled 2>&1 | FileCheck %s

// What is equal may stand for each other, and where a call comes from says nothing of what it computes.
// RUN: sed 's/return %%sum /return %%sum_2 /' %t.mlir | fsdp-opt --fsdp-verify-scheduled
// RUN: sed 's/bwd in "l"/bwd in "m"/' %t.mlir | fsdp-opt --fsdp-verify-scheduled

!m = tensor<4x4xf32>
!s = tensor<f32>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @l.v : !m
  fsdp.param @l.w : !m
  fsdp.buffer @b : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  func.func @step() -> !s {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !m
    %v = fsdp.read @l.v : !m
    %w = fsdp.read @l.w : !m
    %b = fsdp.read @b : !m
    %shift = aten.constant dense<2.0> : !m
    %relu = aten.call "relu.default"(%v) fwd in "l" : (!m) -> !m
    %noisy, %mask = aten.call "native_dropout.default"(%relu, 1.000000e-01, true) fwd in "l" rng 0 : (!m) -> (!m, tensor<4x4xi1>)
    %sub = aten.call "sub.Tensor"(%noisy, %shift, 1) fwd in "l" : (!m, !m) -> !m
    %mean = aten.call "add.Tensor"(%b, %sub, 1) fwd in "l" : (!m, !m) -> !m
    %add = aten.call "add.Scalar"(%x, 5.000000e-01, 1) fwd in "l" : (!m) -> !m
    %product = aten.call "mul.Tensor"(%add, %w) fwd in "l" : (!m, !m) -> !m
    %all = aten.call "add.Tensor"(%mean, %product, 1) fwd in "l" : (!m, !m) -> !m
    %loss = aten.call "sum.default"(%all, none) fwd in "" : (!m) -> !s
    %same = aten.call "sum.default"(%all, none) fwd in "l" : (!m) -> !s
    %other = aten.call "sum.default"(%mean, none) fwd in "" : (!m) -> !s
    %ga = aten.call "mul.Tensor"(%x, %mask) bwd in "l" : (!m, tensor<4x4xi1>) -> !m
    %gb = aten.call "mul.Tensor"(%add, %loss) bwd in "l" : (!m, !s) -> !m
    fsdp.grad @l.v, %ga : !m
    fsdp.grad @l.w, %gb : !m
    fsdp.write @b, %mean : !m
    fsdp.update @l.v step %step lr %lr
    fsdp.update @l.w step %step lr %lr
    return %loss : !s
  }
}
