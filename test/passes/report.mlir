// RUN: fsdp-opt %s --fsdp-report=%t.json -o /dev/null
// RUN: FileCheck %s --input-file=%t.json
// RUN: fsdp-opt %s --fsdp-report -o /dev/null | FileCheck %s
// RUN: not fsdp-opt %s --fsdp-report=file=%t.absent/report.json 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: not fsdp-opt %s --fsdp-report=/dev/full 2>&1 | FileCheck %s --check-prefix=FULL
// RUN: fsdp-opt %s --fsdp-report="file=%t.json" | FileCheck %s --check-prefix=SAME

// What the step communicates, in program order; elements are those of a collective's input on one
// rank with the layout's padding: of 5 rows in the per-param layout each of two ranks holds 3.
//      CHECK: "model": "tiny"
// CHECK-NEXT: "phase": "scheduled"
// CHECK-NEXT: "mesh": {
// CHECK-NEXT:   "dp": 2
// CHECK-NEXT: }
// CHECK-NEXT: "groups": [
// CHECK-NEXT:   {
// CHECK-NEXT:     "group": "norm, head"
// CHECK-NEXT:     "parameters": 2
// CHECK-NEXT:     "elements": 24
// CHECK-NEXT:     "dtype": "bf16"
// CHECK-NEXT:     "recompute": "none"
// CHECK-NEXT:     "offload_policy": "none",
// CHECK-NEXT:     "optimizer_state": "device",
// CHECK-NEXT:     "activations": "device"
// CHECK-NEXT:   }
// CHECK-NEXT: ]
// CHECK-NEXT: "events": [
// CHECK-NEXT:   {
// CHECK-NEXT:     "event": "unshard"
// CHECK-NEXT:     "group": "norm, head"
// CHECK-NEXT:     "phase": "forward"
// CHECK-NEXT:   }
// CHECK-NEXT:   {
// CHECK-NEXT:     "event": "reshard"
// CHECK-NEXT:     "group": "norm, head"
// CHECK-NEXT:     "phase": "backward"
// CHECK-NEXT:   }
// CHECK-NEXT:   {
// CHECK-NEXT:     "event": "post_backward"
// CHECK-NEXT:     "group": "norm, head"
// CHECK-NEXT:     "phase": "backward"
// CHECK-NEXT:   }
// CHECK-NEXT: ]
// CHECK-NEXT: "collectives": [
// CHECK-NEXT:   {
// CHECK-NEXT:     "kind": "all_gather"
// CHECK-NEXT:     "group": "norm, head"
// CHECK-NEXT:     "phase": "forward"
// CHECK-NEXT:     "dtype": "bf16"
// CHECK-NEXT:     "elements": 14
// CHECK-NEXT:     "axis": "dp"
// CHECK-NEXT:   }
// CHECK-NEXT:   {
// CHECK-NEXT:     "kind": "reduce_scatter"
// CHECK-NEXT:     "group": "norm, head"
// CHECK-NEXT:     "phase": "backward"
// CHECK-NEXT:     "dtype": "bf16"
// CHECK-NEXT:     "elements": 28
// CHECK-NEXT:     "axis": "dp"
// CHECK-NEXT:   }
// CHECK-NEXT: ]
// CHECK-NEXT: "counts": {
// CHECK-NEXT:   "all_gather": {
// CHECK-NEXT:     "forward": 1
// CHECK-NEXT:     "backward": 0
// CHECK-NEXT:   }
// CHECK-NEXT:   "reduce_scatter": {
// CHECK-NEXT:     "forward": 0
// CHECK-NEXT:     "backward": 1
// CHECK-NEXT:   }
// CHECK-NEXT:   "all_reduce": {
// CHECK-NEXT:     "forward": 0
// CHECK-NEXT:     "backward": 0
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-NEXT: "bytes": {
// CHECK-NEXT:   "all_gather": {
// CHECK-NEXT:     "forward": 28
// CHECK-NEXT:     "backward": 0
// CHECK-NEXT:   }
// CHECK-NEXT:   "reduce_scatter": {
// CHECK-NEXT:     "forward": 0
// CHECK-NEXT:     "backward": 56
// CHECK-NEXT:   }

// A file that cannot be written is an error.
// ERROR: error: the report: cannot write '

// So is one that has no room.
// FULL: error: the report: cannot write '/dev/full': No space left on device
// FULL-NOT: LLVM ERROR

// The module stays as it is.
// SAME: module attributes {fsdp.model = "tiny", fsdp.phase = #fsdp.module_phase<scheduled>}
!n = tensor<4xbf16>
!m = tensor<5x4xbf16>
!s = tensor<bf16>
module attributes {fsdp.model = "tiny", fsdp.phase = #fsdp.module_phase<scheduled>} {
  fsdp.param @norm.w : !n
  fsdp.param @head.w : !m
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.0
  fsdp.mesh @mesh <dp = 2>
  fsdp.group @"norm, head" [@norm.w, @head.w] of ["norm", "head"] over @mesh "dp" per_param reshard_after_forward false
  func.func @step() -> !s {
    %s = fsdp.shard @"norm, head" : !fsdp.shard<@"norm, head", bf16>
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %u = fsdp.all_gather.start %s over ["dp"] fwd on gather : !fsdp.shard<@"norm, head", bf16>
    %w:2 = fsdp.all_gather.wait %u : !n, !m
    %loss = aten.call "sum.default"(%w#1, none) fwd in "head" : (!m) -> !s
    fsdp.reshard %u bwd
    %r = fsdp.reduce_scatter.start @"norm, head"(%w#0, %w#1) over ["dp"] avg bwd on reduce : !n, !m
    %d = fsdp.reduce_scatter.wait %r : !fsdp.shard<@"norm, head", bf16>
    fsdp.update @"norm, head" with %d step %step lr %lr : !fsdp.shard<@"norm, head", bf16>
    return %loss : !s
  }
}
