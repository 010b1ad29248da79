//===- Words.h - Points in words ---------------------------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_WORDS_H
#define FSDP_TOOLS_PLAN_WORDS_H

#include "Point.h"

namespace fsdp::plan_tool {

/// "1 microbatch", "4 microbatches reduced after the last".
std::string describeMicrobatches(const PointRequest &request);

/// "llama on 64 ranks, recompute auto, cap 40.0 GiB", with replicas and microbatches if several.
std::string describe(const std::string &model, const PointRequest &request);

/// "does not fit: 41.2 GiB at least".
std::string describeRefusal(const CapRefusal &refusal);

/// The request, then time and memory of its step, or that it does not fit.
std::string describeOutcome(const SweepPoint &point);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_WORDS_H
