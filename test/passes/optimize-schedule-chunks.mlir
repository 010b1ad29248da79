// RUN: fsdp-opt %s --fsdp-optimize-schedule="device=h100 network=%S/../Inputs/two-per-host.json memory-cap=295000" --fsdp-verify-scheduled -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fsdp-explain %t.mlir --device h100 --network %S/../Inputs/two-per-host.json | FileCheck %s --check-prefix=EXPLAIN
// RUN: fsdp-explain %t.mlir --log-decisions - | FileCheck %s --check-prefix=LOG
// RUN: fsdp-opt %t.mlir --fsdp-plan-memory --fsdp-verify-planned | fsdp-compile - --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-opt %s --fsdp-optimize-schedule="device=h100 network=%S/../Inputs/two-per-host.json memory-cap=295000" --remarks-filter=fsdp-optimize-schedule --remark-policy=all -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fsdp-opt %t.mlir --fsdp-report="file=%t.json device=h100 network=%S/../Inputs/two-per-host.json" -o /dev/null
// RUN: FileCheck %s --input-file=%t.json --check-prefix=REPORT
// RUN: fsdp-opt %s --fsdp-optimize-schedule="device=h100 memory-cap=295000" | FileCheck %s --check-prefix=ONE-HOST

// Under a cap that leaves no room for a copy of @a from forward to backward, but for a half of it, the two
// ranks of a host keep it together: the backward's gather stays inside of the host. The group says so,
// and why. @b says what it wants.
// CHECK: fsdp.group @a {{.*}} reshard_after_forward auto to 2 decisions [#fsdp.decision<reshard_ranks, "among the ranks of a host a gather takes {{.*}}">]
// CHECK: fsdp.group @b {{.*}} reshard_after_forward true
// CHECK-NOT: to 2
// CHECK: %[[U:.+]] = fsdp.all_gather.start %{{.+}} over ["dp"] fwd on gather : !fsdp.shard<@a, f32>
// CHECK: %[[W:.+]] = fsdp.all_gather.wait %[[U]]
// CHECK: aten.call "mm.default"(%{{.+}}, %[[W]]) fwd in "a"
// CHECK: %[[K:.+]] = fsdp.chunk(%[[W]]) : (tensor<64x64xf32>) -> !fsdp.shard<@a, f32, 2>
// CHECK-NEXT: fsdp.reshard %[[U]] fwd
// CHECK: %[[V:.+]] = fsdp.all_gather.start %[[K]] over ["dp"] bwd on gather : !fsdp.shard<@a, f32, 2>
// CHECK: fsdp.all_gather.wait %[[V]]
// CHECK-NOT: fsdp.chunk

// EXPLAIN: reshard_ranks auto 2 among the ranks of a host a gather takes
// EXPLAIN: backward again 16.0 KiB {{.*}} gathered again from chunks of 2 neighbours, 8.00 KiB for {{.*}}, takes {{.*}} instead of {{.*}}

// LOG: group a: reshard_after_forward auto: the schedule decides, see the events below; of 2 neighbours each keeps a chunk

// PLAN: communicator chunk: 2 ranks on gather
// PLAN: fwd chunk @a of {{.*}}: 8192 bytes to [[#PLACE:]]
// PLAN: bwd all_gather.start @a on gather, {{.*}}: 8192 bytes per rank from [[#PLACE]] to {{[0-9]+}}, over 2 ranks

// REPORT: "group": "a",
// REPORT: "chunk_ranks": 2,
// REPORT-NEXT: "chunk_reason": "among the ranks of a host a gather takes
// REPORT-NEXT: "chunks": "device"

// REMARK: group @a keeps chunks over 2 ranks: among the ranks of a host a gather takes

// A host of 8 ranks holds the whole axis.
// ONE-HOST: fsdp.group @a {{.*}} reshard_after_forward auto
// ONE-HOST-NOT: fsdp.chunk
!m = tensor<64x64xf32>
!h = tensor<256x64xf32>
!s = tensor<f32>
module attributes {fsdp.model = "chunks", fsdp.phase = #fsdp.module_phase<sharded>} {
  fsdp.param @a.w : !m
  fsdp.param @b.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 4>
  fsdp.group @a [@a.w] of ["a"] over @mesh "dp" flat reshard_after_forward auto
  fsdp.group @b [@b.w] of ["b"] over @mesh "dp" flat reshard_after_forward true
  func.func @step() -> !s {
    %sa = fsdp.shard @a : !fsdp.shard<@a, f32>
    %sb = fsdp.shard @b : !fsdp.shard<@b, f32>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : !h
    %u0 = fsdp.all_gather.start %sa over ["dp"] fwd on compute : !fsdp.shard<@a, f32>
    %w0 = fsdp.all_gather.wait %u0 : !m
    %y0 = aten.call "mm.default"(%x, %w0) fwd in "a" : (!h, !m) -> !h
    fsdp.reshard %u0 fwd
    %u1 = fsdp.all_gather.start %sb over ["dp"] fwd on compute : !fsdp.shard<@b, f32>
    %w1 = fsdp.all_gather.wait %u1 : !m
    %y1 = aten.call "mm.default"(%y0, %w1) fwd in "b" : (!h, !m) -> !h
    %q = aten.call "mul.Tensor"(%y1, %y1) fwd in "b" : (!h, !h) -> !h
    fsdp.reshard %u1 fwd
    %loss = aten.call "sum.default"(%q, none) fwd in "" : (!h) -> !s
    %v1 = fsdp.all_gather.start %sb over ["dp"] bwd on compute : !fsdp.shard<@b, f32>
    %z1 = fsdp.all_gather.wait %v1 : !m
    %dy1 = aten.call "mm.default"(%y0, %z1) bwd in "b" : (!h, !m) -> !h
    %g1 = aten.call "mm.default"(%z1, %z1) bwd in "b" : (!m, !m) -> !m
    fsdp.reshard %v1 bwd
    %r1 = fsdp.reduce_scatter.start @b(%g1) over ["dp"] avg bwd on compute : !m
    %d1 = fsdp.reduce_scatter.wait %r1 : !fsdp.shard<@b, f32>
    fsdp.update @b with %d1 step %step lr %lr : !fsdp.shard<@b, f32>
    %v0 = fsdp.all_gather.start %sa over ["dp"] bwd on compute : !fsdp.shard<@a, f32>
    %z0 = fsdp.all_gather.wait %v0 : !m
    %g0 = aten.call "mm.default"(%z0, %z0) bwd in "a" : (!m, !m) -> !m
    fsdp.reshard %v0 bwd
    %r0 = fsdp.reduce_scatter.start @a(%g0) over ["dp"] avg bwd on compute : !m
    %d0 = fsdp.reduce_scatter.wait %r0 : !fsdp.shard<@a, f32>
    fsdp.update @a with %d0 step %step lr %lr : !fsdp.shard<@a, f32>
    return %loss : !s
  }
}
