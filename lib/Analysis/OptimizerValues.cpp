//===- OptimizerValues.cpp - Optimizer options of each parameter ----------===//

#include "fsdp/Analysis/OptimizerValues.h"

#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/OptimizerOptions.h"

using namespace mlir;
using namespace fsdp;

static void take(const OptimizerOptions &options, fsdp_optimizer &values) {
  for (const auto &[name, numbers] : options)
    for (auto [index, number] : llvm::enumerate(numbers))
      plan::findOption(name)->setValue(values, number, index);
}

FailureOr<OptimizerTable> OptimizerTable::build(ModuleOp module) {
  auto optimizers = module.getOps<OptimizerOp>();
  if (!llvm::hasSingleElement(optimizers))
    return module.emitError("has ")
           << std::distance(optimizers.begin(), optimizers.end()) << " optimizers, expected one";
  OptimizerOp optimizer = *optimizers.begin();
  OptimizerTable table;
  fsdp_optimizer shared{};
  shared.kind = static_cast<uint32_t>(optimizer.getKind());
  take(readOptions(optimizer), shared);
  table.values.push_back(shared);
  DenseMap<StringAttr, OptimizerGroupOp> groupOf;
  for (auto group : module.getOps<OptimizerGroupOp>()) {
    OptimizerOptions own = readOptions(group);
    if (std::optional<StringRef> name = findForeignOption(optimizer.getKind(), own)) {
      InFlightDiagnostic diag = group.emitError("the group has ")
                                << *name << ", which "
                                << stringifyOptimizerKind(optimizer.getKind()) << " has not";
      diag.attachNote(optimizer.getLoc()) << "the optimizer is declared here";
      return diag;
    }
    for (auto param : group.getParams().getAsRange<FlatSymbolRefAttr>()) {
      auto [it, isNew] = groupOf.try_emplace(param.getAttr(), group);
      if (!isNew) {
        InFlightDiagnostic diag = group.emitError("parameter ")
                                  << param << " is already in another group of the optimizer";
        diag.attachNote(it->second.getLoc()) << "this one";
        return diag;
      }
      table.indexOf[param.getAttr()] = table.values.size();
    }
    fsdp_optimizer values = shared;
    take(own, values);
    if (group.getLr())
      values.options |= FSDP_OWN_LR;
    table.values.push_back(values);
  }
  return table;
}
