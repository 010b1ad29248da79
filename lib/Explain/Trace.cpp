//===- Trace.cpp - A simulated step for ui.perfetto.dev -------------------===//

#include "fsdp/Explain/Trace.h"

#include "PathRuns.h"
#include "fsdp/Explain/Blocks.h"
#include "llvm/Support/JSON.h"

using namespace fsdp::explain;
namespace json = llvm::json;

namespace {

enum Track : int { Modules = 1, Compute, Gather, Reduce, Replicate, Fetch, Store, Path };

class TraceWriter {
public:
  TraceWriter(const ScheduleView &view, llvm::raw_ostream &os) : view(view), out(os) {}

  void write() {
    out.object([&] {
      out.attribute("displayTimeUnit", "ns");
      out.attributeObject("otherData", [&] {
        out.attribute("model", view.labels.model);
        for (const auto &[key, value] : view.labels.facts)
          out.attribute(key, value);
        out.attribute("costs", view.labels.costSources);
      });
      out.attributeArray("traceEvents", [&] {
        writeNames();
        writeBlocks();
        writeOperations();
        for (size_t i = 0; i < view.collectives.size(); ++i)
          writeCollective(view.collectives[i], i);
        writeHostCopies();
        writeCriticalPath();
        writeMemory();
      });
    });
  }

private:
  void writeEvent(llvm::StringRef phase, llvm::StringRef name, Track track, double timeNs,
                  llvm::function_ref<void()> rest) {
    out.object([&] {
      out.attribute("ph", phase);
      out.attribute("name", name);
      out.attribute("pid", 0);
      out.attribute("tid", int(track));
      out.attribute("ts", timeNs / 1e3);
      rest();
    });
  }
  void writeSlice(llvm::StringRef name, Track track, fsdp::schedule::Interval interval,
                  llvm::function_ref<void()> arguments) {
    writeEvent("X", name, track, interval.startNs, [&] {
      out.attribute("dur", (interval.endNs - interval.startNs) / 1e3);
      out.attributeObject("args", arguments);
    });
  }
  void writeMetadata(llvm::StringRef kind, Track track, llvm::StringRef key, json::Value value) {
    writeEvent("M", kind, track, 0,
               [&] { out.attributeObject("args", [&] { out.attribute(key, value); }); });
  }

  void writeNames() {
    writeMetadata("process_name", Modules, "name",
                  view.labels.model.empty() ? "simulated step" : view.labels.model);
    std::vector<std::pair<Track, const char *>> tracks = {
        {Modules, "modules"}, {Compute, "compute"}, {Gather, "gather"}, {Reduce, "reduce"}};
    if (view.hasReplicas())
      tracks.emplace_back(Replicate, "replicate");
    if (!view.hostCopies.empty()) {
      tracks.emplace_back(Fetch, "host to device");
      tracks.emplace_back(Store, "device to host");
    }
    if (!view.criticalPath.empty())
      tracks.emplace_back(Path, "critical path");
    for (auto [track, name] : tracks) {
      writeMetadata("thread_name", track, "name", name);
      writeMetadata("thread_sort_index", track, "sort_index", track == Path ? 0 : int(track));
    }
  }

  void writeBlocks() {
    for (const Block &block : findBlocks(view))
      writeSlice(block.name.empty() ? "root" : block.name, Modules,
                 {view.operations[block.first].startNs, view.operations[block.last].endNs},
                 [&] { out.attribute("part", std::string(getName(block.part))); });
  }

  void writeOperations() {
    for (size_t i = 0; i < view.operations.size(); ++i) {
      if (view.operations[i].endNs == view.operations[i].startNs)
        continue; // views
      const OperationLabel &label = view.labels.operations[i];
      writeSlice(label.module.empty() ? label.name : label.module, Compute, view.operations[i],
                 [&] {
                   out.attribute("operator", label.name);
                   out.attribute("part", std::string(getName(label.part)));
                   out.attribute("operation", i);
                   out.attribute("live bytes", view.liveBytes[i]);
                   out.attribute("cost from", label.costOrigin);
                 });
    }
  }

  void writeCollective(const CollectiveView &collective, size_t id) {
    bool isGather = collective.kind == CollectiveKind::AllGather;
    Track track = isGather ? Gather : Reduce;
    writeSlice(describe(collective), track, collective.interval, [&] {
      out.attribute("bytes", collective.sizeBytes);
      out.attribute("part", std::string(getName(collective.part)));
      if (collective.byCopyEngine)
        out.attribute("by", "copy engines");
      out.attribute("issued at us", collective.issueNs / 1e3);
      out.attribute("hidden us", collective.hiddenNs() / 1e3);
      out.attribute("exposed us", collective.exposedNs / 1e3);
      out.attribute("cost from",
                    isGather ? view.labels.gatherCostOrigin : view.labels.reduceCostOrigin);
    });
    if (collective.across)
      writeSlice("all_reduce " + joinNames(collective.groups), Replicate, *collective.across, [&] {
        out.attribute("exposed us", collective.exposedAcrossNs / 1e3);
        out.attribute("cost from", view.labels.acrossCostOrigin);
      });
    if (collective.wait >= view.operations.size())
      return;
    // From the collective's end to the operation that waits for it. Perfetto attaches both ends to
    // the enclosing slice.
    double middleNs = (collective.interval.startNs + collective.interval.endNs) / 2;
    writeEvent("s", "wait", track, middleNs, [&] { writeFlow(id); });
    writeEvent("f", "wait", Compute, view.operations[collective.wait].startNs, [&] {
      out.attribute("bp", "e");
      writeFlow(id);
    });
  }
  void writeHostCopies() {
    for (const HostCopyView &copy : view.hostCopies)
      for (auto [track, name, interval] :
           {std::tuple(Fetch, "fetch ", copy.fetch), {Store, "store ", copy.store}})
        if (interval)
          writeSlice(name + copy.group, track, *interval, [&] {
            out.attribute("bytes", copy.sizeBytes);
            out.attribute("exposed us, both ways", copy.exposedNs / 1e3);
          });
  }
  void writeCriticalPath() {
    for (const PathRun &run : getPathRuns(view))
      writeSlice(run.name, Path, run.interval, [&] {
        out.attribute("share", (run.interval.endNs - run.interval.startNs) / view.makespanNs);
        out.attribute("slowdown us", run.slowdownNs / 1e3);
      });
  }
  void writeFlow(size_t id) {
    out.attribute("cat", "wait");
    out.attribute("id", id);
  }

  void writeMemory() {
    MemoryBytes used = {};
    for (const MemorySample &sample : view.memory)
      for (unsigned i = 0; i < kNumMemoryCategories; ++i)
        used[i] |= sample.bytes[i];
    MemoryBytes last;
    last.fill(-1);
    for (const MemorySample &sample : view.memory) {
      writeCounter("memory", sample.timeNs, getTotal(sample.bytes));
      for (unsigned i = 0; i < kNumMemoryCategories; ++i)
        if (used[i] && sample.bytes[i] != last[i])
          writeCounter("memory: " + std::string(getName(MemoryCategory(i))), sample.timeNs,
                       sample.bytes[i]);
      last = sample.bytes;
    }
  }
  void writeCounter(llvm::StringRef name, double timeNs, int64_t bytes) {
    writeEvent("C", name, Modules, timeNs,
               [&] { out.attributeObject("args", [&] { out.attribute("bytes", bytes); }); });
  }

  const ScheduleView &view;
  json::OStream out;
};

} // namespace

void fsdp::explain::writeTrace(const ScheduleView &view, llvm::raw_ostream &os) {
  TraceWriter(view, os).write();
  os << '\n';
}
