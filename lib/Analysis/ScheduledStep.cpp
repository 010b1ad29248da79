//===- ScheduledStep.cpp - The plan of a scheduled step -------------------===//

#include "HostCopySchedule.h"
#include "StepReader.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace fsdp;

/// True for ranges in `liveBytes`; the problem adds gathered copies and reductions itself.
static bool isOwn(const LiveRange &range) {
  return range.category != BufferCategory::Gathered && !isa<ReduceScatterStartOp>(range.owner);
}

void StepReader::addRanges() {
  DenseMap<size_t, const Reduction *> reductionOfPart;
  for (const Reduction &reduction : reductions)
    for (size_t part : memory.ranges.lookup(reduction.start).drop_back())
      reductionOfPart[part] = &reduction;
  uint32_t last = getNumOperations() - 1;
  for (auto [index, range] : llvm::enumerate(memory.ranges.getRanges())) {
    if (!isOwn(range) || reductionOfPart.contains(index) || isFetched(range))
      continue;
    bool isThroughout = range.first == 0 && range.last + 1 == memory.ranges.getNumPositions();
    builder.addRange(index, isThroughout ? 0 : operationAt[range.first],
                     isThroughout ? last : operationAt[range.last]);
  }
}

void StepReader::addUses() {
  struct Use {
    schedule::Use use;
    size_t gather;
    bool isKept;
  };
  std::vector<Use> uses;
  std::vector<uint32_t> lastOf; // by gather: the last operation that reads it
  for (auto [index, gather] : llvm::enumerate(gathers)) {
    uint32_t last = std::min(gather.last, getNumOperations() - 1);
    lastOf.push_back(last);
    bool isSplit = result.problem.groups[gather.group].keep == schedule::KeepRule::Free &&
                   gather.lastForward && gather.firstBackward &&
                   *gather.lastForward < *gather.firstBackward && *gather.firstBackward <= last;
    uint32_t firstEnd = isSplit ? *gather.lastForward : last;
    uses.push_back({{gather.group, gather.wait, firstEnd}, index, false});
    if (isSplit)
      uses.push_back({{gather.group, *gather.firstBackward, last}, index, true});
  }
  std::ranges::stable_sort(uses, {},
                           [](const Use &use) { return std::pair(use.use.first, use.use.last); });
  result.plan.gathers.resize(numGatherBuckets);
  DenseSet<uint32_t> isFirstOf; // groups that have a use
  for (auto [index, use] : llvm::enumerate(uses)) {
    const Gather &gather = gathers[use.gather];
    AllGatherStartOp start = gather.start;
    bool isCopied = builder.getCopiedOut(start.getWait()) > 0;
    bool isFirst = isFirstOf.insert(gather.group).second;
    if (isCopied && !use.isKept) {
      builder.addCopiesOut(start.getWait(), gather.launch, gather.wait, lastOf[use.gather]);
      if (!isFirst && result.problem.groups[gather.group].keep == schedule::KeepRule::Free)
        result.sparedCopies.push_back({static_cast<uint32_t>(index), gather.wait});
    }
    result.problem.uses.push_back(use.use);
    result.gathers.push_back(gather.start);
    result.plan.kept.push_back(use.isKept);
    if (use.isKept)
      continue;
    if (CollectiveOpInterface(start).getNeighbours()) {
      result.plan.chunked.resize(uses.size());
      result.plan.chunked[index] = start.isFromHost() ? 2 : 1; // as in addChunks()
    }
    result.plan.gathers[gather.bucket].launch = gather.launch;
    result.plan.gathers[gather.bucket].byCopyEngine = start.getTransport() == Transport::CopyEngine;
    result.plan.gathers[gather.bucket].uses.push_back(index);
  }
}

/// The last use of the group before the store of a chunk leaves this chunk.
void StepReader::addStoresOfChunks() {
  for (const ScheduledHostCopy &copy : result.hostCopies) {
    if (!copy.isOfChunk())
      continue;
    const uint32_t group = indexOf(getGroupOf(copy.store));
    schedule::Use *leaving = nullptr;
    for (schedule::Use &use : result.problem.uses)
      if (use.group == group && use.last < copy.storeLaunch)
        leaving = &use;
    if (leaving)
      leaving->storedBy = std::max(leaving->last, copy.storeWaited - 1);
  }
}

/// The copy of a chunk is an operation of the problem, and the chunk's bytes are part of other
/// operations' live bytes: its gather has no further cost. Also notes which chunks a search could
/// have chosen.
void StepReader::addChunks() {
  const bool mayOffload = llvm::any_of(
      gathers, [](const Gather &gather) { return AllGatherStartOp(gather.start).isFromHost(); });
  for (const GroupInfo &info : memory.groups.getGroups())
    result.chunkChoices.push_back(builder.findChunks(info, mayOffload));
  for (const Gather &gather : gathers) {
    AllGatherStartOp start = gather.start;
    const int64_t ranks = CollectiveOpInterface(start).getNeighbours();
    std::vector<schedule::Chunk> &chunks = result.problem.groups[gather.group].chunks;
    if (ranks != 0 && chunks.empty())
      for (bool isOnHost : {false, true})
        chunks.push_back({ranks, 0, 0, builder.getGatherCost(ranks, isOnHost), isOnHost});
  }
  for (const OperationRange &part : result.ranges)
    if (const LiveRange &range = getRange(part.range);
        range.category == BufferCategory::Chunk &&
        !result.chunkChoices[indexOf(cast<ChunkOp>(range.owner).getGroupAttr())].empty())
      result.chosenChunks.push_back({part.first, part.last, range.bytes});
}

/// Members of a bucket with waits at different positions become separate buckets.
void StepReader::splitBuckets() {
  numReductionBuckets = 0;
  for (size_t first = 0, end; first < reductions.size(); first = end) {
    end = first + 1;
    while (end < reductions.size() && reductions[end].bucket == reductions[first].bucket)
      ++end;
    bool isOne = std::all_of(reductions.begin() + first, reductions.begin() + end,
                             [&](const Reduction &r) { return r.wait == reductions[first].wait; });
    for (size_t i = first; i < end; ++i) {
      numReductionBuckets += i == first || !isOne;
      splitBucketOf.push_back(numReductionBuckets - 1);
    }
  }
}

LogicalResult StepReader::addReductions() {
  splitBuckets();
  std::vector<uint32_t> ready(reductions.size(), 0);
  for (auto [index, reduction] : llvm::enumerate(reductions)) {
    if (index > 0 && reduction.wait < reductions[index - 1].wait) {
      Reduction &earlier = reductions[index - 1];
      InFlightDiagnostic diag = reduction.start.emitOpError("of ")
                                << reduction.start.getGroupAttr()
                                << " is waited for before that of " << earlier.start.getGroupAttr()
                                << ", which is started earlier";
      diag.attachNote(earlier.start.getLoc()) << "started here";
      return diag;
    }
    if (!reduction.reader)
      return reduction.start.emitOpError("of ")
             << reduction.start.getGroupAttr() << " is followed by no update of the group";
    ArrayRef<size_t> both = memory.ranges.lookup(reduction.start);
    for (size_t part : both.drop_back()) {
      const LiveRange &range = getRange(part);
      bool isHere = range.storage == StepStorage::kNone;
      uint32_t last = isHere ? operationAt[range.first] : lastReader[range.storage];
      ready[index] = std::max(ready[index], std::min(last + 1, reduction.launch));
    }
    for (size_t part : both.drop_back()) {
      const LiveRange &range = getRange(part);
      builder.addRange(part, operationAt[range.first], ready[index] - 1);
      if (range.last > reduction.waitPosition)
        builder.addRange(part, reduction.wait, operationAt[range.last]);
    }
    // While gradients are copied in, the reduced shard is live already.
    uint32_t copy = operationAt[getRange(both.back()).first];
    if (isa_and_nonnull<ReduceScatterStartOp>(result.operations[copy]) &&
        copy + 1 == reduction.launch)
      builder.addRange(both.back(), copy, copy);
    uint32_t last = operationAt[getRange(both.back()).last];
    uint32_t reader = *reduction.reader;
    // The shard may be live after its first reader, as the target of a sum or as a norm's operand.
    if (last > reader)
      builder.addRange(both.back(), reader + 1, last);
  }

  std::vector<size_t> sorted(reductions.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::stable_sort(sorted, {},
                           [&](size_t i) { return std::pair(ready[i], *reductions[i].reader); });
  result.plan.reductions.resize(numReductionBuckets);
  for (auto [index, number] : llvm::enumerate(sorted)) {
    const Reduction &reduction = reductions[number];
    result.problem.reductions.push_back({reduction.group, ready[number], *reduction.reader,
                                         builder.getInputBytes(reduction.start),
                                         builder.getOutputBytes(reduction.start)});
    result.reductions.push_back(reduction.start);
    schedule::ReductionBucket &bucket = result.plan.reductions[splitBucketOf[number]];
    bucket.reductions.push_back(index);
    bucket.launch = reduction.launch;
    bucket.wait = reduction.wait;
    ReduceScatterStartOp start = reduction.start;
    result.plan.shareLane |= start.getStream() == Stream::Gather;
  }
  return success();
}

FailureOr<ScheduledStep> StepReader::build() {
  builder.begin(result);
  for (const LiveRange &range : memory.ranges.getRanges())
    if (isOwn(range) && range.category != BufferCategory::Gradient &&
        (range.first != 0 || range.last + 1 != memory.ranges.getNumPositions()))
      endsAt[range.last] = true;
  for (const StateCopy &copy : collectStateCopies(memory.getBody())) {
    hostCopyOf[FetchStateStartOp(copy.fetch).getHandle()] = result.hostCopies.size();
    result.hostCopies.emplace_back().update = copy.update;
  }
  operationAt.assign(memory.ranges.getNumPositions(), 0);
  lastReader.assign(memory.storage.getStorages().size(), 0);
  for (Operation &op : memory.getBody()) {
    read(op);
    uint32_t last = operationAt[position] = std::max<uint32_t>(getNumOperations(), 1) - 1;
    if (!isa<ReduceScatterStartOp>(op))
      memory.storage.forEachTouched(op, [&](int64_t index) { lastReader[index] = last; });
    ++position;
  }
  // Every event needs the position of an operation.
  if (getNumOperations() == 0 || order > EventOrder::Reshard)
    addOperation(nullptr);
  addRanges();
  addChunks();
  addUses();
  addStoresOfChunks();
  if (failed(addReductions()))
    return failure();
  endHostCopies();
  addHostRanges(result, memory);
  builder.finish();
  chargeHostCopies(result, memory, costs);
  return std::move(result);
}

FailureOr<ScheduledStep> fsdp::getScheduledStep(ModuleOp module, const StepMemory &memory,
                                                const cost::CostModel &costs) {
  return StepReader(module, memory, costs).build();
}
