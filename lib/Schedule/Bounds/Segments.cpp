//===- Segments.cpp - Runs of operations without events -------------------===//

#include "Segments.h"

#include <algorithm>

using namespace fsdp::schedule;

static std::vector<uint8_t> findCuts(const CollectiveWindows &windows, bool coarsen) {
  size_t n = windows.slackBytes.size();
  std::vector<uint8_t> cuts(n + 1, coarsen ? 0 : 1);
  cuts[0] = cuts[n] = 1;
  for (const GatherWindow &gather : windows.gathers) {
    cuts[gather.gate] = cuts[gather.first] = 1; // a copy that may be kept has its gate at keptFrom
    if (gather.chunk)
      cuts[gather.keptFrom] = 1;
  }
  for (const ReductionWindow &reduction : windows.reductions) {
    cuts[reduction.ready] = cuts[reduction.deadline] = 1;
    if (reduction.acrossCost)
      cuts[reduction.update] = 1;
  }
  return cuts;
}

static void cutBehindTightest(const std::vector<int64_t> &slack, std::vector<uint8_t> &cuts) {
  for (size_t begin = 0; begin < slack.size();) {
    size_t tightest = begin, end = begin + 1;
    for (; !cuts[end]; ++end)
      if (slack[end] < slack[tightest])
        tightest = end;
    cuts[tightest + 1] = 1;
    begin = end;
  }
}

static Segment summarize(const Problem &problem, const CollectiveWindows &windows, uint32_t begin,
                         uint32_t end) {
  Segment segment{begin, end};
  auto first = windows.slackBytes.begin() + begin, last = windows.slackBytes.begin() + end;
  segment.leastSlackBytes = *std::min_element(first, last);
  segment.lastSlackBytes = *std::prev(last);
  for (uint32_t i = begin; i < end; ++i)
    segment.durationNs += problem.operations[i].durationNs;
  return segment;
}

std::vector<Segment> fsdp::schedule::findSegments(const Problem &problem,
                                                  const CollectiveWindows &windows, bool coarsen) {
  std::vector<uint8_t> cuts = findCuts(windows, coarsen);
  if (coarsen && problem.memoryCapBytes)
    cutBehindTightest(windows.slackBytes, cuts);
  std::vector<Segment> segments;
  for (uint32_t begin = 0, end = 1; end < cuts.size(); ++end) {
    if (!cuts[end])
      continue;
    segments.push_back(summarize(problem, windows, begin, end));
    begin = end;
  }
  return segments;
}
