//===- Decisions.h - Decisions of passes about groups -----------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_DECISIONS_H
#define FSDP_TRANSFORMS_DECISIONS_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp {

/// A pass's decision about a group that differs from the user's request or fills a gap in it.
struct Decision {
  Subject subject;
  std::string what;      // the result: "is gathered as bf16"
  std::string reason;    // "all uses of its parameters are casts to bf16"
  bool isMissed = false; // a better choice was not possible
};

/// Records the reason on the group, and emits the decision as a remark of the pass:
/// `group @l is gathered as bf16: all uses ...`.
void recordDecision(GroupOp group, const Decision &decision, llvm::StringRef pass);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_DECISIONS_H
