//===- RecomputeWithoutCap.cpp - Chooses recomputation without a cap ------===//
//
// Compares the policies `cheap` and `none`. A search takes most of a compilation's time, so it runs
// only where estimates do not decide.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Analysis/StepMemory.h"
#include "fsdp/Transforms/ScheduleEstimate.h"
#include "passes/RecomputeChoice.h"
#include "passes/RecomputePredictor.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;

using Candidate = RecomputeCandidate;

namespace {

/// A candidate's step, with its estimate and, if asked for, its searched schedule.
class Trial {
public:
  Trial(const RecomputePredictor &predictor, const cost::CostModel &costs,
        const Candidate &candidate)
      : predictor(predictor), module(predictor.shard(candidate)) {
    if (!module)
      return;
    ScopedDiagnosticHandler quiet(module->getContext(), [](Diagnostic &) { return success(); });
    if (FailureOr<ScheduleEstimate> found = estimateSchedule(*module, costs); succeeded(found))
      estimate = *found;
  }

  const std::optional<ScheduleEstimate> &getEstimate() const { return estimate; }
  /// The step time of the searched schedule; infinite if the search finds none.
  double searchNs() {
    if (!makespanNs) {
      std::optional<FoundSchedule> found = predictor.schedule(*module);
      makespanNs = found ? found->makespanNs : std::numeric_limits<double>::infinity();
    }
    return *makespanNs;
  }
  /// The arena of the searched schedule; none if the search finds none.
  std::optional<int64_t> searchArenaBytes() {
    if (std::isinf(searchNs()))
      return std::nullopt;
    FailureOr<StepMemory> memory = StepMemory::build(*module, ModulePhase::Scheduled);
    if (failed(memory))
      return std::nullopt;
    return planArena(memory->ranges.getRanges()).arenaBytes;
  }

private:
  const RecomputePredictor &predictor;
  OwningOpRef<ModuleOp> module;
  std::optional<ScheduleEstimate> estimate;
  std::optional<double> makespanNs;
};

} // namespace

static constexpr StringLiteral kNothingFound = "no schedule was found to compare it with";

std::string fsdp::explainKept(double share, StringRef limit) {
  return llvm::formatv("with nothing computed again the step takes {0:F1} % less than by policy "
                       "cheap, and fits {1}",
                       100 * (1 - share), limit);
}

/// The time of `kept` as a fraction of the time of `cheap`. If little communication is exposed, the
/// ratio of the estimates agrees with the ratio that searches find, within the 0.1 % at which a
/// search may end. If much is exposed, less computation need not shorten the step.
static double findShare(Trial &cheap, Trial &kept) {
  constexpr double kNear = 0.001, kLittleExposed = 1.05;
  const ScheduleEstimate &ofCheap = *cheap.getEstimate(), &ofKept = *kept.getEstimate();
  const double byBound = ofKept.boundNs / ofCheap.boundNs;
  const double byOrder = ofKept.makespanNs / ofCheap.makespanNs;
  const bool isClear = std::max(byBound, byOrder) < kWorthKeeping - kNear ||
                       std::min(byBound, byOrder) > kWorthKeeping + kNear;
  if (isClear && ofKept.makespanNs <= kLittleExposed * ofKept.boundNs)
    return byOrder;
  return kept.searchNs() / cheap.searchNs();
}

static RecomputeChoice because(Candidate candidate, const Twine &why) {
  candidate.why = why.str();
  return {std::move(candidate)};
}

/// Chooses `kept`, which takes `share` of the time, if it fits the device; else `cheap`.
static RecomputeChoice chooseByMemory(const Candidate &cheap, const Candidate &kept, Trial &step,
                                      double share, int64_t deviceBytes) {
  const std::string room = llvm::formatv("where there is room for {0}", deviceBytes);
  if (const int64_t bytes = step.getEstimate()->mostPeakBytes; bytes <= deviceBytes)
    return because(kept, explainKept(share, llvm::formatv("the device: at most {0} bytes are live "
                                                          "at once, {1}",
                                                          bytes, room)
                                                .str()));
  const std::optional<int64_t> arenaBytes = step.searchArenaBytes();
  if (!arenaBytes)
    return because(cheap, kNothingFound);
  if (*arenaBytes > deviceBytes)
    return because(cheap,
                   llvm::formatv("with nothing computed again the arena would have {0} bytes, and "
                                 "the device has room for {1}",
                                 *arenaBytes, deviceBytes));
  return because(
      kept,
      explainKept(
          share, llvm::formatv("the device: an arena of {0} bytes, {1}", *arenaBytes, room).str()));
}

RecomputeChoice fsdp::chooseWithoutCap(ModuleOp captured, const ScheduleSearch &search,
                                       const RecomputeRequest &request, int64_t deviceBytes) {
  const OffloadChoices &offload = request.offload;
  RecomputePredictor predictor(captured, search, request.fusion, offload.activations);
  const Candidate cheap{.steps = listCheapSteps(captured), .offload = offload.optimizer};
  const Candidate kept{.offload = offload.optimizer};
  Trial keptStep(predictor, search.getCosts(), kept);
  if (keptStep.getEstimate() && keptStep.getEstimate()->leastPeakBytes > deviceBytes)
    return because(cheap, llvm::formatv("with nothing computed again at least {0} bytes would be "
                                        "live at once, and the device has room for {1}",
                                        keptStep.getEstimate()->leastPeakBytes, deviceBytes));
  Trial cheapStep(predictor, search.getCosts(), cheap);
  if (!cheapStep.getEstimate() || !keptStep.getEstimate()) // a later pass reports the error
    return because(cheap, kNothingFound);
  const double share = findShare(cheapStep, keptStep);
  if (share >= kWorthKeeping)
    return because(cheap, llvm::formatv("with nothing computed again the step would take {0:F1} % "
                                        "less, too little for the memory",
                                        100 * (1 - share)));
  return chooseByMemory(cheap, kept, keptStep, share, deviceBytes);
}
