//===- DecisionView.cpp - Decisions of passes, for display ----------------===//

#include "fsdp/Explain/ExplainModule.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;

static constexpr const char *kNothing = "-";

static std::string getName(Type dtype) {
  return dtype ? llvm::formatv("{0}", dtype).str() : kNothing;
}

static std::string getName(std::optional<RecomputePolicy> policy) {
  return policy ? stringifyRecomputePolicy(*policy).str() : kNothing;
}

static std::string getName(StatePlace place) { return stringifyStatePlace(place).str(); }

/// The request of a group and its decision.
static std::pair<std::string, std::string> getChoices(const GroupInfo &info, Subject subject) {
  GroupOp group = info.op;
  MixedPrecisionAttr policy = group.getMixedPrecisionAttr();
  switch (subject) {
  case Subject::GatherDtype:
    if (Float8CastAttr float8 = group.getFloat8CastAttr())
      return {getName(float8.getDtype()), getName(info.getGatheredType())};
    return {getName(policy ? policy.getParamDtype() : Type()), getName(info.getGatheredType())};
  case Subject::ReduceDtype:
    return {getName(policy ? policy.getDtypeOfReduction() : Type()),
            getName(info.gradients.elementType)};
  case Subject::Recomputed:
    return {getName(group.getRecompute()), getName(group.getRecomputed())};
  case Subject::OptimizerState: {
    std::optional<bool> asked = group.getOffloadOptimizer();
    return {asked ? getName(*asked ? StatePlace::Host : StatePlace::Device) : kNothing,
            getName(group.isStateOnHost() ? StatePlace::Host : StatePlace::Device)};
  }
  case Subject::Activations: {
    std::optional<bool> asked = group.getOffloadActivations();
    return {asked ? getName(*asked ? StatePlace::Host : StatePlace::Device) : kNothing,
            getName(group.areActivationsOnHost() ? StatePlace::Host : StatePlace::Device)};
  }
  case Subject::ReshardRanks: {
    std::optional<int64_t> ranks = group.getReshardRanks();
    return {stringifyReshard(group.getReshardAfterForward()).str(),
            ranks ? std::to_string(*ranks) : kNothing};
  }
  }
  llvm_unreachable("unknown subject");
}

std::vector<DecisionView> fsdp::explain::viewDecisions(const GroupTable &groups) {
  std::vector<DecisionView> views;
  for (unsigned i = 0; i <= getMaxEnumValForSubject(); ++i) {
    auto subject = static_cast<Subject>(i);
    bool isNeighbour = false; // the last view is that of the preceding group
    for (const GroupInfo &info : groups.getGroups()) {
      GroupOp group = info.op;
      StringAttr reason = group.getReason(subject);
      if (!reason) {
        isNeighbour = false;
        continue;
      }
      auto [asked, decided] = getChoices(info, subject);
      DecisionView view{
          {}, stringifySubject(subject).str(), asked, decided, reason.getValue().str()};
      if (!isNeighbour || view.asked != views.back().asked ||
          view.decided != views.back().decided || view.why != views.back().why)
        views.push_back(std::move(view));
      views.back().groups.push_back(group.getModuleName());
      isNeighbour = true;
    }
  }
  return views;
}
