//===- RecomputeUnderCap.cpp - Chooses recomputation under a memory cap ---===//
//
// Recomputes more and more blocks, or offloads their activations, in steps with the least time per
// byte saved first (RecomputeLadder.h). Least peaks, which are fast to compute, give the fewest
// steps that fit. Then the few candidates that fit are scheduled, and the fastest is taken. Where
// collectives are exposed, memory has a price: more steps may free memory in which more copies are
// kept, and their time may hide collectives. The linear program of the bound, solved for the
// changed step, tells how many steps are worth it. Optimizer state goes to the host, if that choice
// is free, where nothing fits otherwise or where the step is faster so.
//
//===----------------------------------------------------------------------===//

#include "passes/KernelChoice.h"
#include "passes/RecomputeChoice.h"
#include "passes/RecomputePredictor.h"

using namespace mlir;
using namespace fsdp;

using Candidate = RecomputeCandidate;
using Prediction = RecomputePrediction;
using Ladder = SmallVector<RecomputeStep>;

/// The ratio of step times that another choice must reach to be worth it.
static constexpr double kWorthIt = 0.99;

/// Reasons for optimizer state on the host, if that choice is free.
static constexpr StringLiteral
    kForMemory = "no schedule with the optimizer state on the device fits the memory cap",
    kForTime = "the memory that this leaves to activations saves more time than the copies take";

namespace {

/// The search with one choice of kernels and one place of optimizer state.
class CandidateSearch {
public:
  CandidateSearch(ModuleOp captured, const RecomputePredictor &predictor, OffloadPolicy offload,
                  int64_t capBytes)
      : cheapSteps(listCheapSteps(captured)), predictor(predictor), offload(offload),
        capBytes(capBytes) {}

  std::optional<Prediction> findBest(ArrayRef<Ladder> ladders);

private:
  bool fits(const Candidate &candidate) const {
    std::optional<int64_t> peak = predictor.findPeak(candidate);
    return peak && *peak <= capBytes;
  }
  std::optional<Prediction> predictIfFits(const Candidate &candidate) const {
    return fits(candidate) ? predictor.predict(candidate) : std::nullopt;
  }
  Candidate climb(ArrayRef<RecomputeStep> ladder, size_t count) const {
    return {Ladder(ladder.take_front(count)), offload, RecomputeReason::Memory};
  }
  std::optional<size_t> findFewestSteps(ArrayRef<RecomputeStep> ladder, size_t low) const;
  void undoSteps(Candidate &candidate, size_t low) const;
  std::optional<Prediction> predictWithRoom(const Candidate &first, ArrayRef<RecomputeStep> ladder,
                                            size_t count) const;
  std::optional<Prediction> predictFewest(ArrayRef<RecomputeStep> ladder, size_t low) const;
  std::optional<Prediction> predictLessThanCheap(ArrayRef<RecomputeStep> ladder,
                                                 double cheapNs) const;
  size_t countWorthwhile(const Prediction &from, ArrayRef<RecomputeStep> more) const;
  void refine(ArrayRef<RecomputeStep> ladder);
  bool take(std::optional<Prediction> found, double ratio);

  const Ladder cheapSteps;
  const RecomputePredictor &predictor;
  const OffloadPolicy offload;
  const int64_t capBytes;
  std::optional<Prediction> best;
};

} // namespace

/// The fewest steps, more than `low`, with which the step's least peak fits. In practice each step
/// lowers the peak. Where one does not, the result may be more steps than necessary, but it still
/// fits.
std::optional<size_t> CandidateSearch::findFewestSteps(ArrayRef<RecomputeStep> ladder,
                                                       size_t low) const {
  if (ladder.size() <= low || !fits(climb(ladder, ladder.size())))
    return std::nullopt;
  size_t high = ladder.size(); // known to fit
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    (fits(climb(ladder, middle)) ? high : low) = middle;
  }
  return high;
}

/// Undoes steps that are not needed, since the last step may save more than was missing: steps
/// after the first `low`, the most expensive ones first.
void CandidateSearch::undoSteps(Candidate &candidate, size_t low) const {
  // Each try computes a peak. Blocks are often equal: if one step cannot be undone, the same step
  // of another block cannot either, so a few failures end the search.
  constexpr unsigned kFailures = 3;
  Ladder byTime(ArrayRef(candidate.steps).drop_front(low));
  llvm::stable_sort(
      byTime, [](const RecomputeStep &a, const RecomputeStep &b) { return a.addedNs > b.addedNs; });
  unsigned numFailed = 0;
  for (const RecomputeStep &step : byTime) {
    Candidate without = candidate;
    llvm::erase(without.steps, step);
    if (fits(without))
      candidate = without;
    else if (++numFailed == kFailures)
      return;
  }
}

/// Predicts `first`, which has about `count` steps of the ladder. Live bytes may fit where the
/// arena with its holes does not, or leave only schedules that are far from the bound, which knows
/// of no holes: then a few more steps are tried.
std::optional<Prediction> CandidateSearch::predictWithRoom(const Candidate &first,
                                                           ArrayRef<RecomputeStep> ladder,
                                                           size_t count) const {
  constexpr double kFarFromBound = 1.05;
  std::optional<Prediction> best = predictor.predict(first);
  for (size_t more : {0, 1, 2, 4}) {
    const bool isFar =
        !best || (best->boundNs > 0 && best->makespanNs > kFarFromBound * best->boundNs);
    if (!isFar || count + more > ladder.size())
      break;
    std::optional<Prediction> found = predictor.predict(climb(ladder, count + more));
    if (found && (!best || found->makespanNs < best->makespanNs))
      best = std::move(found);
  }
  return best;
}

/// The fewest steps whose schedule fits.
std::optional<Prediction> CandidateSearch::predictFewest(ArrayRef<RecomputeStep> ladder,
                                                         size_t low) const {
  std::optional<size_t> fewest = findFewestSteps(ladder, low);
  if (!fewest)
    return std::nullopt;
  Candidate candidate = climb(ladder, *fewest);
  undoSteps(candidate, low);
  std::optional<Prediction> best = predictWithRoom(candidate, ladder, *fewest);
  for (size_t count : {(*fewest + ladder.size()) / 2, ladder.size()})
    if (!best)
      best = predictor.predict(climb(ladder, count));
  return best;
}

/// The best prediction with fewer steps than the whole `ladder` to `cheap`, which fits. With the
/// fewest steps, so little memory may be free that collectives are delayed.
std::optional<Prediction> CandidateSearch::predictLessThanCheap(ArrayRef<RecomputeStep> ladder,
                                                                double cheapNs) const {
  std::optional<Prediction> some = predictFewest(ladder, 0);
  if (!some || some->makespanNs < kWorthKeeping * cheapNs)
    return some;
  return predictor.predict(
      climb(ladder, std::min(some->candidate.steps.size() + 1, ladder.size())));
}

/// Returns whether the prediction is worth taking.
bool CandidateSearch::take(std::optional<Prediction> found, double ratio) {
  if (!found || (best && found->makespanNs >= ratio * best->makespanNs))
    return false;
  best = std::move(found);
  return true;
}

/// The number of steps of `more` with the least estimated step time: the best power of two, and
/// then the best on either side. (The estimate is nearly convex, as the prices of steps rise and a
/// linear program gains less and less from its right side. But few steps may free too little for
/// any copy.)
size_t CandidateSearch::countWorthwhile(const Prediction &from,
                                        ArrayRef<RecomputeStep> more) const {
  size_t best = 0;
  double bestNs = from.estimateNs({});
  auto improve = [&](size_t count) {
    const double ns = from.estimateNs(more.take_front(count));
    if (ns >= bestNs)
      return;
    best = count;
    bestNs = ns;
  };
  for (size_t count = 1; count < more.size(); count *= 2)
    improve(count);
  improve(more.size());
  for (size_t stride = best / 2; stride > 0; stride /= 2) {
    const size_t middle = best;
    improve(middle - stride);
    if (middle + stride <= more.size())
      improve(middle + stride);
  }
  return best;
}

/// Takes more steps of the ladder if the best prediction's collectives wait for memory.
void CandidateSearch::refine(ArrayRef<RecomputeStep> ladder) {
  // So little communication is exposed that recomputation cannot pay.
  constexpr double kEnough = 1.01;
  if (!best || best->makespanNs <= kEnough * best->computeNs)
    return;
  auto isTaken = [&](const RecomputeStep &step) {
    return llvm::is_contained(best->candidate.steps, step);
  };
  const Ladder more = llvm::filter_to_vector(ladder, std::not_fn(isTaken));
  const size_t count = countWorthwhile(*best, more);
  if (count == 0)
    return;
  ArrayRef<RecomputeStep> added = ArrayRef(more).take_front(count);
  Candidate refined = best->candidate;
  refined.reason = RecomputeReason::Time;
  refined.why.clear();
  // In the order of the ladder, since the last step of a group holds.
  refined.steps = llvm::filter_to_vector(ladder, [&](const RecomputeStep &step) {
    return isTaken(step) || llvm::is_contained(added, step);
  });
  take(predictor.predict(refined), kWorthIt);
}

std::optional<Prediction> CandidateSearch::findBest(ArrayRef<Ladder> ladders) {
  const Candidate cheap{.steps = cheapSteps, .offload = offload};
  if (fits(cheap))
    best = predictWithRoom(cheap, ladders.front(), cheapSteps.size());
  if (!best) {
    ArrayRef<RecomputeStep> taken;
    for (ArrayRef<RecomputeStep> ladder : ladders)
      if (take(predictFewest(ladder, cheapSteps.size()), kWorthIt))
        taken = ladder;
    refine(taken);
    return best;
  }
  const double cheapNs = best->makespanNs;
  ArrayRef<RecomputeStep> ladder = ladders.front();
  if (std::optional<Prediction> kept = predictIfFits({.offload = offload})) {
    kept->candidate.why = explainKept(kept->makespanNs / cheapNs, "the memory cap");
    take(kept, kWorthKeeping);
  } else if (!cheapSteps.empty()) {
    take(predictLessThanCheap(ladder.take_front(cheapSteps.size()), cheapNs), kWorthKeeping);
  }
  refine(ladder);
  return best;
}

/// The ladders to try. If activations may be offloaded there are several: one without offloading,
/// and one for each policy of the blocks whose copies the forward hides.
static FailureOr<SmallVector<Ladder>> findLadders(ModuleOp captured, const ScheduleSearch &search,
                                                  FusionChoice kernels, OffloadPolicy activations) {
  SmallVector<std::optional<RecomputePolicy>> offloaded = {std::nullopt};
  if (activations == OffloadPolicy::Auto)
    offloaded.append({RecomputePolicy::Cheap, RecomputePolicy::Selected, RecomputePolicy::Full});
  SmallVector<Ladder> ladders;
  for (std::optional<RecomputePolicy> policy : offloaded) {
    FailureOr<Ladder> found = findRecomputeLadder(captured, search.getCosts(), kernels, policy);
    if (failed(found))
      return failure();
    ladders.push_back(std::move(*found));
  }
  return ladders;
}

static std::optional<Prediction> findBest(ModuleOp captured, const RecomputePredictor &predictor,
                                          OffloadPolicy offload, ArrayRef<Ladder> ladders,
                                          int64_t capBytes) {
  auto findWith = [&](OffloadPolicy place) {
    return CandidateSearch(captured, predictor, place, capBytes).findBest(ladders);
  };
  std::optional<Prediction> best =
      findWith(offload == OffloadPolicy::All ? OffloadPolicy::All : OffloadPolicy::None);
  // Offloading the state costs little where computation hides the copies.
  if (offload != OffloadPolicy::Auto || (best && best->candidate.reason != RecomputeReason::Memory))
    return best;
  std::optional<Prediction> offloaded = findWith(OffloadPolicy::All);
  if (!offloaded || (best && offloaded->makespanNs >= kWorthIt * best->makespanNs))
    return best;
  offloaded->candidate.whyOffloaded = best ? kForTime : kForMemory;
  return offloaded;
}

/// The candidate that needs the least, if nothing fits.
static Candidate findLeast(ModuleOp captured, const ScheduleSearch &search,
                           const RecomputeRequest &request) {
  Candidate least;
  std::optional<int64_t> leastBytes;
  const OffloadPolicy offload = request.offload.optimizer;
  const auto choices = listKernelChoices(request.fusion, /*hasCap=*/true);
  for (FusionChoice kernels : llvm::reverse(choices)) {
    FailureOr<SmallVector<Ladder>> ladders =
        findLadders(captured, search, kernels, request.offload.activations);
    if (failed(ladders))
      continue;
    // The steps to `cheap` come first, so that `cheap` is the choice if further steps save nothing.
    ladders->insert(ladders->begin(), listCheapSteps(captured));
    for (const Ladder &steps : *ladders) {
      Candidate candidate{steps, OffloadPolicy::None, RecomputeReason::Memory};
      if (offload != OffloadPolicy::None)
        candidate.offload = OffloadPolicy::All;
      if (offload == OffloadPolicy::Auto)
        candidate.whyOffloaded = kForMemory;
      RecomputePredictor predictor(captured, search, kernels, request.offload.activations);
      std::optional<int64_t> bytes = predictor.findPeak(candidate);
      if (bytes && (!leastBytes || *bytes < *leastBytes)) {
        least = candidate;
        leastBytes = bytes;
      }
    }
  }
  return least;
}

FailureOr<RecomputeChoice> fsdp::chooseUnderCap(ModuleOp captured, const ScheduleSearch &search,
                                                const RecomputeRequest &request, int64_t capBytes) {
  for (FusionChoice kernels : listKernelChoices(request.fusion, /*hasCap=*/true)) {
    FailureOr<SmallVector<Ladder>> ladders =
        findLadders(captured, search, kernels, request.offload.activations);
    if (failed(ladders))
      return failure();
    RecomputePredictor predictor(captured, search, kernels, request.offload.activations);
    if (std::optional<Prediction> best =
            findBest(captured, predictor, request.offload.optimizer, *ladders, capBytes))
      return RecomputeChoice{best->candidate, best->makespanNs};
  }
  return RecomputeChoice{findLeast(captured, search, request), {}, /*isFitting=*/false};
}
