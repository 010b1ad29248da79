//===- CaseBound.h - A lower bound by cases of kept chunks ---------*- C++ -*-===//
//
// The linear program of the fluid bound gathers fractions of uses from chunks, and frees the input
// of a reduction bit by bit while the reduction runs. A plan frees the input at the reduction's
// wait. So where chunks fill the memory, this bound is below every plan by some percent. Here a
// linear program is solved for each number of chunks that a plan may have at one operation.
//
// Lemma. Let p be an operation and U the uses that may have a chunk live at p. Consider a plan that
// keeps no copy over p from one use to the next and has n chunks live at p. Let g(i) be the number
// of uses in U that cannot have a chunk live at operation i. While i runs, at least n - g(i) of the
// n chunks are live. They take at least c(i), the sum of the n - g(i) smallest chunks of U.
// Let problem Q(n) have c(i) more live bytes at each operation i than the problem, and chunks of 0
// bytes for the groups of U. The plan is a plan of Q(n), with the same makespan: in Q(n) it has
// lost the bytes of these chunks, and at no operation has it gained more than they take. So a lower
// bound for the plans of Q(n) that have n chunks at p and keep no copy over p is one for this plan.
// Each plan either keeps a copy over p, or keeps none and has some number of chunks at p. So the
// least of the bounds of these cases holds for every plan.
//
// Q(n) leaves less memory beside the chunks, so its windows are shorter, and more of its gathers
// and reductions take turns.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_CASEBOUND_H
#define FSDP_SCHEDULE_CASEBOUND_H

#include "fsdp/Schedule/LowerBound.h"

namespace fsdp::schedule {

/// The cases at operation p: where all chunks together exceed the slack most.
class ChunkCases {
public:
  /// The problem must have a cap, and outlive the cases.
  explicit ChunkCases(const Problem &problem);

  uint32_t getOperation() const { return operation; }
  /// The number of uses in U.
  uint32_t mostChunks() const { return uint32_t(chunks.size()); }
  /// Problem Q(n); nullopt if c(i) exceeds the slack at some operation, so that no plan has n
  /// chunks at p.
  std::optional<Problem> makeProblem(uint32_t numChunks) const;

private:
  /// A chunk that may be live, at the operations from `first` to `last`.
  struct Chunk {
    uint32_t use, first, last;
    int64_t bytes;
    bool isLive(uint32_t operation) const { return first <= operation && operation <= last; }
  };
  uint32_t findFullest() const;

  const Problem &problem;
  std::vector<int64_t> slackBytes; // by operation
  std::vector<Chunk> chunks;
  uint32_t operation;
  std::vector<int64_t> leastBytes{0}; // by number of chunks: the sum of so many smallest chunks
};

/// The least bound of all cases. 0 if it is at most `knownNs`, there is no cap, or there are no
/// chunks.
double caseBound(const Problem &problem, const FluidOptions &options, double knownNs);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_CASEBOUND_H
