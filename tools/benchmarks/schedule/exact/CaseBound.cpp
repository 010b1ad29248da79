//===- CaseBound.cpp - A lower bound by cases of kept chunks --------------===//

#include "CaseBound.h"

#include "Bounds/FluidProgram.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace fsdp::schedule;

ChunkCases::ChunkCases(const Problem &problem) : problem(problem) {
  const CollectiveWindows windows = findCollectiveWindows(problem);
  slackBytes = windows.slackBytes;
  for (const GatherWindow &gather : windows.gathers)
    for (const ChunkWindow &window : gather.chunks)
      if (!window.chunk.isOnHost)
        chunks.push_back({gather.use, gather.keptFrom - 1, gather.first, window.chunk.bytes});
  operation = findFullest();
  std::erase_if(chunks, [&](const Chunk &chunk) { return !chunk.isLive(operation); });
  for (const Chunk &chunk : chunks)
    leastBytes.push_back(chunk.bytes);
  std::ranges::sort(leastBytes);
  std::partial_sum(leastBytes.begin(), leastBytes.end(), leastBytes.begin());
}

/// The operation at which all chunks together exceed the slack most.
uint32_t ChunkCases::findFullest() const {
  std::vector<int64_t> changes(slackBytes.size() + 1); // of the bytes of all chunks
  for (const Chunk &chunk : chunks) {
    changes[chunk.first] += chunk.bytes;
    changes[chunk.last + 1] -= chunk.bytes;
  }
  int64_t bytes = 0, mostBytes = std::numeric_limits<int64_t>::min();
  uint32_t fullest = 0;
  for (uint32_t i = 0; i < slackBytes.size(); ++i) {
    bytes += changes[i];
    if (bytes - slackBytes[i] <= mostBytes)
      continue;
    mostBytes = bytes - slackBytes[i];
    fullest = i;
  }
  return fullest;
}

std::optional<Problem> ChunkCases::makeProblem(uint32_t numChunks) const {
  Problem made = problem;
  for (const Chunk &chunk : chunks)
    for (schedule::Chunk &choice : made.groups[made.uses[chunk.use].group].chunks)
      choice.bytes = choice.isOnHost ? choice.bytes : 0;
  for (uint32_t i = 0; i < made.operations.size(); ++i) {
    const auto numGone = uint32_t(
        std::ranges::count_if(chunks, [&](const Chunk &chunk) { return !chunk.isLive(i); }));
    const int64_t bytes = leastBytes[numChunks - std::min(numChunks, numGone)];
    if (bytes > 0 && bytes > slackBytes[i])
      return std::nullopt;
    made.operations[i].liveBytes += bytes;
  }
  return made;
}

/// A bound of the problem's plans that keep no copy over the operation and have so many chunks
/// there; without a number, of the plans that keep a copy. 0 if the program is not solved.
static double solveCase(const Problem &problem, const FluidOptions &options, uint32_t operation,
                        std::optional<uint32_t> numChunks) {
  FluidProgram fluid(problem, options);
  Expression kept, chunks;
  for (const FluidGather &gather : fluid.gathers) {
    if (gather.keptFrom <= operation && operation < gather.first)
      kept += gather.kept;
    for (const FluidChunk &choice : gather.choices)
      if (!choice.chunk.isOnHost && gather.keptFrom <= operation + 1 && operation <= gather.first)
        chunks += choice.chosen;
  }
  if (!numChunks && kept.isConstant())
    return std::numeric_limits<double>::infinity(); // no copy can be kept
  if (numChunks) {
    fluid.program.requireEqual(kept, 0.0);
    fluid.program.requireEqual(chunks, double(*numChunks));
  } else {
    fluid.program.requireAtLeast(kept, 1.0);
  }
  std::optional<LinearProgram::Solution> solution = fluid.program.solve(options.iterationLimit);
  return solution ? solution->bound * fluid.timeUnitNs : 0;
}

double fsdp::schedule::caseBound(const Problem &problem, const FluidOptions &options,
                                 double knownNs) {
  if (!problem.memoryCapBytes)
    return 0;
  const ChunkCases cases(problem);
  if (cases.mostChunks() == 0)
    return 0;
  double leastNs = solveCase(problem, options, cases.getOperation(), std::nullopt);
  for (uint32_t numChunks = 0; numChunks <= cases.mostChunks() && leastNs > knownNs; ++numChunks)
    if (std::optional<Problem> counted = cases.makeProblem(numChunks))
      leastNs = std::min(leastNs, solveCase(*counted, options, cases.getOperation(), numChunks));
  return leastNs > knownNs ? leastNs : 0;
}
