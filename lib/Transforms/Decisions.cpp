//===- Decisions.cpp - Decisions of passes about groups -------------------===//

#include "fsdp/Transforms/Decisions.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace fsdp;

void fsdp::recordDecision(GroupOp group, const Decision &decision, StringRef pass) {
  group.setReason(decision.subject, decision.reason);
  auto options = remark::RemarkOpts::name(stringifySubject(decision.subject)).category(pass);
  auto emitted = decision.isMissed ? remark::missed(group.getLoc(), options)
                                   : remark::passed(group.getLoc(), options);
  emitted << remark::add("group @{0} {1}: {2}", group.getSymName().str(), decision.what,
                         decision.reason);
}
