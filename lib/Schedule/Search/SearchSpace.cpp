//===- SearchSpace.cpp - Facts about a problem for the search -------------===//

#include "SearchSpace.h"

#include "Model/LiveBytes.h"

#include <algorithm>

using namespace fsdp::schedule;

SearchSpace::SearchSpace(const Problem &problem)
    : problem(problem), previousUse(problem.previousUses()), startNs(problem.reachedNs()),
      alwaysKept(keepByRule(problem)) {
  size_t numOperations = problem.operations.size();
  for (uint32_t use = 0; use < problem.uses.size(); ++use) {
    if (keepRuleOf(problem, use, previousUse[use]) == KeepRule::Free)
      mayKeep.push_back(use);
    const auto numChunks = uint8_t(problem.groupOfUse(use).chunks.size());
    mostChunks = std::max(mostChunks, numChunks);
    for (uint8_t number = 1; number <= numChunks; ++number)
      if (fsdp::schedule::mayChunk(problem, use, previousUse[use], number)) {
        mayChunk.push_back(use);
        break;
      }
  }

  const std::vector<uint8_t> isEvent = problem.events();
  const std::vector<int64_t> unavoidable = problem.unavoidableBytes();
  segmentOf.resize(numOperations + 1);
  for (size_t i = 0; i < numOperations; ++i) {
    if (i == 0 || isEvent[i]) {
      segmentBytes.push_back(0);
      events.push_back(uint32_t(i));
    }
    segmentOf[i] = uint32_t(segmentBytes.size() - 1);
    segmentBytes.back() = std::max(segmentBytes.back(), unavoidable[i]);
  }
  segmentOf[numOperations] = uint32_t(segmentBytes.size());
}

uint32_t SearchSpace::positionAt(double ns) const {
  auto after = std::upper_bound(startNs.begin(), startNs.end(), ns);
  return after == startNs.begin() ? 0 : uint32_t(after - startNs.begin() - 1);
}

MemoryProfile::MemoryProfile(const SearchSpace &space, std::span<const uint8_t> kept,
                             std::span<const uint8_t> chunked)
    : space(space), bytes(space.segmentBytes) {
  for (uint32_t use : space.mayKeep)
    if (kept[use])
      add(space.keptCopy(use));
  if (!chunked.empty())
    for (uint32_t use : space.mayChunk)
      if (chunked[use])
        add(space.chunkOf(use, chunked[use]));
}

bool MemoryProfile::fits(const Buffer &buffer) const {
  if (!space.problem.memoryCapBytes)
    return true;
  int64_t limit = *space.problem.memoryCapBytes - buffer.bytes;
  for (uint32_t i = space.segmentOf[buffer.begin]; i < space.segmentOf[buffer.end]; ++i)
    if (bytes[i] > limit)
      return false;
  return true;
}

void MemoryProfile::add(const Buffer &buffer) {
  for (uint32_t i = space.segmentOf[buffer.begin]; i < space.segmentOf[buffer.end]; ++i)
    bytes[i] += buffer.bytes;
}

bool MemoryProfile::addIfFits(const Buffer &buffer) {
  bool isFitting = fits(buffer);
  if (isFitting)
    add(buffer);
  return isFitting;
}

std::vector<uint8_t> fsdp::schedule::fitKeeps(const SearchSpace &space,
                                              std::span<const uint32_t> order) {
  MemoryProfile profile(space, space.alwaysKept, {});
  std::vector<uint8_t> kept = space.alwaysKept;
  for (uint32_t use : order)
    kept[use] = profile.addIfFits(space.keptCopy(use));
  return kept;
}

std::vector<uint8_t> fsdp::schedule::fitChunks(const SearchSpace &space,
                                               std::span<const uint8_t> kept,
                                               std::span<const uint32_t> order) {
  MemoryProfile profile(space, kept, {});
  std::vector<uint8_t> chunked;
  for (uint32_t use : order)
    for (uint8_t number = 1; !kept[use] && number <= space.mostChunks; ++number)
      if (mayChunk(space.problem, use, space.previousUse[use], number) &&
          profile.addIfFits(space.chunkOf(use, number))) {
        chunked.resize(space.problem.uses.size());
        chunked[use] = number;
        break;
      }
  return chunked;
}

std::vector<uint32_t> fsdp::schedule::orderByGap(const SearchSpace &space,
                                                 std::vector<uint32_t> uses) {
  std::ranges::stable_sort(uses, {}, [&](uint32_t use) {
    return space.startNs[space.firstOf(use)] - space.startNs[space.gapBegin(use)];
  });
  return uses;
}
