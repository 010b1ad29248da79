//===- DecisionLog.cpp - A step's decisions as text -----------------------===//

#include "fsdp/Explain/DecisionLog.h"

#include "fsdp/Analysis/GradientDivision.h"
#include "fsdp/Analysis/Program.h"
#include "fsdp/Analysis/Step.h"
#include "fsdp/Explain/ExplainModule.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;

namespace {
class Log {
public:
  Log(Step &step, const GroupTable &groups, llvm::raw_ostream &os)
      : step(step), groups(groups), os(os) {}
  void write();

private:
  void writeStep();
  void writeGroup(const GroupInfo &info);
  void writeReshard(GroupOp group);
  void writeGathers(const GroupInfo &info);
  void writeReduction(const GroupInfo &info);
  void writeDecisions();
  void writeEvents();
  llvm::raw_ostream &line(GroupOp group) { return os << "group " << group.getModuleName() << ": "; }
  GroupOp getGroup(FlatSymbolRefAttr name) { return groups.lookup(name).op; }

  Step &step;
  const GroupTable &groups;
  llvm::raw_ostream &os;
};
} // namespace

void Log::writeStep() {
  os << "step";
  if (auto model = step.module->getAttrOfType<StringAttr>(FsdpDialect::getModelAttrName()))
    os << " of " << model.getValue();
  os << ": " << (step.isEvaluation() ? "an evaluation, " : "")
     << stringifyModulePhase(getPhase(step.module)) << "; mesh "
     << describeMesh(step.meshes.front());
  if (auto prefetch = step.module->getAttrOfType<PrefetchAttr>(FsdpDialect::getPrefetchAttrName()))
    os << "; prefetch " << stringifyPrefetch(prefetch.getValue());
  os << "; microbatches " << step.getMicrobatches();
  if (step.isInterleaved()) {
    os << " in order 1f1b of stages ";
    llvm::interleaveComma(step.getAccumulation().getStages(), os,
                          [&](StringAttr stage) { os << stage.getValue(); });
  }
  os << '\n';
}

/// Adds the meaning of the word for this group, if the word itself does not tell.
void Log::writeReshard(GroupOp group) {
  Reshard asked = group.getReshardAfterForward();
  line(group) << "reshard_after_forward " << stringifyReshard(asked);
  if (asked == Reshard::None)
    os << (group.isRoot() ? ": kept, as the root is, which the backward needs first"
                          : ": resharded, as all groups but the root are");
  else if (asked == Reshard::Auto)
    os << ": the schedule decides, see the events below";
  if (std::optional<int64_t> ranks = group.getReshardRanks())
    os << (asked == Reshard::Auto ? "; " : ": ")
       << (*ranks == 1 ? "the host keeps a copy"
                       : "of " + std::to_string(*ranks) + " neighbours each keeps a chunk");
  os << '\n';
}

void Log::writeGathers(const GroupInfo &info) {
  GroupOp group = info.op;
  if (info.getShards() == 1 && !group.areParametersOnHost()) {
    line(group) << "whole on each rank: neither gathered nor resharded\n";
    return;
  }
  writeReshard(group);
  line(group) << "gathers " << info.gathered.shardElements << " elements of "
              << info.gathered.elementType << " per rank";
  if (AllGatherExtensionAttr extension = group.getAllGatherExtensionAttr())
    os << ", encoded by all_gather_extension " << extension.getName().getValue() << ", decoded as "
       << info.getGatheredType();
  os << '\n';
}

void Log::writeReduction(const GroupInfo &info) {
  GroupOp group = info.op;
  if (info.isFrozen() || step.isEvaluation()) {
    line(group) << (step.isEvaluation() ? "an evaluation reduces nothing\n"
                                        : "no gradients: all its parameters are frozen\n");
    return;
  }
  GradientDivision division =
      getGradientDivision(group, info.gradients.elementType, info.getShards(), info.replicas);
  line(group) << "gradients";
  auto write = [&](const Reduction &reduction, StringRef axis) {
    os << " by " << stringifyReduceOp(reduction.op) << " over " << axis;
    for (auto [name, divisor] : {std::pair("predivide", reduction.predivide),
                                 std::pair("postdivide", reduction.postdivide)})
      if (divisor != 1)
        os << llvm::formatv(" {0} {1}", name, divisor);
  };
  if (info.getShards() > 1)
    write(division.scatter, group.getAxis());
  if (info.replicas > 1) {
    os << (info.getShards() > 1 ? ", then" : "");
    write(division.across, *group.getReplicateAxis());
  }
  if (info.getShards() * info.replicas == 1)
    os << " stay on the one rank";
  if (group.getAllReduceHook())
    os << ", then all_reduce_hook " << *group.getAllReduceHook();
  os << '\n';
}

void Log::writeGroup(const GroupInfo &info) {
  GroupOp group = info.op;
  line(group) << "fully_shard of " << (group.isRoot() ? "the root" : group.getModuleName()) << ", "
              << info.params.size() << (info.params.size() == 1 ? " parameter, " : " parameters, ")
              << (info.isFlat() ? "one flat buffer" : "each cut by itself") << ", "
              << info.layout.shardElements << " elements of " << info.master.elementType
              << " per rank\n";
  if (MeshOp mesh = step.getMesh(group); mesh != step.meshes.front())
    line(group) << "mesh of its own: " << describeMesh(mesh) << '\n';
  for (auto [index, param] : llvm::enumerate(info.params)) {
    ParamOp op = param; // accessors of operations are not const
    line(group) << "parameter " << op.getSymName() << ' ' << op.getType();
    if (!info.isFlat())
      os << " on dimension " << group.getShardDim(index);
    os << (op.getFrozen() ? ", frozen\n" : "\n");
  }
  writeGathers(info);
  writeReduction(info);
  for (auto [what, list] : {std::pair("forward", group.getForwardPrefetchAttr()),
                            std::pair("backward", group.getBackwardPrefetchAttr())})
    if (list) {
      line(group) << what << "_prefetch";
      for (auto name : list.getAsRange<FlatSymbolRefAttr>())
        os << ' ' << getGroup(name).getModuleName();
      os << '\n';
    }
  if (group.areParametersOnHost())
    line(group) << "offload_policy cpu: parameters lie on the host\n";
}

void Log::writeDecisions() {
  for (const DecisionView &decision : viewDecisions(groups))
    for (const std::string &group : decision.groups)
      os << "group " << group << ": " << decision.what << " is " << decision.decided << ", "
         << (decision.asked == "-" ? "not asked for" : "asked for " + decision.asked) << ": "
         << decision.why << '\n';
}

void Log::writeEvents() {
  auto write = [&](StringRef phase, StringRef what, FlatSymbolRefAttr name) -> llvm::raw_ostream & {
    return os << "event " << phase << ' ' << what << ' ' << getGroup(name).getModuleName();
  };
  auto phaseOf = [](aten::Phase phase) {
    return phase == aten::Phase::Forward ? "forward" : "backward";
  };
  for (Operation &op : step.getBody()) {
    if (auto start = dyn_cast<CollectiveOpInterface>(op); start && start.getCollectiveGroup()) {
      StringRef kind = start.getCollectiveKind();
      write(phaseOf(start.getPhase()),
            kind == "all_gather"       ? "unshard"
            : kind == "reduce_scatter" ? "post_backward"
                                       : "all_reduce",
            start.getCollectiveGroup());
      os << " on " << stringifyStream(start.getStream())
         << (start.getCoalesced() ? ", in one launch with the one before\n" : "\n");
    } else if (auto reshard = dyn_cast<ReshardOp>(op)) {
      write(phaseOf(reshard.getPhase()), "reshard", reshard.getStart().getGroupAttr()) << '\n';
    } else if (auto pack = dyn_cast<PackOp>(op)) {
      write("backward", "post_backward", pack.getGroupAttr()) << '\n';
    } else if (auto update = dyn_cast<UpdateOp>(op)) {
      write("backward", "update", update.getTargetAttr()) << '\n';
    }
  }
}

void Log::write() {
  writeStep();
  for (const GroupInfo &group : groups.getGroups())
    writeGroup(group);
  writeDecisions();
  writeEvents();
}

FailureOr<std::string> fsdp::explain::makeDecisionLog(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (ModuleOp part : getSteps(module)) {
    FailureOr<Step> step = Step::collect(part);
    if (failed(step))
      return failure();
    if (step->meshes.empty())
      return part.emitError("has no mesh: nothing is decided before fsdp-group-parameters");
    FailureOr<GroupTable> groups = GroupTable::build(part);
    if (failed(groups))
      return failure();
    Log(*step, *groups, os).write();
  }
  return text;
}
