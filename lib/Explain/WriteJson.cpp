//===- WriteJson.cpp - A schedule and its reasons as JSON -----------------===//

#include "GroupRows.h"
#include "PathRuns.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace fsdp::explain;
namespace json = llvm::json;

static int64_t toNs(double ns) { return std::llround(ns); }

static void writeStep(const ExplainedPlan &plan, json::OStream &out) {
  const ScheduleView &view = plan.view;
  out.attribute("model", view.labels.model);
  out.attributeObject("facts", [&] {
    for (const auto &[key, value] : view.labels.facts)
      out.attribute(key, value);
    out.attribute("costs", view.labels.costSources);
  });
  out.attribute("stepNs", toNs(view.makespanNs));
  out.attribute("boundNs", toNs(plan.bound.makespanNs));
  out.attribute("mfu", view.getUtilization());
  out.attribute("computeNs", toNs(view.getComputeNs()));
  out.attribute("collectiveNs", toNs(view.getCollectiveNs()));
  out.attributeObject("exposedNs", [&] {
    out.attribute("gathers", toNs(view.getExposedNs(CollectiveKind::AllGather)));
    out.attribute("reductions", toNs(view.getExposedNs(CollectiveKind::ReduceScatter)));
    out.attribute("replicas", toNs(view.getExposedAcrossNs()));
    out.attribute("state", toNs(view.getExposedCopyNs()));
  });
  out.attribute("capBytes",
                view.memoryCapBytes ? json::Value(*view.memoryCapBytes) : json::Value(nullptr));
}

static void writePeak(const ScheduleView &view, json::OStream &out) {
  if (view.memory.empty())
    return;
  const MemorySample &peak = view.memory[view.peakSample];
  out.attributeObject("peak", [&] {
    out.attribute("bytes", view.getPeakBytes());
    out.attribute("timeNs", toNs(peak.timeNs));
    out.attribute("place", describe(view.labels.operations[view.peakOperation]));
    out.attributeObject("categories", [&] {
      for (unsigned i = 0; i < kNumMemoryCategories; ++i)
        out.attribute(getName(MemoryCategory(i)), peak.bytes[i]);
    });
  });
}

static void writeDecisions(const ScheduleView &view, json::OStream &out) {
  out.attributeArray("decisions", [&] {
    for (const DecisionView &decision : view.decisions)
      out.object([&] {
        out.attribute("groups", json::Array(decision.groups));
        out.attribute("what", decision.what);
        out.attribute("asked", decision.asked);
        out.attribute("decided", decision.decided);
        out.attribute("why", decision.why);
      });
  });
}

static void writeRows(const ExplainedPlan &plan, json::OStream &out) {
  out.attributeArray("rows", [&] {
    for (const GroupRow &row : getGroupRows(plan))
      out.object([&] {
        out.attribute("group", plan.problem.groups[row.group].name);
        out.attribute("part", std::string(getName(row.part)));
        out.attribute("what", row.what);
        out.attribute("bytes", row.sizeBytes);
        if (row.collective) {
          const CollectiveView &collective = plan.view.collectives[*row.collective];
          out.attribute("issuedBefore", getPlace(plan.view, collective.launch));
          out.attribute("startNs", toNs(collective.interval.startNs));
          out.attribute("durationNs", toNs(collective.durationNs()));
          out.attribute("exposedNs", toNs(collective.exposedNs));
        }
        out.attribute("why", row.getWhy());
      });
  });
}

/// All segments, from 0 to the end of the step without a gap.
static void writeCriticalPath(const ExplainedPlan &plan, json::OStream &out) {
  const ScheduleView &view = plan.view;
  out.attributeArray("criticalPath", [&] {
    for (const PathSegment &segment : view.criticalPath)
      out.object([&] {
        const int64_t startNs = toNs(segment.interval.startNs);
        out.attribute("kind", std::string(getName(segment.kind)));
        out.attribute("startNs", startNs);
        out.attribute("durationNs", toNs(segment.interval.endNs) - startNs);
        out.attribute("slowdownNs", toNs(segment.slowdownNs));
        switch (segment.kind) {
        case PathKind::Computation: {
          const OperationLabel &label = view.labels.operations[segment.index];
          out.attribute("module", label.module);
          out.attribute("operator", label.name);
          out.attribute("part", std::string(getName(label.part)));
          return;
        }
        case PathKind::Gather:
        case PathKind::Reduction:
        case PathKind::AllReduce:
          out.attribute("groups", json::Array(view.collectives[segment.index].groups));
          break;
        case PathKind::Fetch:
        case PathKind::Store:
          out.attribute("copy", view.hostCopies[segment.index].group);
          break;
        }
        out.attribute("why", describeCause(segment, plan));
      });
  });
}

static void writeSensitivity(llvm::ArrayRef<WhatIf> changes, json::OStream &out) {
  if (changes.empty())
    return;
  out.attributeArray("whatIf", [&] {
    for (const WhatIf &change : changes)
      out.object([&] {
        out.attribute("change", change.change);
        out.attribute("stepNs", toNs(change.stepNs));
      });
  });
}

void fsdp::explain::writeJson(const ExplainedPlan &plan, llvm::ArrayRef<WhatIf> changes,
                              llvm::raw_ostream &os) {
  json::OStream out(os, /*IndentSize=*/1);
  out.object([&] {
    writeStep(plan, out);
    writePeak(plan.view, out);
    writeDecisions(plan.view, out);
    writeRows(plan, out);
    writeCriticalPath(plan, out);
    writeSensitivity(changes, out);
  });
  os << '\n';
}
