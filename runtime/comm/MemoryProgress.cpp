//===- MemoryProgress.cpp - Rounds, waiting and failure in common memory --===//

#include "comm/CollectiveNames.h"
#include "comm/MemoryCommunicator.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::rt;

// Interval at which a waiting rank checks for aborts and dead peers.
static constexpr std::chrono::milliseconds kCheckInterval{5};

Result<MemoryCommunicator::Operation> MemoryCommunicator::begin(unsigned lane, CollectiveKind kind,
                                                                size_t count, fsdp_dtype dtype,
                                                                ReduceOp op, unsigned root) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  Operation operation{};
  operation.lane = lane;
  operation.descriptor.kind = kind;
  operation.descriptor.op = op;
  operation.descriptor.dtype = dtype;
  operation.descriptor.root = root;
  operation.descriptor.count = count;
  operation.begin = Clock::now();
  if (isAborted())
    return abortedStatus().of(describe(operation));
  return operation;
}

void MemoryCommunicator::useArena(Operation &operation, const void *input, size_t bytes) const {
  if (arenas.empty())
    return;
  auto address = reinterpret_cast<uintptr_t>(input);
  auto begin = reinterpret_cast<uintptr_t>(arenas[rank()]);
  if (address < begin || address > begin + arenaBytes || begin + arenaBytes - address < bytes)
    return;
  operation.descriptor.inArena = 1;
  operation.descriptor.offset = address - begin;
  operation.inputBytes = bytes;
}

uint32_t MemoryCommunicator::publish(const Operation &operation) {
  uint32_t round = ++scratch[operation.lane].round;
  LaneState &own = region.lane(operation.lane, rank());
  own.descriptors[round % 2] = operation.descriptor;
  own.published.advance(round);
  return round;
}

Status MemoryCommunicator::awaitInput(const Operation &operation, uint32_t round, unsigned peer) {
  if (Status status = await(operation, &LaneState::published, round, peer); !status.ok())
    return status;
  const CollectiveDescriptor &mine = operation.descriptor;
  const CollectiveDescriptor &theirs = region.lane(operation.lane, peer).descriptors[round % 2];
  if (theirs.kind != mine.kind || theirs.op != mine.op || theirs.dtype != mine.dtype ||
      theirs.root != mine.root || theirs.count != mine.count || theirs.inArena != mine.inArena)
    return mismatch(operation, peer, theirs);
  if (mine.inArena &&
      (theirs.offset > arenaBytes || arenaBytes - theirs.offset < operation.inputBytes))
    return fail(operation, Status::error(nameOf(peer) + " has its input of " +
                                         std::to_string(operation.inputBytes) + " bytes at " +
                                         std::to_string(theirs.offset) + " of an arena of " +
                                         std::to_string(arenaBytes) + " bytes"));
  return {};
}

Status MemoryCommunicator::awaitInputs(const Operation &operation, uint32_t round) {
  const LaneRanks &ranks = scratch[operation.lane].ranks;
  for (unsigned distance = 1; distance < ranks.size; ++distance) {
    unsigned peer = ranks.at((ranks.index + distance) % ranks.size);
    if (Status status = awaitInput(operation, round, peer); !status.ok())
      return status;
  }
  return {};
}

Status MemoryCommunicator::finishReading(const Operation &operation, uint32_t round) {
  const LaneRanks &ranks = scratch[operation.lane].ranks;
  region.lane(operation.lane, rank()).consumed.advance(round);
  for (unsigned distance = 1; distance < ranks.size; ++distance) {
    unsigned peer = ranks.at((ranks.index + distance) % ranks.size);
    if (Status status = await(operation, &LaneState::consumed, round, peer); !status.ok())
      return status;
  }
  return {};
}

Status MemoryCommunicator::await(const Operation &operation, Progress progress, uint32_t round,
                                 unsigned peer) {
  SharedCounter &counter = region.lane(operation.lane, peer).*progress;
  if (counter.spinFor(round))
    return {};
  for (;;) {
    if (isAborted())
      return abortedStatus().of(describe(operation));
    if (Status status = lostPeer(operation, progress, round); !status.ok())
      return status;
    const Clock::duration waited = Clock::now() - operation.begin;
    const Clock::duration remaining = deadline - waited;
    if (remaining <= Clock::duration::zero())
      return fail(operation, latePeer(peer, progress, waited));
    counter.sleepFor(round, std::min<std::chrono::nanoseconds>(remaining, kCheckInterval));
    if (counter.reached(round))
      return {};
  }
}

/// An error if a peer has left or died before it reached the round. A peer that did so afterwards
/// is no failure of this round.
Status MemoryCommunicator::lostPeer(const Operation &operation, Progress progress, uint32_t round) {
  const LaneRanks &ranks = scratch[operation.lane].ranks;
  for (unsigned i = 0; i < ranks.size; ++i) {
    unsigned peer = ranks.at(i);
    const SharedCounter &counter = region.lane(operation.lane, peer).*progress;
    if (peer == rank() || counter.reached(round))
      continue;
    bool left = region.rank(peer).left.load(std::memory_order_acquire) != 0;
    if (!left && isAlive(peer))
      continue;
    // The peer may have reached the round just before it left.
    if (!left)
      left = region.rank(peer).left.load(std::memory_order_acquire) != 0;
    if (counter.reached(round))
      continue;
    // A peer that leaves after an abort has published the abort first.
    if (isAborted())
      return abortedStatus().of(describe(operation));
    return fail(operation,
                Status::aborted(peer, nameOf(peer) + (left ? " has left the run" : " died")));
  }
  return {};
}

Status MemoryCommunicator::latePeer(unsigned peer, Progress progress, Clock::duration waited) {
  const std::string wait = describeWait(rank(), waited, deadline);
  // The late peer may itself wait for a stopped rank.
  for (unsigned other = 0; other < size(); ++other)
    if (other != rank() && isStopped(other))
      return Status::aborted(other, nameOf(other) + " is stopped" + wait);
  return Status::aborted(
      peer, nameOf(peer) +
                (progress == &LaneState::published ? " did not take part" : " did not finish") +
                wait);
}

Status MemoryCommunicator::mismatch(const Operation &operation, unsigned peer,
                                    const CollectiveDescriptor &other) {
  const CollectiveDescriptor &mine = operation.descriptor;
  std::string text =
      "ranks disagree: rank " + std::to_string(rank()) + " issues " + describeCollective(mine);
  if (describeCollective(mine) == describeCollective(other))
    text += mine.inArena
                ? " with its input in the arena, rank " + std::to_string(peer) + " outside"
                : " with its input outside the arena, rank " + std::to_string(peer) + " inside";
  else
    text += ", rank " + std::to_string(peer) + " " + describeCollective(other);
  return fail(operation, Status::error(text));
}

std::string MemoryCommunicator::describe(const Operation &operation) const {
  return describeCollective(operation.descriptor) + " on the " + laneName(operation.lane);
}

Status MemoryCommunicator::abortedStatus() const {
  const AbortState &aborted = region.abortState();
  std::string reason(aborted.reason, strnlen(aborted.reason, AbortState::kReasonBytes));
  return Status::aborted(aborted.rank, reason, aborted.saidBytes);
}

bool MemoryCommunicator::isAborted() const {
  return region.abortState().state.load(std::memory_order_acquire) == AbortState::Done;
}

Status MemoryCommunicator::health() {
  if (isAborted())
    return abortedStatus();
  for (unsigned peer = 0; peer < size(); ++peer)
    // A peer that is gone without having left has died.
    if (peer != rank() && !isAlive(peer) &&
        region.rank(peer).left.load(std::memory_order_acquire) == 0)
      return isAborted() ? abortedStatus() : Status::aborted(peer, nameOf(peer) + " died");
  return {};
}

Status MemoryCommunicator::failed(const std::string &what, const Status &error) {
  if (isAborted())
    return abortedStatus().of(what);
  abort(error);
  return error;
}

/// Aborts, so that all ranks fail and learn the reason at once.
Status MemoryCommunicator::fail(const Operation &operation, const Status &cause) {
  abort(cause);
  return cause.of(describe(operation));
}

void MemoryCommunicator::abort(const Status &reason) {
  AbortState &aborted = region.abortState();
  uint32_t none = AbortState::None;
  if (!aborted.state.compare_exchange_strong(none, AbortState::Writing))
    return;
  Status told = abortStatus(reason, nameOf(rank()));
  const std::string &text = told.message();
  aborted.rank = *told.abortedBy();
  size_t length = std::min(text.size(), AbortState::kReasonBytes - 1);
  std::memcpy(aborted.reason, text.data(), length);
  aborted.reason[length] = '\0';
  size_t said = told.said().size(), cut = text.size() - length;
  aborted.saidBytes = static_cast<uint32_t>(said - std::min(said, cut));
  aborted.state.store(AbortState::Done, std::memory_order_release);
  for (unsigned lane = 0; lane < numLanes(); ++lane)
    for (unsigned rank = 0; rank < size(); ++rank) {
      region.lane(lane, rank).published.wakeAll();
      region.lane(lane, rank).consumed.wakeAll();
    }
}

void MemoryCommunicator::leave() {
  region.rank(rank()).left.store(1, std::memory_order_release);
  for (unsigned lane = 0; lane < numLanes(); ++lane) {
    region.lane(lane, rank()).published.wakeAll();
    region.lane(lane, rank()).consumed.wakeAll();
  }
}
