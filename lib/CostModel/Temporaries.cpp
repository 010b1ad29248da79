//===- Temporaries.cpp - Memory inside operators --------------------------===//

#include "fsdp/CostModel/Temporaries.h"

#include <algorithm>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::cost;

Temporaries fsdp::cost::findTemporaries(ModuleOp module, const CostModel &costs) {
  Temporaries result;
  module.walk([&](aten::CallOp call) {
    if (call.isView() || isa<KernelOp>(call->getParentOp()))
      return;
    OperationCost cost = costs.getCost(call);
    ++result.numCalls;
    if (cost.origin != Origin::Measured)
      return;
    ++result.numMeasured;
    result.scratchBytes = std::max(result.scratchBytes, cost.temporaryBytes);
  });
  return result;
}

std::string Temporaries::describe() const {
  std::string calls = std::to_string(numCalls) + " calls";
  if (numMeasured == 0)
    return "unknown, counted as 0 bytes: none of " + calls + " is measured";
  std::string text = std::to_string(scratchBytes) + " bytes beside the arena, measured";
  if (!areKnown())
    text += " for " + std::to_string(numMeasured) + " of " + calls;
  return text;
}
