//===- MinimumPeak.cpp - The memory that no plan can avoid ----------------===//
//
// A plan of least peak gathers each copy at its first use. It launches a reduction, and waits for
// it, at the first position where input and output fit together under the cap. An early reduction
// frees memory, so no later choice suffers. Nearly always this is the position at which the
// reduction is ready. If a later position has fewer live bytes, the position depends on the cap,
// and the least cap is found by bisection.
//
//===----------------------------------------------------------------------===//

#include "LiveBytes.h"
#include "fsdp/Schedule/LeaveRoom.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>

using namespace fsdp::schedule;

namespace {

/// By operation: bytes that become live minus bytes that die. The running sum is the live bytes.
using Changes = std::vector<int64_t>;

/// Live bytes without the buffers of reductions, by operation and by position.
struct Floor {
  std::vector<int64_t> operationBytes, positionBytes;
};

} // namespace

static void add(Changes &changes, uint32_t first, uint32_t end, int64_t bytes) {
  if (first >= end)
    return;
  changes[first] += bytes;
  changes[end] -= bytes;
}

static Floor findFloor(const Problem &problem) {
  size_t n = problem.operations.size();
  Changes atOperations(n + 1), atPositions(n + 1);
  std::vector<int32_t> previous = problem.previousUses();
  for (uint32_t i = 0; i < problem.uses.size(); ++i) {
    const Use &use = problem.uses[i];
    const int64_t bytes = problem.groupOfUse(i).gatheredBytes;
    uint32_t first = use.first, firstPosition = use.first + 1;
    if (keepRuleOf(problem, i, previous[i]) == KeepRule::Always)
      first = firstPosition = problem.uses[previous[i]].last + 1;
    add(atOperations, first, use.last + 1, bytes);
    add(atPositions, firstPosition, use.last + 1, bytes);
  }
  Floor floor;
  int64_t operationBytes = 0, positionBytes = 0;
  for (size_t i = 0; i < n; ++i) {
    const Operation &operation = problem.operations[i];
    floor.operationBytes.push_back(operation.liveBytes + (operationBytes += atOperations[i]));
    floor.positionBytes.push_back(operation.carriedBytes + (positionBytes += atPositions[i]));
  }
  return floor;
}

std::vector<int64_t> Problem::unavoidableBytes() const {
  std::vector<int64_t> bytes = findFloor(*this).operationBytes;
  Changes shards(operations.size() + 1);
  for (const Reduction &reduction : reductions)
    add(shards, reduction.ready, reduction.update + 1, reduction.outputBytes);
  int64_t live = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] += live += shards[i];
  return bytes;
}

/// The peak if each reduction runs at its first position with room under `cap`. Nullopt if a
/// reduction has no room up to its update, or an operation does not fit.
static std::optional<Problem::MinimumPeak> findPeak(const Problem &problem, const Floor &floor,
                                                    int64_t cap) {
  Problem::MinimumPeak peak;
  auto reach = [&](int64_t bytes, uint32_t operation) {
    if (bytes > peak.bytes && bytes <= cap)
      peak = {bytes, operation};
    return bytes <= cap;
  };
  std::multimap<int64_t, const Reduction *> pending; // least output first
  size_t next = 0;
  int64_t held = 0; // inputs of pending reductions, shards of finished reductions
  std::vector<int64_t> updated(problem.operations.size() + 1);
  for (uint32_t i = 0; i < problem.operations.size(); ++i) {
    held -= updated[i];
    for (; next < problem.reductions.size() && problem.reductions[next].ready == i; ++next) {
      const Reduction &reduction = problem.reductions[next];
      pending.emplace(reduction.outputBytes, &reduction);
      held += reduction.inputBytes;
    }
    while (!pending.empty()) {
      const Reduction &reduction = *pending.begin()->second;
      if (!reach(floor.positionBytes[i] + held + reduction.outputBytes, i))
        break;
      held += reduction.outputBytes - reduction.inputBytes;
      updated[reduction.update + 1] += reduction.outputBytes;
      pending.erase(pending.begin());
    }
    for (auto [outputBytes, reduction] : pending)
      if (reduction->update == i)
        return std::nullopt;
    if (!reach(floor.operationBytes[i] + held, i))
      return std::nullopt;
  }
  return peak;
}

Problem::MinimumPeak Problem::minimumPeak() const {
  Floor floor = findFloor(*this);
  MinimumPeak best = *findPeak(*this, floor, std::numeric_limits<int64_t>::max());
  std::vector<int64_t> unavoidable = unavoidableBytes();
  int64_t least = 0;
  if (!unavoidable.empty())
    least = *std::max_element(unavoidable.begin(), unavoidable.end());
  while (least < best.bytes) {
    int64_t cap = least + (best.bytes - least) / 2;
    if (std::optional<MinimumPeak> peak = findPeak(*this, floor, cap))
      best = *peak;
    else
      least = cap + 1;
  }
  return best;
}

bool fsdp::schedule::leaveRoom(Problem &problem, std::span<const int64_t> roomBytes) {
  assert(problem.memoryCapBytes && "room is left below a cap");
  std::vector<Operation> operations = problem.operations;
  std::vector<int64_t> unavoidable = problem.unavoidableBytes();
  for (size_t i = 0; i < unavoidable.size(); ++i)
    problem.operations[i].liveBytes +=
        std::clamp<int64_t>(*problem.memoryCapBytes - unavoidable[i], 0, roomBytes[i]);
  if (problem.minimumPeak().bytes <= *problem.memoryCapBytes)
    return true;
  problem.operations = std::move(operations);
  return false;
}
