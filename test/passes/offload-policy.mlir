// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 offload-policy=cpu param-dtype=bfloat16" -o %t.two.mlir
// RUN: FileCheck %s --check-prefix=TWO < %t.two.mlir
// RUN: fsdp-compile %t.two.mlir --emit plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=1 offload-policy=cpu" | FileCheck %s --check-prefix=ONE
// RUN: echo '{"offload_policy": "cpu", "root": {"offload_policy": "none"}}' > %t.yaml
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=dp=2 config=%t.yaml" | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=dp=2 offload-policy=gpu" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: echo '{"root": {"offload_policy": "gpu"}}' > %t.word.yaml
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=dp=2 config=%t.word.yaml" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=dp=1 offload-policy=cpu schedule=auto" 2>&1 | FileCheck %s --check-prefix=SEARCH

// Parameters on the host, without states: the arena has no place for the shard and for its copy that is gathered. A gather
// stands as ever; the update fetches and stores.
// TWO: fsdp.host_arena_bytes = 192
// TWO: fsdp.group @root {{.*}} gather_dtype bf16 {{.*}}offload_policy cpu {{.*}}at host_shard 0 host_copy 128
// TWO: %[[S:.+]] = fsdp.shard @root : !fsdp.shard<@root, bf16>
// TWO: fsdp.all_gather.start %[[S]] over ["dp"] fwd on gather at
// TWO: %[[H:.+]] = fsdp.fetch_state.start @root at [{{[0-9]+}}, {{[0-9]+}}]
// TWO: %[[X:.+]] = fsdp.fetch_state.wait %[[H]]
// TWO: fsdp.update @root {{.*}} state %[[X]]
// TWO: %[[T:.+]] = fsdp.store_state.start %[[X]]
// TWO: fsdp.store_state.wait %[[T]]

// PLAN: group @root flat f32, 32 elements per rank at {{[0-9]+}}, on the host at 0, gathered as bf16 from 128

// On one rank the gather is the copy from the host.
// ONE: fsdp.group @root {{.*}} offload_policy cpu {{.*}}at host_shard 0
// ONE-NOT: fsdp.read @w
// ONE: fsdp.all_gather.start
// ONE: fsdp.pack @root

// A group's own word wins.
// NONE-NOT: offload_policy
// NONE: fsdp.group @root {{.*}} at shard
// NONE-NOT: fetch_state

// WORD: offload_policy is 'gpu', expected none or cpu
// SEARCH: error: parameters lie on the host, but on one rank there are no collectives to search an order of; expected schedule fsdp2
!m = tensor<4x8xf32>
!b = tensor<4x8xbf16>
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %w = fsdp.read @w : !m
    %c = aten.call "_to_copy.default"(%w, bf16, none, none, none, false, none) fwd in "" : (!m) -> !b
    %f = aten.call "_to_copy.default"(%c, f32, none, none, none, false, none) fwd in "" : (!b) -> !m
    %loss = aten.call "sum.default"(%f, none) fwd in "" : (!m) -> tensor<f32>
    %o = aten.call "ones_like.default"(%f, none, none, none, none, none) bwd in "" : (!m) -> !m
    %g = aten.call "_to_copy.default"(%o, bf16, none, none, none, false, none) bwd in "" : (!m) -> !b
    %d = aten.call "_to_copy.default"(%g, f32, none, none, none, false, none) bwd in "" : (!b) -> !m
    fsdp.grad @w, %d : !m
    fsdp.update @w step %step lr %lr
    return %loss : tensor<f32>
  }
}
