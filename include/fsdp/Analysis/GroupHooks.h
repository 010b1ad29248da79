//===- GroupHooks.h - Positions of FSDP2's hooks ----------------*- C++ -*-===//
//
// FSDP2 acts when the modules of a group (one fully_shard call) begin and end their forward and
// backward. A captured step has no modules, but each operation has the path of the module that
// issued it. These paths tell where the hooks would have run:
//
//   pre-forward    before the first operation of a call of the modules
//   post-forward   after the last operation of the call
//   pre-backward   before the first operation of their backward: a gradient of the output is ready
//   post-backward  after the last operation of their backward: the gradients of the inputs are
//                  ready. If no input needs a gradient: at the end of the microbatch, root first,
//                  then in the model's order. With stages: at the end of the stage's backward.
//
// Each call of a module has its own hooks (the scope of an operation tells its call), and so has
// each microbatch of a step that accumulates gradients, interleaved or not. A group none of whose
// modules runs has no hooks.
// A group of several modules begins with the first of them that runs and ends when all have run. If
// only some are called again, the second call has no post-forward and no pre-backward.
// Source: torch 2.11, torch/distributed/fsdp/_fully_shard/{_fsdp_state,_fsdp_param_group}.py.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_GROUPHOOKS_H
#define FSDP_ANALYSIS_GROUPHOOKS_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

enum class HookKind { PreForward, PostForward, PreBackward, PostBackward };

struct Hook {
  HookKind kind;
  unsigned group; // index in Step::groups
  /// The hook runs before this call and after everything that precedes it; null: at the end.
  aten::CallOp before;
  /// The number of calls before the hook.
  unsigned position;
  int64_t microbatch = 0;
  int64_t unit = 0; // as in Stages.h; without stages the microbatch
  /// PostBackward: the group's last one in the microbatch; all its gradients are ready.
  bool isLast = false;
};

/// The hooks of all groups in the order in which they run. Linear in the number of operations.
/// Diagnoses a group that has parameters but no operation in any of its modules.
mlir::FailureOr<llvm::SmallVector<Hook>> findHooks(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_GROUPHOOKS_H
