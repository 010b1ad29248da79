//===- PrefetchLists.cpp - Groups that are gathered ahead -----------------===//

#include "fsdp/Transforms/PrefetchLists.h"

#include "fsdp/Analysis/GroupHooks.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fsdp;

namespace {

class Lists {
public:
  Lists(Step &step, ArrayRef<ParamGroup> asked) : step(step), asked(asked) {}
  llvm::Error run();

private:
  LogicalResult orderCalls();
  llvm::Expected<ArrayAttr> resolve(unsigned group, const PrefetchTargets &targets, bool isForward);
  void addCall(unsigned group, SmallVectorImpl<Attribute> &list);

  Step &step;
  ArrayRef<ParamGroup> asked;
  /// Groups in the order in which their forwards begin: one for each call of fully_shard.
  SmallVector<unsigned> calls;
};

} // namespace

LogicalResult Lists::orderCalls() {
  FailureOr<SmallVector<Hook>> hooks = findHooks(step);
  if (failed(hooks))
    return failure();
  llvm::SmallSetVector<unsigned, 32> seen;
  for (const Hook &hook : *hooks)
    if (hook.kind == HookKind::PreForward && !step.groups[hook.group].isRoot() &&
        !asked[hook.group].isFrozenPart)
      seen.insert(hook.group);
  calls = seen.takeVector();
  return success();
}

/// In the flat layout the frozen parameters of a call are a group of their own.
void Lists::addCall(unsigned group, SmallVectorImpl<Attribute> &list) {
  for (auto [index, other] : llvm::enumerate(asked))
    if (other.modules == asked[group].modules)
      list.push_back(FlatSymbolRefAttr::get(step.groups[index].getSymNameAttr()));
}

llvm::Expected<ArrayAttr> Lists::resolve(unsigned group, const PrefetchTargets &targets,
                                         bool isForward) {
  StringRef key = isForward ? "forward_prefetch" : "backward_prefetch";
  std::string name = step.groups[group].getModuleName();
  SmallVector<Attribute> list;
  if (int64_t depth = targets.depth.groups) {
    SmallVector<unsigned> order(calls);
    if (!isForward)
      std::reverse(order.begin(), order.end());
    // The root's forward and backward begin before all others.
    auto *own = llvm::find(order, group);
    auto *next = own == order.end() ? order.begin() : own + 1;
    for (; next != order.end() && depth > 0; ++next, --depth)
      addCall(*next, list);
    return ArrayAttr::get(step.module.getContext(), list);
  }
  for (const std::string &module : targets.modules) {
    const ParamGroup *served = llvm::find_if(asked, [&](const ParamGroup &other) {
      return !other.isFrozenPart && llvm::is_contained(other.modules, module);
    });
    if (served == asked.end())
      return llvm::createStringError(key + " of group '" + name + "' names module '" + module +
                                     "', which is none of a group's");
    unsigned target = served - asked.begin();
    if (target == group)
      return llvm::createStringError(key + " of group '" + name + "' names its own module '" +
                                     module + "'");
    addCall(target, list);
  }
  return ArrayAttr::get(step.module.getContext(), list);
}

llvm::Error Lists::run() {
  if (llvm::none_of(asked, [](const ParamGroup &group) {
        return group.options.forwardPrefetch || group.options.backwardPrefetch;
      }))
    return llvm::Error::success();
  if (failed(orderCalls()))
    return llvm::createStringError("the order of the groups' forwards is not known");
  for (auto [index, group] : llvm::enumerate(asked)) {
    if (group.isFrozenPart)
      continue;
    const GroupOptions &options = group.options;
    if (options.forwardPrefetch) {
      auto list = resolve(index, *options.forwardPrefetch, /*isForward=*/true);
      if (!list)
        return list.takeError();
      if (!list->empty())
        step.groups[index].setForwardPrefetchAttr(*list);
    }
    if (options.backwardPrefetch) {
      auto list = resolve(index, *options.backwardPrefetch, /*isForward=*/false);
      if (!list)
        return list.takeError();
      if (!list->empty())
        step.groups[index].setBackwardPrefetchAttr(*list);
    }
  }
  return llvm::Error::success();
}

llvm::Error fsdp::setPrefetchLists(Step &step, ArrayRef<ParamGroup> asked) {
  return Lists(step, asked).run();
}
