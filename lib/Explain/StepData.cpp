//===- StepData.cpp - The JSON data of pages ------------------------------===//

#include "StepData.h"

#include "GroupRows.h"
#include "fsdp/Explain/Blocks.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace fsdp::explain;
namespace json = llvm::json;

namespace {

class StepWriter {
public:
  StepWriter(const ScheduleView &view, const ExplainedPlan *plan, json::OStream &out)
      : view(view), plan(plan), out(out) {}

  void write() {
    writeStep();
    writeOperations();
    writeBlocks();
    writeCollectives();
    writeLanes();
    writePath();
    writeMemory();
    if (plan)
      writeReasons();
    // At the end, when all strings are known.
    out.attributeArray("strings", [&] {
      for (const std::string &text : strings)
        out.value(text);
    });
  }

private:
  static int64_t toNs(double ns) { return std::llround(ns); }

  size_t getString(const std::string &text) {
    auto [entry, isNew] = indexOf.try_emplace(text, strings.size());
    if (isNew)
      strings.push_back(text);
    return entry->second;
  }

  /// Writes a list with one number per operation.
  template <typename Function> void writeColumn(llvm::StringRef name, Function get) {
    out.attributeArray(name, [&] {
      for (size_t i = 0; i < view.operations.size(); ++i)
        out.value(static_cast<int64_t>(get(i)));
    });
  }

  void writeStep() {
    out.attribute("model", view.labels.model);
    out.attributeArray("facts", [&] {
      for (const auto &[key, value] : view.labels.facts)
        out.value(json::Array{key, value});
      if (!view.labels.costSources.empty())
        out.value(json::Array{"costs", view.labels.costSources});
      if (std::string host = describeHostCopies(view); !host.empty())
        out.value(json::Array{"on the host", host});
    });
    out.attribute("makespanNs", toNs(view.makespanNs));
    out.attribute("modelPeakNs", toNs(view.modelPeakNs));
    out.attribute("computeNs", toNs(view.getComputeNs()));
    out.attribute("collectiveNs", toNs(view.getCollectiveNs()));
    out.attribute("exposedGatherNs", toNs(view.getExposedNs(CollectiveKind::AllGather)));
    out.attribute("exposedReduceNs", toNs(view.getExposedNs(CollectiveKind::ReduceScatter) +
                                          view.getExposedAcrossNs()));
    out.attribute("capBytes",
                  view.memoryCapBytes ? json::Value(*view.memoryCapBytes) : json::Value(nullptr));
    out.attributeObject("peak", [&] {
      out.attribute("bytes", view.getPeakBytes());
      out.attribute("sample", view.peakSample);
      out.attribute("place", view.operations.empty()
                                 ? ""
                                 : describe(view.labels.operations[view.peakOperation]));
    });
  }

  void writeOperations() {
    const std::vector<OperationLabel> &labels = view.labels.operations;
    out.attributeObject("operations", [&] {
      writeColumn("start", [&](size_t i) { return toNs(view.operations[i].startNs); });
      writeColumn("end", [&](size_t i) { return toNs(view.operations[i].endNs); });
      writeColumn("part", [&](size_t i) { return labels[i].part; });
      writeColumn("module", [&](size_t i) { return getString(labels[i].module); });
      writeColumn("name", [&](size_t i) { return getString(labels[i].name); });
      writeColumn("origin", [&](size_t i) { return getString(labels[i].costOrigin); });
      writeColumn("live", [&](size_t i) { return view.liveBytes[i]; });
    });
  }

  void writeBlocks() {
    out.attributeArray("blocks", [&] {
      for (const Block &block : findBlocks(view))
        out.value(json::Array{block.name, int64_t(block.part), block.first, block.last});
    });
  }

  void writeCollectives() {
    out.attributeArray("collectives", [&] {
      for (size_t i = 0; i < view.collectives.size(); ++i) {
        const CollectiveView &collective = view.collectives[i];
        bool isGather = collective.kind == CollectiveKind::AllGather;
        out.object([&] {
          out.attribute("kind", std::string(getName(collective.kind)));
          out.attribute("groups", json::Array(collective.groups));
          out.attribute("part", int64_t(collective.part));
          out.attribute("bytes", collective.sizeBytes);
          out.attribute("start", toNs(collective.interval.startNs));
          out.attribute("end", toNs(collective.interval.endNs));
          out.attribute("exposed", toNs(collective.exposedNs));
          if (plan) {
            out.attribute("issue", toNs(collective.issueNs));
            out.attribute("wait", collective.wait);
            out.attribute("place", getPlace(view, collective.launch));
          }
          out.attribute("origin",
                        isGather ? view.labels.gatherCostOrigin : view.labels.reduceCostOrigin);
          if (!plan)
            return;
          const LaunchReason &reason = plan->explanation.launches[i];
          out.attribute("why", describe(reason, view));
          out.attribute("saved", toNs(reason.latencySavedNs));
        });
      }
    });
  }

  /// Writes the other lanes that have items.
  void writeLanes() {
    auto writeItem = [&](const std::vector<std::string> &groups, int64_t bytes,
                         fsdp::schedule::Interval interval, double exposedNs) {
      out.object([&] {
        out.attribute("groups", json::Array(groups));
        out.attribute("bytes", bytes);
        out.attribute("start", toNs(interval.startNs));
        out.attribute("end", toNs(interval.endNs));
        out.attribute("exposed", toNs(exposedNs));
      });
    };
    auto writeLane = [&](llvm::StringRef kind, llvm::StringRef name,
                         llvm::function_ref<void()> writeItems) {
      out.object([&] {
        out.attribute("kind", kind);
        out.attribute("name", name);
        out.attributeArray("items", writeItems);
      });
    };
    out.attributeArray("lanes", [&] {
      if (view.hasReplicas())
        writeLane("all_reduce", "replicate", [&] {
          for (const CollectiveView &collective : view.collectives)
            if (collective.across)
              writeItem(collective.groups, collective.acrossBytes, *collective.across,
                        collective.exposedAcrossNs);
        });
      if (view.hostCopies.empty())
        return;
      writeLane("fetch", "to device", [&] {
        for (const HostCopyView &copy : view.hostCopies)
          if (copy.fetch)
            writeItem({copy.group}, copy.sizeBytes, *copy.fetch, copy.exposedNs); // both ways
      });
      writeLane("store", "to host", [&] {
        for (const HostCopyView &copy : view.hostCopies)
          writeItem({copy.group}, copy.sizeBytes, copy.store, copy.fetch ? 0 : copy.exposedNs);
      });
    });
  }

  /// Writes kind, start and end of the critical path's segments; computation as runs.
  void writePath() {
    out.attributeArray("path", [&] {
      const std::vector<PathSegment> &path = view.criticalPath;
      for (size_t first = 0, last = 0; first < path.size(); first = ++last) {
        while (last + 1 < path.size() && path[first].kind == PathKind::Computation &&
               path[last + 1].kind == PathKind::Computation)
          ++last;
        out.value(json::Array{int64_t(path[first].kind), toNs(path[first].interval.startNs),
                              toNs(path[last].interval.endNs)});
      }
    });
  }

  /// Writes each category as the samples at which it changes, with its new bytes.
  void writeMemory() {
    out.attributeArray("categories", [&] {
      for (unsigned i = 0; i < kNumMemoryCategories; ++i)
        out.value(std::string(getName(MemoryCategory(i))));
    });
    out.attributeObject("memory", [&] {
      out.attributeArray("time", [&] {
        for (const MemorySample &sample : view.memory)
          out.value(toNs(sample.timeNs));
      });
      out.attributeArray("changes", [&] {
        for (unsigned i = 0; i < kNumMemoryCategories; ++i)
          writeChanges(i);
      });
    });
  }
  void writeChanges(unsigned category) {
    json::Array samples, bytes;
    int64_t last = 0;
    for (size_t i = 0; i < view.memory.size(); ++i) {
      if (view.memory[i].bytes[category] == last)
        continue;
      last = view.memory[i].bytes[category];
      samples.push_back(i);
      bytes.push_back(last);
    }
    out.value(json::Array{std::move(samples), std::move(bytes)});
  }

  /// Writes the bound and the reasons, which only a simulated schedule has.
  void writeReasons() {
    out.attributeObject("bound", [&] {
      out.attribute("ns", plan->bound.makespanNs);
      out.attribute("kind", std::string(getName(plan->bound.kind)));
    });
    out.attributeArray("rows", [&] {
      for (const GroupRow &row : getGroupRows(*plan))
        out.object([&] {
          out.attribute("group", plan->problem.groups[row.group].name);
          out.attribute("part", int64_t(row.part));
          out.attribute("what", row.what);
          out.attribute("bytes", row.sizeBytes);
          out.attribute("collective",
                        row.collective ? json::Value(*row.collective) : json::Value(nullptr));
          out.attribute("why", row.whyKept);
        });
    });
  }

  const ScheduleView &view;
  const ExplainedPlan *plan; // null for a measured step
  json::OStream &out;
  std::vector<std::string> strings;
  llvm::StringMap<size_t> indexOf;
};

} // namespace

void fsdp::explain::writeStepData(const ScheduleView &view, const ExplainedPlan *plan,
                                  json::OStream &out) {
  StepWriter(view, plan, out).write();
}
