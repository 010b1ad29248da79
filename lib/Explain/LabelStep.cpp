//===- LabelStep.cpp - Names of a step's operations -----------------------===//

#include "fsdp/Explain/ExplainModule.h"
#include "fsdp/Explain/Quantities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::explain;

static const char *getOriginName(cost::Origin origin) {
  return origin == cost::Origin::Measured ? "measured" : "roofline";
}

/// Where the operation's duration comes from.
static cost::Origin getOrigin(Operation *op, ModuleOp module, const GroupTable &groups,
                              const cost::CostModel &costs) {
  return llvm::TypeSwitch<Operation *, cost::Origin>(op)
      .Case<aten::CallOp, LaunchOp>([&](auto call) { return costs.getCost(call).origin; })
      .Case([&](UpdateOp update) {
        const GroupInfo &group = groups.lookup(update.getTargetAttr());
        OptimizerOp optimizer = *module.getOps<OptimizerOp>().begin();
        return costs
            .getUpdateCost(optimizer.getKind(), group.updated.shardElements,
                           group.master.elementType, group.getStateBytes())
            .origin;
      })
      .Default([&](Operation *) { return costs.getCopyCost(/*bytes=*/1).origin; });
}

static StepPart getPart(aten::Phase phase) {
  return phase == aten::Phase::Forward ? StepPart::Forward : StepPart::Backward;
}

static MemoryCategory getCategory(const LiveRange &range) {
  switch (range.category) {
  case BufferCategory::Shard:
    return MemoryCategory::Shards;
  case BufferCategory::OptimizerState:
    return MemoryCategory::OptimizerState;
  case BufferCategory::Buffer:
  case BufferCategory::Input:
  case BufferCategory::Constant:
    return MemoryCategory::Inputs;
  case BufferCategory::Gathered:
  case BufferCategory::Chunk:
  case BufferCategory::EncodedShard:
    return MemoryCategory::Gathered;
  case BufferCategory::Gradient:
  case BufferCategory::ReducedShard:
    return MemoryCategory::Gradients;
  case BufferCategory::Activation: {
    auto phase = llvm::TypeSwitch<Operation *, aten::Phase>(range.owner)
                     .Case<aten::CallOp, LaunchOp>([](auto op) { return op.getPhase(); })
                     .Default([](Operation *) { return aten::Phase::Forward; });
    return phase == aten::Phase::Backward ? MemoryCategory::Backward : MemoryCategory::Activations;
  }
  }
  llvm_unreachable("unknown category");
}

/// Live bytes of every operation by category, from the ranges that make up `liveBytes`.
static void countBytes(const StepMemory &memory, const ScheduleProblem &step, StepLabels &labels) {
  std::vector<MemoryBytes> changes(step.operations.size() + 1, MemoryBytes{});
  for (const OperationRange &part : step.ranges) {
    const LiveRange &range = memory.ranges.getRanges()[part.range];
    unsigned category = static_cast<unsigned>(getCategory(range));
    const int64_t bytes = part.isFreed ? -range.bytes : range.bytes;
    changes[part.first][category] += bytes;
    changes[part.last + 1][category] -= bytes;
  }
  MemoryBytes live = {};
  for (size_t i = 0; i < labels.operations.size(); ++i) {
    for (unsigned category = 0; category < kNumMemoryCategories; ++category)
      live[category] += changes[i][category];
    labels.operations[i].liveBytes = live;
  }
}

std::string fsdp::explain::describeMesh(MeshOp mesh) {
  std::string text;
  for (auto [axis, size] : llvm::zip_equal(mesh.getAxes(), mesh.getSizes()))
    text += (text.empty() ? "" : ", ") + cast<StringAttr>(axis).getValue().str() + " = " +
            formatCount(size);
  return text;
}

/// The first mesh is the model's.
static void describeMeshes(ModuleOp module, StepLabels &labels) {
  std::string ofGroups;
  for (auto [index, mesh] : llvm::enumerate(module.getOps<MeshOp>()))
    if (index == 0)
      labels.facts.emplace_back("mesh", describeMesh(mesh));
    else
      ofGroups += (ofGroups.empty() ? "" : "; ") + describeMesh(mesh);
  if (!ofGroups.empty())
    labels.facts.emplace_back("meshes of groups", ofGroups);
}

StepLabels fsdp::explain::makeLabels(ModuleOp module, const StepMemory &memory,
                                     const ScheduleProblem &step, const cost::CostModel &costs) {
  StepLabels labels;
  if (auto model = module->getAttrOfType<StringAttr>(FsdpDialect::getModelAttrName()))
    labels.model = model.getValue().str();
  labels.operations.reserve(step.operations.size());
  // An operation without a phase belongs to the phase of the previous one.
  StepPart part = StepPart::Forward;
  for (Operation *op : step.operations) {
    OperationLabel label;
    label.costOrigin =
        getOriginName(op ? getOrigin(op, module, memory.groups, costs) : cost::Origin::Roofline);
    label.isMovable = !op || readsReduced(*op) || isa<AllGatherWaitOp, ReduceScatterStartOp>(op);
    if (!op)
      label.name = "pause";
    else
      llvm::TypeSwitch<Operation *>(op)
          .Case([&](aten::CallOp call) {
            part = getPart(call.getPhase());
            label.name = call.getTitle();
            label.module = call.getModule().str();
          })
          .Case([&](LaunchOp launch) {
            part = getPart(launch.getPhase());
            label.name = launch.getTitle();
            label.module = launch.getScope().getModule().str();
          })
          .Default([&](Operation *) {
            label.name = cast<StepOpInterface>(op).getTitle();
            if (auto write = dyn_cast<WriteOp>(op))
              label.module = write.getBuffer().str();
            else if (FlatSymbolRefAttr group = getGroupOf(op))
              label.module = GroupOp(memory.groups.lookup(group).op).getModuleName();
            if (auto wait = dyn_cast<AllGatherWaitOp>(op))
              part = getPart(wait.getStart().getPhase());
          });
    label.part =
        isa_and_nonnull<UpdateOp, ShardNormOp, PartialNormOp>(op) ? StepPart::Update : part;
    labels.operations.push_back(std::move(label));
  }
  countBytes(memory, step, labels);
  // The sources of the cost model's figures do not depend on the number of ranks.
  int64_t ranks = 1, replicas = 1;
  for (const GroupInfo &group : memory.groups.getGroups()) {
    std::vector<std::string> &parameters = labels.parameters[GroupOp(group.op).getModuleName()];
    for (ParamOp parameter : group.params)
      parameters.push_back(parameter.getSymName().str());
    ranks = std::max<int64_t>(ranks, group.getShards());
    replicas = std::max<int64_t>(replicas, group.replicas);
  }
  using cost::CollectiveKind;
  auto originOf = [&](CollectiveKind kind) {
    return getOriginName(costs.getCollectiveCost(kind, ranks).origin);
  };
  labels.gatherCostOrigin = originOf(CollectiveKind::AllGather);
  labels.reduceCostOrigin = originOf(CollectiveKind::ReduceScatter);
  if (replicas > 1)
    labels.acrossCostOrigin = getOriginName(
        costs.getCollectiveCost(CollectiveKind::AllReduce, replicas, /*stride=*/ranks).origin);
  describeMeshes(module, labels);
  labels.costSources = costs.describeSources();
  return labels;
}
