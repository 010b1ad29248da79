//===- RecomputeRegions.cpp - Activation checkpointing by module ----------===//

#include "fsdp/Transforms/RecomputeRegions.h"

#include "fsdp/Config/ModulePattern.h"
#include "fsdp/Config/ModuleTree.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

llvm::Error fsdp::declareRecomputeRegions(Step &step, const ShardingConfig &config) {
  ModuleTree tree;
  for (auto call : step.getBody().getOps<aten::CallOp>())
    tree.add(call.getModule());
  OpBuilder builder(step.function);
  llvm::StringMap<std::string> patternOf; // by module
  for (const RecomputeRule &rule : config.checkpointing) {
    auto fail = [&](const Twine &message) {
      return llvm::make_error<ConfigError>(config.file, rule.place, message.str());
    };
    ArrayAttr keep;
    if (rule.keep)
      keep = builder.getStrArrayAttr(llvm::to_vector_of<StringRef>(*rule.keep));
    for (const std::string &text : rule.modules) {
      llvm::Expected<ModulePattern> pattern = ModulePattern::create(text);
      if (!pattern)
        return fail(llvm::toString(pattern.takeError()));
      bool hasNew = false;
      StringRef takenBy;
      for (const Module &module : tree.getModules()) {
        if (module.isRoot() || !pattern->match(module.path))
          continue;
        auto [it, isNew] = patternOf.try_emplace(module.path, text);
        hasNew |= isNew;
        if (!isNew) {
          takenBy = it->second;
          continue;
        }
        RecomputeRegionOp::create(builder, step.module.getLoc(), module.path, rule.policy, keep);
      }
      if (!hasNew && takenBy.empty())
        return fail("pattern '" + text + "' matches no module that computes something");
      if (!hasNew)
        return fail("all modules of '" + text +
                    "' are given twice in activation_checkpointing: by '" + takenBy +
                    "', which counts, and by '" + text + "'");
    }
  }
  return llvm::Error::success();
}
