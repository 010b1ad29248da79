//===- Decisions.h - What a pass decides of a group, and why -----*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_DECISIONS_H
#define FSDP_TRANSFORMS_DECISIONS_H

#include "fsdp/IR/Fsdp.h"

namespace fsdp {

/// What a pass has decided of a group where the user did not ask for just that.
struct Decision {
  Subject subject;
  std::string what;      // of the group: "is gathered as bf16"
  std::string reason;    // "all uses of its parameters are casts to bf16"
  bool isMissed = false; // something better was not possible
};

/// Records the reason on the group, and remarks the decision for those who ask for remarks of the
/// pass: `group @l is gathered as bf16: all uses ...`.
void recordDecision(GroupOp group, const Decision &decision, llvm::StringRef pass);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_DECISIONS_H
