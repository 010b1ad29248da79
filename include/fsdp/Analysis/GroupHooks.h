//===- GroupHooks.h - Where FSDP2's hooks of each group would run -*- C++ -*-===//
//
// FSDP2 acts when the modules of a group (one fully_shard call) begin and end their forward and
// backward. A captured step has no modules, but each operation has the path of the module that
// issued it; from these paths follow the places where the hooks would have run:
//
//   pre-forward    before the first operation of a call of the modules
//   post-forward   after the last one
//   pre-backward   before the first operation of their backward: a gradient of the output is there
//   post-backward  after the last one: the gradients of the inputs are there. If no input needs a
//                  gradient: at the end of the microbatch, root first, then in the model's order.
//                  Of a stage: at the end of the backward of this stage.
//
// Each call of a module has its own (the scope of an operation says which call it belongs to), and
// each microbatch of a step that accumulates gradients, also where microbatches are interleaved. A
// group of which nothing runs has none.
// A group of several modules begins with the first of them that runs and ends when all have run; if
// some are called again and others are not, that call has no end, and no pre-backward.
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
  /// The hook runs before this call, and after everything that precedes it; null: at the end.
  aten::CallOp before;
  /// The number of calls that precede it.
  unsigned position;
  int64_t microbatch = 0;
  int64_t unit = 0; // of Stages.h; without stages the microbatch
  /// PostBackward: the last one of its group in the microbatch, when all gradients are there.
  bool isLast = false;
};

/// The hooks of all groups in the order in which they run. Linear in the number of operations.
/// Diagnoses a group with parameters none of whose modules has an operation.
mlir::FailureOr<llvm::SmallVector<Hook>> findHooks(Step &step);

} // namespace fsdp

#endif // FSDP_ANALYSIS_GROUPHOOKS_H
