//===- StepReader.cpp - Positions of a scheduled step's events ------------===//

#include "StepReader.h"

#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/VisitByClass.h"

using namespace mlir;
using namespace fsdp;

int64_t StepReader::getCopiedBytes(ArrayRef<size_t> parts) const {
  int64_t bytes = 0;
  for (size_t part : parts)
    if (getRange(part).storage == StepStorage::kNone)
      bytes += getRange(part).bytes;
  return bytes;
}

void StepReader::visit(AllGatherStartOp start) {
  enter(EventOrder::Gather);
  if (!start.getCoalesced())
    ++numGatherBuckets;
  gatherOf[start] = gathers.size();
  gathers.push_back(
      {start, indexOf(start.getGroupAttr()), getNumOperations(), numGatherBuckets - 1});
}

void StepReader::visit(ReduceScatterStartOp start) {
  if (!start.getCoalesced()) {
    // The inputs of the whole bucket are ready before its first start.
    int64_t copiedBytes = 0;
    ReduceScatterStartOp member = start;
    do {
      copiedBytes += getCopiedBytes(memory.ranges.lookup(member).drop_back());
      member = dyn_cast<ReduceScatterStartOp>(member->getNextNode());
    } while (member && member.getCoalesced());
    if (copiedBytes > 0) {
      if (!memory.groups.lookup(start.getGroupAttr()).isFlat())
        result.gradientCopies.push_back(getNumOperations());
      addOperation(start, copiedBytes);
    }
    ++numReductionBuckets;
  }
  enter(EventOrder::Reduction);
  reductionOf[start] = reductions.size();
  reductions.push_back(
      {start, indexOf(start.getGroupAttr()), getNumOperations(), numReductionBuckets - 1});
}

/// True if it shares a launch with other reductions, which have been read as well.
bool StepReader::isInBucket(const Reduction &reduction) const {
  size_t index = &reduction - reductions.data();
  auto isOther = [&](size_t other) {
    return other < reductions.size() && reductions[other].bucket == reduction.bucket;
  };
  return isOther(index + 1) || (index > 0 && isOther(index - 1));
}

void StepReader::visit(ReduceScatterWaitOp wait) {
  Reduction &reduction = reductions[reductionOf.lookup(wait.getStart())];
  bool isLaunchedHere = reduction.launch == getNumOperations();
  if (isLaunchedHere && isInBucket(reduction)) {
    // Members may have separate waits, but all are live from the launch on.
    addOperation(nullptr);
    isLaunchedHere = false;
  }
  enter(isLaunchedHere ? EventOrder::Reduction : EventOrder::ReductionWait);
  reduction.wait = getNumOperations();
  reduction.waitPosition = position;
  // A gradient that is read later outlives the reduction in the problem.
  for (size_t part : memory.ranges.lookup(reduction.start).drop_back())
    if (getRange(part).last > position) {
      addOperation(nullptr);
      return;
    }
}

void StepReader::visit(ReshardOp reshard) {
  Gather &gather = gathers[gatherOf.lookup(reshard.getStart())];
  enter(EventOrder::Reshard);
  if (gather.wait == getNumOperations())
    addOperation(nullptr); // a pause for the gather
  gather.last = getNumOperations() - 1;
}

void StepReader::visit(AllGatherWaitOp wait) {
  enter(EventOrder::Gather);
  gathers[gatherOf.lookup(wait.getStart())].wait = getNumOperations();
  // A chunk in the arena is still live when the gathered copy is complete.
  if (CollectiveOpInterface(wait.getStart()).getNeighbours() && !wait.getStart().isFromHost())
    addOperation(nullptr);
  if (int64_t bytes = builder.getCopiedOut(wait); bytes > 0)
    addOperation(wait, bytes);
}

/// On one rank the update reads the packed copy.
void StepReader::visitPack(Operation *pack) {
  if (int64_t bytes = getCopiedBytes(memory.ranges.lookup(pack)); bytes > 0)
    addOperation(pack, bytes);
}

/// The host copy that an operation belongs to: its starts and waits, both ways. Copies of state are
/// found by the handle of their fetch; copies of a value or a chunk begin with its store.
ScheduledHostCopy &StepReader::followHostCopy(StepOpInterface op) {
  auto known = hostCopyOf.end();
  for (Value value : llvm::concat<Value>(op->getResults(), op->getOperands()))
    if (known == hostCopyOf.end())
      known = hostCopyOf.find(value);
  size_t copy = result.hostCopies.size();
  if (known != hostCopyOf.end())
    copy = known->second;
  else
    result.hostCopies.emplace_back();
  for (Value value : op->getResults())
    hostCopyOf[value] = copy;
  return result.hostCopies[copy];
}

void StepReader::visitHostCopy(StepOpInterface op) {
  ScheduledHostCopy &copy = followHostCopy(op);
  switch (op.getRole()) {
  case StepRole::FetchStart:
    enter(EventOrder::Fetch);
    copy.fetch = op;
    copy.fetchLaunch = getNumOperations();
    return;
  case StepRole::FetchWait:
    copy.fetchWait = op;
    copy.fetchWaited = getNumOperations();
    return;
  case StepRole::StoreStart:
    copy.store = op;
    copy.storeLaunch = getNumOperations();
    return;
  default:
    enter(EventOrder::StoreWait);
    copy.storeWait = op;
    copy.storeWaited = getNumOperations();
  }
}

/// The last reader of a fetched value is where its range ends.
void StepReader::endHostCopies() {
  for (ScheduledHostCopy &copy : result.hostCopies)
    if (!copy.update && !copy.isOfChunk())
      copy.lastReader = operationAt[getRange(memory.ranges.lookup(copy.fetch).front()).last];
}

void StepReader::noteReaders(Operation &op, aten::Phase phase) {
  for (Value operand : op.getOperands()) {
    int64_t index = memory.storage.lookup(operand);
    if (index == StepStorage::kNone)
      continue;
    auto wait = dyn_cast<AllGatherWaitOp>(memory.storage.getStorages()[index].owner);
    if (!wait)
      continue;
    Gather &gather = gathers[gatherOf.lookup(wait.getStart())];
    if (phase == aten::Phase::Forward)
      gather.lastForward = getNumOperations();
    else if (!gather.firstBackward)
      gather.firstBackward = getNumOperations();
  }
}

/// The first reader of a reduced shard: its update, the norm of all gradients, or the sum with
/// other microbatches' shards.
void StepReader::noteReader(Operation &op) {
  for (Value operand : op.getOperands())
    if (ReduceScatterStartOp start = getReductionOf(operand)) {
      std::optional<uint32_t> &reader = reductions[reductionOf.lookup(start)].reader;
      if (!reader)
        reader = getNumOperations();
    }
}

void StepReader::read(Operation &op) {
  if (isOperation(op)) {
    if (auto call = dyn_cast<aten::CallOp>(op))
      noteReaders(op, call.getPhase());
    else if (auto launch = dyn_cast<LaunchOp>(op))
      noteReaders(op, launch.getPhase());
    else
      noteReader(op);
    addOperation(&op);
  }
  auto inStep = dyn_cast<StepOpInterface>(op);
  if (!inStep)
    return visitOther();
  auto visitIt = [&](auto event)
    requires requires { visit(event); }
  { visit(event); };
  switch (inStep.getRole()) {
  case StepRole::Compute:
  case StepRole::Reader:
    return;
  case StepRole::CollectiveStart:
  case StepRole::CollectiveWait:
  case StepRole::Reshard:
    if (!visitByClass(&op, visitIt))
      visitOther();
    return;
  case StepRole::FetchStart:
  case StepRole::FetchWait:
  case StepRole::StoreStart:
  case StepRole::StoreWait:
    return visitHostCopy(inStep);
  case StepRole::Begin:
  case StepRole::Free:
    return inStep.getPacked().empty() ? visitOther() : visitPack(&op);
  }
}

/// A view up to which a buffer is live, after events at this position.
void StepReader::visitOther() {
  if (endsAt[position] && order != EventOrder::None)
    addOperation(nullptr);
}
