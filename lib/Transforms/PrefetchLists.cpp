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
  LogicalResult run();

private:
  LogicalResult orderCalls();
  FailureOr<ArrayAttr> resolve(unsigned group, const PrefetchTargets &targets, bool isForward);
  void addCall(unsigned group, SmallVectorImpl<Attribute> &list);

  Step &step;
  ArrayRef<ParamGroup> asked;
  /// Groups in the order in which their forwards begin, one for each call of fully_shard.
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
        !asked[hook.group].isSeparated())
      seen.insert(hook.group);
  calls = seen.takeVector();
  return success();
}

/// Adds all groups of a call: some parameters may form separate groups.
void Lists::addCall(unsigned group, SmallVectorImpl<Attribute> &list) {
  for (auto [index, other] : llvm::enumerate(asked))
    if (other.modules == asked[group].modules)
      list.push_back(FlatSymbolRefAttr::get(step.groups[index].getSymNameAttr()));
}

FailureOr<ArrayAttr> Lists::resolve(unsigned group, const PrefetchTargets &targets,
                                    bool isForward) {
  SmallVector<Attribute> list;
  if (int64_t depth = targets.depth.groups) {
    SmallVector<unsigned> order(calls);
    if (!isForward)
      std::reverse(order.begin(), order.end());
    // The root's forward and backward begin first.
    auto *own = llvm::find(order, group);
    auto *next = own == order.end() ? order.begin() : own + 1;
    for (; next != order.end() && depth > 0; ++next, --depth)
      addCall(*next, list);
    return ArrayAttr::get(step.module.getContext(), list);
  }
  auto fail = [&](const std::string &module, StringRef why) -> LogicalResult {
    return mlir::emitError(step.groups[group].getLoc())
           << (isForward ? "forward_prefetch" : "backward_prefetch") << " of group '"
           << step.groups[group].getModuleName() << "' names module '" << module << "', " << why;
  };
  for (const std::string &module : targets.modules) {
    const ParamGroup *served = llvm::find_if(asked, [&](const ParamGroup &other) {
      return !other.isSeparated() && llvm::is_contained(other.modules, module);
    });
    if (served == asked.end())
      return fail(module, "which is no module of a group");
    unsigned target = served - asked.begin();
    if (target == group)
      return fail(module, "its own");
    addCall(target, list);
  }
  return ArrayAttr::get(step.module.getContext(), list);
}

LogicalResult Lists::run() {
  if (failed(orderCalls()))
    return failure();
  for (auto [index, group] : llvm::enumerate(asked)) {
    if (group.isSeparated())
      continue;
    for (bool isForward : {true, false}) {
      const GroupOptions &options = group.options;
      const auto &targets = isForward ? options.forwardPrefetch : options.backwardPrefetch;
      if (!targets)
        continue;
      FailureOr<ArrayAttr> list = resolve(index, *targets, isForward);
      if (failed(list))
        return failure();
      if (list->empty())
        continue;
      GroupOp op = step.groups[index];
      isForward ? op.setForwardPrefetchAttr(*list) : op.setBackwardPrefetchAttr(*list);
    }
  }
  return success();
}

LogicalResult fsdp::setPrefetchLists(ModuleOp module, ArrayRef<ParamGroup> asked) {
  if (llvm::none_of(asked, [](const ParamGroup &group) {
        return group.options.forwardPrefetch || group.options.backwardPrefetch;
      }))
    return success();
  FailureOr<Step> step = Step::collect(module);
  return failure(failed(step) || failed(Lists(*step, asked).run()));
}
