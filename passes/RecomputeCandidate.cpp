//===- RecomputeCandidate.cpp - Policies of blocks to try -----------------===//

#include "passes/RecomputeCandidate.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;

/// The last step of each group.
static llvm::MapVector<StringAttr, RecomputeStep> findLast(ArrayRef<RecomputeStep> steps) {
  llvm::MapVector<StringAttr, RecomputeStep> last;
  for (const RecomputeStep &step : steps)
    last[step.group] = step;
  return last;
}

std::map<RecomputePolicy, int64_t> RecomputeCandidate::countRecomputed() const {
  std::map<RecomputePolicy, int64_t> counts;
  for (const auto &[group, step] : findLast(steps))
    if (step.policy && *step.policy > RecomputePolicy::None)
      ++counts[*step.policy];
  return counts;
}

int64_t RecomputeCandidate::countOffloaded() const {
  return llvm::count_if(findLast(steps), [](const auto &last) { return last.second.isOffloaded; });
}

std::string RecomputeCandidate::describe(int64_t numBlocks, bool isFitting) const {
  if (!why.empty())
    return why;
  std::string policies;
  int64_t numRecomputed = 0;
  std::map<RecomputePolicy, int64_t> counts = countRecomputed();
  const int64_t numCheap = std::exchange(counts[RecomputePolicy::Cheap], 0);
  counts.erase(RecomputePolicy::Cheap);
  if (counts.empty() && countOffloaded() == 0) {
    if (!isFitting)
      return "nothing fits the memory cap, and this needs the least";
    if (numCheap == 0 || numCheap == numBlocks)
      return "the step fits the memory cap without further recomputation";
    return llvm::formatv("the backward recomputes what is cheap of {0} of {1} blocks: the memory "
                         "cap asks for as many",
                         numCheap, numBlocks);
  }
  for (auto [policy, count] : counts) {
    if (counts.size() > 1)
      policies += (policies.empty() ? "" : " and ") + std::to_string(count) + " by ";
    policies += "policy " + stringifyRecomputePolicy(policy).str();
    numRecomputed += count;
  }
  std::string text;
  if (numRecomputed > 0)
    text = llvm::formatv("the backward recomputes {0} of {1} blocks, {2}", numRecomputed, numBlocks,
                         policies);
  if (const int64_t numOffloaded = countOffloaded(); numOffloaded > 0)
    text += llvm::formatv("{0}activations of {1} blocks wait on the host", text.empty() ? "" : "; ",
                          numOffloaded)
                .str();
  if (!isFitting)
    return text + ": nothing fits the memory cap, and this needs the least";
  return text + (reason == RecomputeReason::Memory
                     ? ": the memory cap asks for as many"
                     : ": the memory that this leaves to gathers saves more time than "
                       "recomputing takes");
}

RecomputeAttr RecomputeCandidate::getAttr(MLIRContext *context, int64_t numBlocks) const {
  std::map<RecomputePolicy, int64_t> counts = countRecomputed();
  const int64_t numCheap = counts[RecomputePolicy::Cheap];
  counts.erase(RecomputePolicy::Cheap);
  RecomputePolicy policy = numCheap == numBlocks ? RecomputePolicy::Cheap
                           : numCheap == 0       ? RecomputePolicy::None
                                                 : RecomputePolicy::Auto;
  int64_t numRecomputed = 0;
  for (auto [own, count] : counts) {
    policy = numRecomputed == 0 ? own : RecomputePolicy::Auto;
    numRecomputed += count;
  }
  return RecomputeAttr::get(context, policy, numRecomputed, reason);
}
