//===- LabelBound.cpp - Lower bound of all plans of a label ---------------===//

#include "LabelBound.h"

#include <algorithm>
#include <array>

using namespace fsdp::schedule;

namespace {

/// A relaxation of the rest of a step: memory is unlimited, every copy that can still be kept is
/// kept, and each lane pays one latency. Its time is a lower bound of all plans.
class RelaxedStep {
public:
  RelaxedStep(const LabelProblem &problem, const Label &label, uint32_t begin,
              std::vector<double> &arrivedNs)
      : problem(problem), label(label), begin(begin), nowNs(label.nowNs), gatherNs(label.laneNs[0]),
        reduceNs(label.laneNs[problem.oneLane ? 0 : 1]), dueNs(label.laneNs[0]),
        unlaunched(label.ready), arrivedNs(arrivedNs) {}
  double run();

private:
  double arrivedAt(uint32_t position) const { return arrivedNs[std::max(position, begin)]; }
  void launch(Set reductions);
  void waitForReductions(Set due);
  void waitForGather(uint32_t use);
  double contendedNs() const;

  const LabelProblem &problem;
  const Label &label;
  const uint32_t begin;
  double nowNs;
  double gatherNs, reduceNs; // end of all due or launched work on the lane
  double dueNs;              // with one lane: end of the due gathers and reductions
  Set unlaunched;            // ready reductions
  double gatherWorkNs = 0, reduceWorkNs = 0;
  std::vector<double> &arrivedNs; // at each position, from `begin` on
  /// For each reduction, the end of it and of all that were ready before.
  std::array<double, kMostMembers> reducedNs;
};

} // namespace

void RelaxedStep::launch(Set reductions) {
  forEachMember(reductions, [&](uint32_t r) {
    double workNs = problem.reduceCost.nsPerByte * double(problem.reductions[r].inputBytes);
    if (reduceWorkNs == 0)
      workNs += problem.reduceCost.latencyNs;
    reduceWorkNs += workNs;
    reducedNs[r] = reduceNs = std::max(reduceNs, nowNs) + workNs;
  });
}

void RelaxedStep::waitForReductions(Set due) {
  for (const InFlight &bucket : label.reductions)
    if (bucket.members & due)
      nowNs = std::max(nowNs, bucket.endNs);
  forEachMember(due & unlaunched, [&](uint32_t r) {
    const LabelReduction &reduction = problem.reductions[r];
    nowNs = std::max(nowNs, arrivedAt(reduction.ready) +
                                problem.reduceCost.durationNs(reduction.inputBytes));
    // Are all reductions that were ready before it due as well?
    if ((unlaunched & (setOf(r) - 1)) == 0)
      nowNs = std::max(nowNs, reducedNs[r]);
    dueNs += problem.reduceCost.nsPerByte * double(reduction.inputBytes);
    unlaunched &= ~setOf(r);
  });
}

void RelaxedStep::waitForGather(uint32_t index) {
  const LabelUse &use = problem.uses[index];
  if (label.present & setOf(index)) {
    nowNs = std::max(nowNs, label.arrivalNs(index));
    return;
  }
  if (use.isServed || (use.isKeepable && use.keptFrom >= begin))
    return;
  double workNs = problem.gatherCost.nsPerByte * double(use.sizeBytes);
  if (gatherWorkNs == 0)
    workNs += problem.gatherCost.latencyNs;
  gatherWorkNs += workNs;
  dueNs += workNs;
  gatherNs = std::max(gatherNs, arrivedAt(use.leastGate)) + workNs;
  nowNs = std::max(
      {nowNs, gatherNs, arrivedAt(use.gate) + problem.gatherCost.durationNs(use.sizeBytes)});
}

/// Computation overlapping a busy lane is slower: it loses (1 - 1/contention) of that time, and all
/// of the time for which it waits.
double RelaxedStep::contendedNs() const {
  double busyNs = problem.oneLane
                      ? label.laneNs[0] + gatherWorkNs + reduceWorkNs
                      : std::max(label.laneNs[0] + gatherWorkNs, label.laneNs[1] + reduceWorkNs);
  return label.nowNs + problem.remainingNs[begin] +
         (1 - 1 / problem.computeContention) * (busyNs - label.nowNs);
}

double RelaxedStep::run() {
  for (uint32_t i = begin; i < problem.items.size(); ++i) {
    const LabelItem &item = problem.items[i];
    arrivedNs[i] = nowNs;
    unlaunched |= item.gettingReady;
    launch(i == begin ? unlaunched : item.gettingReady);
    waitForReductions(item.due);
    forEachMember(item.beginning, [&](uint32_t use) { waitForGather(use); });
    if (problem.oneLane && dueNs > label.laneNs[0])
      nowNs = std::max(nowNs, dueNs);
    nowNs += item.operation.durationNs;
  }
  return problem.computeContention > 1 ? std::max(nowNs, contendedNs()) : nowNs;
}

LabelBound::LabelBound(const LabelProblem &problem)
    : problem(problem), tailsNs(problem.items.size()), arrivedNs(problem.items.size()) {
  Label idle; // everything is gathered and reduced
  idle.present = ~Set(0);
  for (uint32_t i = 0; i < problem.items.size(); ++i)
    tailsNs[i] = problem.items[i].operation.durationNs + (*this)(idle, i + 1);
}

double LabelBound::operator()(const Label &label, uint32_t position) {
  return RelaxedStep(problem, label, position, arrivedNs).run();
}
