//===- ProblemBuilder.cpp - Builds scheduling problems --------------------===//

#include "ProblemBuilder.h"

#include "fsdp/IR/ModelCollectives.h"
#include "fsdp/IR/TensorLayout.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

bool fsdp::isOperation(Operation &op) {
  auto inStep = dyn_cast<StepOpInterface>(op);
  if (!inStep)
    return false;
  const StepRole role = inStep.getRole();
  // The store of a reduced gradient counts as its reader.
  return role == StepRole::Compute || role == StepRole::Reader ||
         (role == StepRole::StoreStart && isa<ShardType>(op.getOperand(0).getType()));
}

bool fsdp::readsReduced(Operation &op) {
  auto inStep = dyn_cast<StepOpInterface>(op);
  return inStep && inStep.getRole() == StepRole::Reader;
}

Operation *ScheduleProblem::lookup(uint32_t operation) const {
  while (!operations[operation] && operation + 1 < operations.size())
    ++operation;
  return operations[operation];
}

/// Without the copy, only bytes that are live both before and after it are live during it.
static void spare(std::vector<schedule::Operation> &operations, uint32_t index) {
  schedule::Operation &copy = operations[index];
  copy.durationNs = 0;
  copy.liveBytes = copy.carriedBytes;
  if (index + 1 < operations.size())
    copy.liveBytes = std::max(copy.liveBytes, operations[index + 1].carriedBytes);
}

void ScheduleProblem::spareCopies(const schedule::Plan &plan) {
  for (SparedCopy copy : sparedCopies)
    if (plan.kept[copy.use])
      spare(problem.operations, copy.operation);
}

schedule::Problem ScheduleProblem::getRelaxed() const {
  schedule::Problem relaxed = problem;
  for (auto [group, chunks] : llvm::enumerate(chunkChoices))
    if (!chunks.empty())
      relaxed.groups[group].chunks = chunks;
  for (const HostCopyWait &wait : hostCopyWaits)
    if (hostCopies[wait.copy].isOfChunk()) {
      double &durationNs = relaxed.operations[findOperation(wait)].durationNs;
      durationNs = std::max(0.0, durationNs - wait.ns);
    }
  for (const ChosenChunk &chunk : chosenChunks) {
    relaxed.operations[chunk.first].durationNs = 0;
    for (uint32_t i = chunk.first; i <= chunk.last; ++i) {
      relaxed.operations[i].liveBytes -= chunk.bytes;
      if (i > chunk.first)
        relaxed.operations[i].carriedBytes -= chunk.bytes;
    }
  }
  for (SparedCopy copy : sparedCopies)
    spare(relaxed.operations, copy.operation);
  for (uint32_t copy : gradientCopies)
    relaxed.operations[copy].durationNs = 0;
  return relaxed;
}

/// The duration of computation, with only those copies that every plan needs.
static double getLeastComputeNs(const ScheduleProblem &step) {
  double sumNs = 0;
  for (const schedule::Operation &operation : step.problem.operations)
    sumNs += operation.durationNs;
  for (ScheduleProblem::SparedCopy copy : step.sparedCopies)
    sumNs -= step.problem.operations[copy.operation].durationNs;
  return sumNs;
}

schedule::LowerBound fsdp::findBound(const ScheduleProblem &step, double makespanNs,
                                     double quickRatio) {
  const schedule::Problem problem = step.getRelaxed();
  schedule::LowerBound best = schedule::quickBound(problem);
  if (double computeNs = getLeastComputeNs(step); step.hasCopies() && computeNs > best.makespanNs) {
    best.makespanNs = computeNs;
    best.kind = schedule::BoundKind::Path;
  }
  if (makespanNs <= quickRatio * best.makespanNs)
    return best;
  schedule::LowerBound fluid = schedule::fluidBound(problem, {});
  return fluid.makespanNs > best.makespanNs ? fluid : best;
}

/// The cost per byte of the whole group that copying a shard from the host adds to a gather.
static schedule::CollectiveCost getFetchCost(int64_t shards, const cost::CostModel &costs) {
  constexpr int64_t kBytes = 1 << 26;
  double latencyNs = costs.getHostCopyCost(0).durationNs;
  double nsPerByte = (costs.getHostCopyCost(kBytes).durationNs - latencyNs) / kBytes;
  return {latencyNs, nsPerByte / static_cast<double>(shards)};
}

void ProblemBuilder::collectTransports() {
  for (auto start : memory.getBody().getOps<AllGatherStartOp>()) {
    if (CollectiveOpInterface(start).getNeighbours())
      continue;
    usesKernels |= start.getTransport() == Transport::Kernels;
    usesCopyEngines |= start.getTransport() == Transport::CopyEngine;
    isTransportOpen |= start.getTransport() == Transport::Auto;
  }
}

void ProblemBuilder::begin(ScheduleProblem &problem) {
  result = &problem;
  collectTransports();
  for (auto op : module.getOps<OptimizerOp>())
    optimizer = op.getKind();
  std::vector<int64_t> gatheredBytes;
  for (const GroupInfo &info : memory.groups.getGroups())
    gatheredBytes.push_back(info.gathered.wholeBytes);
  for (auto wait : memory.getBody().getOps<AllGatherWaitOp>())
    if (const GroupInfo &info = memory.groups.lookup(wait.getStart().getGroupAttr());
        !info.isFlat())
      gatheredBytes[info.index] =
          std::min(sumBytes(memory.ranges.lookup(wait.getStart())), sumBytes(getCopies(wait)));
  for (const GroupInfo &info : memory.groups.getGroups()) {
    GroupOp group = info.op;
    int64_t bytes = gatheredBytes[info.index];
    problem.problem.groups.push_back({group.getModuleName(), bytes,
                                      group.getReshardAfterForward() == Reshard::Auto
                                          ? schedule::KeepRule::Free
                                          : schedule::KeepRule::Never});
    problem.problem.groups.back().mesh = findMesh(info);
    problem.numRanks = std::max<int64_t>(problem.numRanks, info.getShards() * info.replicas);
  }
  problem.problem.coalesces = costs.doesCoalesce();
  problem.problem.contention = costs.getContention();
  problem.problem.onGpus = costs.isForGpus();
}

/// If a step requests copy engines and the network does not give their cost, their gathers cost the
/// same as those by kernels.
void ProblemBuilder::addCopyEngines(const GroupInfo &info, schedule::Mesh &mesh) {
  const int64_t shards = info.getShards();
  std::optional<cost::CollectiveCost> cost = costs.getCopyEngineCost(shards);
  const bool isPossible = cost && costs.areOnOneHost(shards * info.replicas);
  if (shards <= 1 || !(usesCopyEngines || (isTransportOpen && isPossible)))
    return;
  mesh.copyEngineCost = mesh.gatherCost;
  if (isPossible)
    mesh.copyEngineCost = *cost;
  mesh.copyEngineOnly = !usesKernels && !isTransportOpen;
}

schedule::CollectiveCost ProblemBuilder::findCost(cost::CollectiveKind kind, int64_t ranks,
                                                  int64_t stride) {
  cost::CollectiveCost cost = costs.getCollectiveCost(kind, ranks, stride);
  result->networkSpread = std::max(result->networkSpread, cost.spread);
  return cost;
}

uint32_t ProblemBuilder::findMesh(const GroupInfo &info) {
  const int64_t shards = info.getShards(), replicas = info.replicas;
  const bool isOnHost = GroupOp(info.op).areParametersOnHost();
  std::tuple key(shards, replicas, isOnHost);
  auto known = llvm::find(meshKeys, key);
  auto index = static_cast<uint32_t>(known - meshKeys.begin());
  if (known != meshKeys.end())
    return index;
  meshKeys.push_back(key);
  schedule::Mesh mesh;
  mesh.gatherCost = findCost(cost::CollectiveKind::AllGather, shards, 1);
  mesh.reduceCost = findCost(cost::CollectiveKind::ReduceScatter, shards, 1);
  addCopyEngines(info, mesh);
  if (isOnHost) {
    const schedule::CollectiveCost fetch = getFetchCost(shards, costs);
    for (schedule::CollectiveCost *cost :
         {&mesh.gatherCost, mesh.copyEngineCost ? &*mesh.copyEngineCost : nullptr})
      if (cost)
        *cost = cost->plus(fetch.latencyNs, fetch.nsPerByte);
  }
  if (replicas > 1)
    mesh.acrossCost = findCost(cost::CollectiveKind::AllReduce, replicas, shards);
  std::vector<schedule::Mesh> &meshes = result->problem.meshes;
  meshes.resize(index);
  meshes.push_back(mesh);
  return index;
}

schedule::CollectiveCost ProblemBuilder::getGatherCost(int64_t ranks, bool isFromHost) const {
  const schedule::CollectiveCost cost =
      costs.getCollectiveCost(cost::CollectiveKind::AllGather, ranks);
  if (!isFromHost)
    return cost;
  const schedule::CollectiveCost fetch = getFetchCost(ranks, costs);
  return cost.plus(fetch.latencyNs, fetch.nsPerByte);
}

/// Consecutive indices on an axis are neighbours: if the ranks of a host divide the axis, a chunk's
/// ranks are on one host.
std::vector<schedule::Chunk> ProblemBuilder::findChunks(const GroupInfo &info,
                                                        bool mayOffload) const {
  GroupOp group = info.op;
  const int64_t ranks = costs.getRanksPerHost(), shards = info.getShards();
  bool isContiguousWhole = llvm::all_of(info.params, [](ParamOp param) {
    return isContiguous(cast<RankedTensorType>(param.getType()));
  });
  if (group.getReshardAfterForward() != Reshard::Auto || ranks < 1 || ranks >= shards ||
      shards % ranks != 0 || info.isEncoded() || group.areParametersOnHost() || !isContiguousWhole)
    return {};
  int64_t bytes = plan::mergeRanks(info.layout, ranks).shardElements * info.gathered.elementBytes;
  const double copyNs = costs.getCopyCost(bytes).durationNs;
  std::vector<schedule::Chunk> chunks;
  if (ranks > 1) // otherwise the chunk is the whole copy
    chunks.push_back({ranks, bytes, copyNs, getGatherCost(ranks, false)});
  if (mayOffload)
    chunks.push_back({ranks, bytes, copyNs, getGatherCost(ranks, true), /*isOnHost=*/true});
  return chunks;
}

int64_t ProblemBuilder::getCopiedOut(AllGatherWaitOp wait) const {
  const GroupInfo &group = memory.groups.lookup(wait.getStart().getGroupAttr());
  if (group.isFlat())
    return 0;
  int64_t bytes = 0;
  for (Type type : wait.getResultTypes())
    bytes += getStorageBytes(cast<RankedTensorType>(type));
  return bytes;
}

SmallVector<size_t> ProblemBuilder::getCopies(AllGatherWaitOp wait) const {
  SmallVector<size_t> copies;
  for (Value param : wait.getResults())
    if (int64_t storage = memory.storage.lookup(param); storage != StepStorage::kNone)
      copies.push_back(memory.ranges.lookup(storage));
  return copies;
}

int64_t ProblemBuilder::sumBytes(ArrayRef<size_t> ranges) const {
  int64_t bytes = 0;
  for (size_t range : ranges)
    bytes += memory.ranges.getRanges()[range].bytes;
  return bytes;
}

/// The problem counts the smaller of both sizes, from the launch on.
void ProblemBuilder::addCopiesOut(AllGatherWaitOp wait, uint32_t launch, uint32_t copy,
                                  uint32_t last) {
  SmallVector<size_t> copies = getCopies(wait);
  ArrayRef<size_t> gathered = memory.ranges.lookup(wait.getStart());
  for (size_t range : copies)
    addRange(range, copy, last);
  for (size_t range : gathered)
    addRange(range, launch, copy);
  for (size_t range : sumBytes(gathered) <= sumBytes(copies) ? gathered : ArrayRef(copies))
    result->ranges.push_back({launch, last, range, /*isFreed=*/true});
}

cost::OperationCost ProblemBuilder::getCost(Operation *op, int64_t copiedBytes) const {
  if (!op)
    return {};
  return llvm::TypeSwitch<Operation *, cost::OperationCost>(op)
      .Case([&](aten::CallOp call) { return getCallCost(call); })
      .Case([&](LaunchOp launch) { return costs.getCost(launch); })
      .Case([&](PartialNormOp norm) { return getNormCost(norm); })
      .Case([&](UpdateOp update) {
        const GroupInfo &group = memory.groups.lookup(update.getTargetAttr());
        cost::OperationCost cost =
            costs.getUpdateCost(optimizer, group.updated.shardElements, group.master.elementType,
                                group.getStateBytes());
        if (group.hasGatherCopy())
          cost.durationNs += costs.getCopyCost(group.gathered.shardBytes).durationNs;
        return cost;
      })
      .Default([&](Operation *) {
        return costs.getCopyCost(isOperation(*op) ? getMovedBytes(cast<StepOpInterface>(op))
                                                  : copiedBytes);
      });
}

/// The bytes that a copy of the value would move.
int64_t ProblemBuilder::getMovedBytes(StepOpInterface op) const {
  Value moved = op.getMoved();
  if (!moved || isa<HandleType>(moved.getType())) // runs on another stream
    return 0;
  int64_t bytes = 0;
  if (auto shard = dyn_cast<ShardType>(moved.getType())) {
    const GroupInfo &group = memory.groups.lookup(shard);
    bytes = shard.getRanks() > 0 ? group.getChunkBytes()
                                 : group.getGradientBytes(shard.getElementType());
  } else {
    bytes = getStorageBytes(cast<RankedTensorType>(moved.getType()));
  }
  const bool isOnlyRead = moved.getDefiningOp() != op && !op.getOverwritten();
  return isOnlyRead ? bytes / 2 : bytes;
}

/// Includes the all-reduce of the sum, which is never hidden: all updates wait for it.
cost::OperationCost ProblemBuilder::getNormCost(PartialNormOp norm) const {
  int64_t bytes = 0;
  for (Value gradient : norm.getGradients())
    if (auto shard = dyn_cast<ShardType>(gradient.getType()))
      bytes += memory.groups.lookup(shard).gradients.shardBytes;
  // Gradients are read and not written: half of a copy.
  cost::OperationCost cost = costs.getCopyCost(bytes / 2);
  ArrayRef<GroupInfo> groups = memory.groups.getGroups();
  const GroupInfo &first = groups.front();
  const bool isUniform = llvm::all_of(
      groups, [&](const GroupInfo &group) { return group.getShards() == first.getShards(); });
  if (int64_t ranks = first.getShards() * (isUniform ? 1 : first.replicas); ranks > 1) {
    cost::CollectiveCost reduce = costs.getCollectiveCost(cost::CollectiveKind::AllReduce, ranks);
    cost.durationNs += reduce.durationNs(sizeof(double));
  }
  return cost;
}

/// A collective of the model takes the network's time, and computation waits for it.
cost::OperationCost ProblemBuilder::getCallCost(aten::CallOp call) const {
  std::optional<ModelCollective> collective = getModelCollective(call);
  if (!collective)
    return costs.getCost(call);
  ModuleOp of = module;
  auto meshes = of.getOps<MeshOp>(); // all have as many ranks
  const int64_t ranks = meshes.empty() ? 1 : llvm::product_of((*meshes.begin()).getSizes());
  if (ranks == 1)
    return costs.getCopyCost(getStorageBytes(cast<RankedTensorType>(call.getResult(0).getType())));
  const bool gathers = collective->kind == ModelCollectiveKind::AllGather;
  const cost::CollectiveKind kind = gathers ? cost::CollectiveKind::AllGather
                                    : collective->kind == ModelCollectiveKind::ReduceScatter
                                        ? cost::CollectiveKind::ReduceScatter
                                        : cost::CollectiveKind::AllReduce;
  Value whole = gathers ? call.getResult(0) : call.getOperand(0);
  cost::CollectiveCost cost = costs.getCollectiveCost(kind, ranks);
  return {.durationNs = cost.durationNs(getStorageBytes(cast<RankedTensorType>(whole.getType()))),
          .origin = cost.origin};
}

uint32_t ProblemBuilder::add(Operation *op, int64_t copiedBytes) {
  result->operations.push_back(op);
  cost::OperationCost cost = getCost(op, copiedBytes);
  result->problem.operations.push_back({cost.durationNs, 0, 0});
  result->computeSpread += cost.spread * cost.durationNs;
  return result->operations.size() - 1;
}

int64_t ProblemBuilder::getInputBytes(ReduceScatterStartOp start) const {
  int64_t bytes = 0;
  for (size_t range : memory.ranges.lookup(start).drop_back())
    bytes += memory.ranges.getRanges()[range].bytes;
  return bytes;
}

int64_t ProblemBuilder::getOutputBytes(ReduceScatterStartOp start) const {
  return memory.ranges.getRanges()[memory.ranges.lookup(start).back()].bytes;
}

void ProblemBuilder::finish() {
  sumBytes();
  double totalNs = 0;
  for (const schedule::Operation &operation : result->problem.operations)
    totalNs += operation.durationNs;
  if (totalNs > 0)
    result->computeSpread /= totalNs;
}

void ProblemBuilder::sumBytes() {
  std::vector<schedule::Operation> &operations = result->problem.operations;
  size_t n = operations.size();
  std::vector<int64_t> live(n + 1), carried(n + 1);
  for (const OperationRange &part : result->ranges) {
    const LiveRange &range = memory.ranges.getRanges()[part.range];
    const int64_t bytes = part.isFreed ? -range.bytes : range.bytes;
    live[part.first] += bytes;
    live[part.last + 1] -= bytes;
    // Buffers that are live throughout are live before the first operation.
    bool isThroughout = range.first == 0 && range.last + 1 == memory.ranges.getNumPositions();
    if (part.first == part.last && !(isThroughout && part.first == 0))
      continue;
    carried[isThroughout ? part.first : part.first + 1] += bytes;
    carried[part.last + 1] -= bytes;
  }
  int64_t liveBytes = 0, carriedBytes = 0;
  for (size_t i = 0; i < n; ++i) {
    operations[i].liveBytes = liveBytes += live[i];
    operations[i].carriedBytes = carriedBytes += carried[i];
  }
}
