//===- OptimizerValues.cpp - Optimizer options of each parameter ----------===//

#include "fsdp/Analysis/OptimizerValues.h"

#include "fsdp/IR/OptimizerOptions.h"

using namespace mlir;
using namespace fsdp;

static void take(std::optional<APFloat> value, double &target) {
  if (value)
    target = value->convertToDouble();
}

static void takeBetas(std::optional<ArrayRef<double>> betas, OptimizerValues &values) {
  if (betas) {
    values.beta1 = (*betas)[0];
    values.beta2 = (*betas)[1];
  }
}

static OptimizerValues getValuesOf(OptimizerOp optimizer) {
  OptimizerValues values{.kind = optimizer.getKind(),
                         .nesterov = optimizer.getNesterov(),
                         .amsgrad = optimizer.getAmsgrad(),
                         .maximize = optimizer.getMaximize()};
  take(optimizer.getLr(), values.lr);
  take(optimizer.getWeightDecay(), values.weightDecay);
  take(optimizer.getMomentum(), values.momentum);
  take(optimizer.getDampening(), values.dampening);
  take(optimizer.getEps(), values.eps);
  takeBetas(optimizer.getBetas(), values);
  return values;
}

FailureOr<OptimizerTable> OptimizerTable::build(ModuleOp module) {
  auto optimizers = module.getOps<OptimizerOp>();
  if (!llvm::hasSingleElement(optimizers))
    return module.emitError("has ")
           << std::distance(optimizers.begin(), optimizers.end()) << " optimizers, expected one";
  OptimizerOp optimizer = *optimizers.begin();
  OptimizerTable table;
  table.values.push_back(getValuesOf(optimizer));
  DenseMap<StringAttr, OptimizerGroupOp> groupOf;
  for (auto group : module.getOps<OptimizerGroupOp>()) {
    if (std::optional<StringRef> name =
            findForeignOption(optimizer.getKind(), {{"betas", group.getBetas().has_value()},
                                                    {"eps", group.getEps().has_value()}})) {
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
    OptimizerValues values = table.values.front();
    take(group.getLr(), values.lr);
    take(group.getWeightDecay(), values.weightDecay);
    take(group.getEps(), values.eps);
    takeBetas(group.getBetas(), values);
    values.hasOwnLr = group.getLr().has_value();
    table.values.push_back(values);
  }
  return table;
}
