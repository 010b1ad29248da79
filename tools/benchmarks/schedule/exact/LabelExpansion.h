//===- LabelExpansion.h - The choices at a position ----------- -*- C++ -*-===//
//
// Private to the exact search. Leaves out choices for which another choice is at least as good:
//   - to launch a collective at a position, if it could have been launched at the one before and
//     would not have ended later;
//   - to wait for a reduction whose memory is not needed yet;
//   - to drop a copy whose memory is not needed, or of two equally large copies the one that is
//     used first;
//   - to launch the gathers of one position in another order than that of their uses, or of two
//     equally large gathers the one that is used later.
// Each replacement launches nothing later than before, so that replacements can be combined.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_SCHEDULE_LABELEXPANSION_H
#define FSDP_LIB_SCHEDULE_LABELEXPANSION_H

#include "Label.h"

#include <functional>

namespace fsdp::schedule {

class LabelExpansion {
public:
  /// Receives each new label, at the next position; returns whether to go on.
  using Visit = std::function<bool(Label &&, const LabelStep &)>;
  /// Returns true if no plan beats the target when the operation starts at that time.
  using StartsTooLate = std::function<bool(uint32_t operation, double startNs)>;
  LabelExpansion(const LabelProblem &problem, StartsTooLate startsTooLate, Visit visit)
      : problem(problem), startsTooLate(std::move(startsTooLate)), visit(std::move(visit)) {}

  void expand(const Label &label, uint32_t at);

private:
  struct Draft {
    Label label;
    LabelStep step;
    Set gathered = 0;               // uses
    int64_t launchPeakBytes = 0;    // at launches of reductions
    int64_t peakBytesSinceWait = 0; // likewise, since the last wait
    int64_t waitedBytes = -1;       // of the last wait, if it took time and was not due
  };
  using Then = void (LabelExpansion::*)(const Draft &);

  void arrive(Draft &draft) const;
  void waitForFirst(Draft &draft) const;
  void chooseWaits(const Draft &draft);
  void chooseReductions(const Draft &draft);
  bool launch(Draft &draft, Set reductions) const;
  void chooseGathers(const Draft &draft);
  void growBucket(const Draft &draft, Set bucket, Set candidates, int64_t bytes);
  void launchBucket(const Draft &draft, Set bucket, int64_t bytes, double endNs);
  void settle(const Draft &draft);
  void dropCopies(const Draft &draft, Set candidates, Set dropped, int64_t deficitBytes, Then then);
  void run(const Draft &draft);
  void leave(Label &label, Set gathered) const;

  bool isReductionLate(const Draft &draft, Set reductions) const;
  bool isGatherLate(const Draft &draft, Set bucket, int64_t bytes) const;
  bool isWaitUseless(const Draft &draft) const;
  bool isOvertaken(Set launched, Set left) const;

  const LabelItem &item() const { return problem.items[position]; }
  const Operation &operation() const { return item().operation; }
  uint32_t reductionLane() const { return problem.oneLane ? 0 : 1; }
  bool wasTimingFree(uint32_t lane) const;
  Set findGatherable(const Label &label) const;
  int64_t sizeOf(Set uses) const;
  int64_t inputsOf(Set reductions) const;
  int64_t outputsOf(Set reductions) const;

  const LabelProblem &problem;
  const StartsTooLate startsTooLate;
  const Visit visit;
  const Label *origin = nullptr;
  uint32_t position = 0;
  bool isStopped = false;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_LABELEXPANSION_H
