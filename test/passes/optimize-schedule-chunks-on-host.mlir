// RUN: fsdp-opt %s --fsdp-optimize-schedule="device=h100 network=%S/../Inputs/two-per-host.json memory-cap=543300000 offload-chunks=true" --fsdp-verify-scheduled -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fsdp-opt %t.mlir --fsdp-plan-memory --fsdp-verify-planned -o %t.planned.mlir
// RUN: fsdp-compile %t.planned.mlir --emit=plan | FileCheck %s --check-prefix=PLAN
// RUN: fsdp-explain %t.planned.mlir --device h100 --network %S/../Inputs/two-per-host.json | FileCheck %s --check-prefix=EXPLAIN
// RUN: fsdp-opt %s --fsdp-optimize-schedule="device=h100 network=%S/../Inputs/two-per-host.json memory-cap=543300000" -o %t.device.mlir
// RUN: FileCheck %s --input-file=%t.device.mlir --check-prefix=DEVICE
// RUN: not fsdp-diff %t.device.mlir %t.mlir --device h100 --network %S/../Inputs/two-per-host.json --html %t.html
// RUN: FileCheck %s --input-file=%t.html --check-prefix=DIFF
// RUN: sed -e '/fsdp.store.wait/d' -e 's/gather.start [^ ]* over .* : !fsdp.host.*/gather.start %k over ["dp"] bwd on gather : !fsdp.shard<@a, f32, 2>/' %t.mlir > %t.unstored.mlir
// RUN: not fsdp-opt %t.unstored.mlir --fsdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=UNSTORED
// RUN: sed 's/gather.start [^ ]* over .* : !fsdp.host.*/gather.start %%s over ["dp"] bwd on gather : !fsdp.shard<@a, f32>/' %t.mlir > %t.ungathered.mlir
// RUN: not fsdp-opt %t.ungathered.mlir --fsdp-verify-scheduled 2>&1 | FileCheck %s --check-prefix=UNGATHERED
// RUN: sed 's/host_arena_bytes = 2097152/host_arena_bytes = 1048576/' %t.planned.mlir | not fsdp-opt --fsdp-verify-planned 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// RUN: fsdp-opt %s --fsdp-optimize-schedule="device=h100 network=%S/../Inputs/one-per-host.json memory-cap=545000000 offload-chunks=true" --fsdp-verify-scheduled -o %t.alone.mlir
// RUN: FileCheck %s --input-file=%t.alone.mlir --check-prefix=ALONE
// RUN: fsdp-explain %t.alone.mlir --device h100 --network %S/../Inputs/one-per-host.json | FileCheck %s --check-prefix=ALONE-WHY
// RUN: fsdp-opt %t.alone.mlir --fsdp-report="file=%t.alone.json device=h100 network=%S/../Inputs/one-per-host.json" -o /dev/null
// RUN: FileCheck %s --input-file=%t.alone.json --check-prefix=ALONE-REPORT
// RUN: fsdp-explain %t.alone.mlir --log-decisions - | FileCheck %s --check-prefix=ALONE-LOG
// RUN: fsdp-opt %s --fsdp-optimize-schedule="device=h100 network=%S/../Inputs/one-per-host.json memory-cap=545000000" | FileCheck %s --check-prefix=DEVICE

// The cap leaves no room for a half of @a while the peak's operation runs. Before it @b is gathered, and
// the half goes to the host meanwhile. The backward's gather takes it from there.
// CHECK: fsdp.group @a {{.*}} reshard_after_forward auto to 2 decisions [#fsdp.decision<reshard_ranks, "among the ranks of a host a gather takes {{.*}} and waits on the host">]
// CHECK: %[[K:.+]] = fsdp.chunk(%{{.+}}) : (tensor<1024x1024xf32>) -> !fsdp.shard<@a, f32, 2>
// CHECK-NEXT: %[[T:.+]] = fsdp.store.start %[[K]] : !fsdp.shard<@a, f32, 2>
// CHECK-NEXT: fsdp.reshard %{{.+}} fwd
// CHECK-NEXT: fsdp.all_gather.wait
// CHECK-NEXT: aten.call "mm.default"({{.*}}) fwd in "b"
// CHECK-NEXT: %[[S:.+]] = fsdp.store.wait %[[T]] : !fsdp.host<!fsdp.shard<@a, f32, 2>>
// CHECK-NEXT: aten.call "mul.Tensor"({{.*}}) fwd in "b"
// CHECK: fsdp.all_gather.start %[[S]] over ["dp"] bwd on gather : !fsdp.host<!fsdp.shard<@a, f32, 2>>

// PLAN: host arena 2097152 bytes
// PLAN: fwd chunk @a of {{.*}}: 2097152 bytes to [[#PLACE:]]
// PLAN: fwd store.start of "a", {{.*}}: 2097152 bytes from [[#PLACE]] to the host's 0
// PLAN: bwd all_gather.start @a on gather, {{.*}}: 2097152 bytes per rank from 0 on the host to {{[0-9]+}}, over 2 ranks

// EXPLAIN: on the host  2.00 MiB, for whose copies computation waits 0 s
// EXPLAIN: a, chunk  2.00 MiB  by its gather
// EXPLAIN: backward  again {{.*}} gathered again from chunks of 2 neighbours on the host, 2.00 MiB for

// Without the option @a is gathered from all ranks.
// DEVICE-NOT: fsdp.chunk
// DIFF: 1 gather from chunks on the host

// A rank that is alone on its host keeps the whole group there, which on the device would be no chunk.
// ALONE: fsdp.group @a {{.*}} reshard_after_forward auto to 1 decisions [#fsdp.decision<reshard_ranks, "from the host, which has one rank, it takes {{.*}}, among all {{.*}}; a chunk has 4194304 bytes and waits on the host">]
// ALONE: fsdp.all_gather.start %{{.+}} over ["dp"] bwd on gather : !fsdp.host<!fsdp.shard<@a, f32, 1>>
// ALONE-WHY: gathered again from the host, 4.00 MiB for
// ALONE-REPORT: "chunks": "host"
// ALONE-LOG: group a: reshard_after_forward auto: the schedule decides, see the events below; the host keeps a copy

// UNSTORED: S2: the copy of a chunk of group @a is never waited for
// UNGATHERED: S2: what the copy of a chunk of group @a brings to the host is never gathered
// OUTSIDE: P5: the copy of a chunk of a at bytes [0, 2097152) of the host's arena of 1048576 bytes
!m = tensor<1024x1024xf32>
!h = tensor<32768x1024xf32>
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
