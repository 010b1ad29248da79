//===- Words.cpp - Points in words -----------------------------------------===//

#include "Words.h"

#include "fsdp/Explain/Quantities.h"

using namespace fsdp;
using namespace fsdp::explain;

std::string fsdp::plan_tool::describeMicrobatches(const PointRequest &request) {
  if (request.microbatches == 1)
    return "1 microbatch";
  return formatCount(request.microbatches) + " microbatches reduced after " +
         (request.gradientSync == "last" ? "the last" : "each");
}

std::string fsdp::plan_tool::describe(const std::string &model, const PointRequest &request) {
  std::string words = model + " on " + formatCount(request.mesh.getRanks()) + " ranks";
  if (request.mesh.replicas > 1)
    words += ", " + formatCount(request.mesh.replicas) + " replicas";
  if (request.microbatches > 1)
    words += ", " + describeMicrobatches(request);
  words += ", recompute " + stringifyRecomputePolicy(request.recompute).str();
  if (request.capBytes > 0)
    words += ", cap " + formatBytes(request.capBytes);
  return words;
}

std::string fsdp::plan_tool::describeRefusal(const CapRefusal &refusal) {
  return "does not fit: " + formatBytes(refusal.leastBytes) + " at least" +
         (refusal.place.empty() ? "" : ", at " + refusal.place);
}

std::string fsdp::plan_tool::describeOutcome(const SweepPoint &point) {
  const std::optional<PlannedStep> &step = point.step;
  return describe(point.model, point.request) + ": " +
         (step ? formatTime(step->stepNs) + " a step in " + formatBytes(step->getNeededBytes())
               : describeRefusal(point.refusal));
}
