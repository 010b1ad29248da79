//===- StepTrace.cpp - The timelines of steps -----------------------------===//

#include "train/StepTrace.h"
#include "fsdp/Files/OutputFile.h"
#include "plan/CollectiveOrder.h"
#include "plan/EntryBytes.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <sstream>

using namespace fsdp::rt;
using Json = nlohmann::ordered_json;

namespace {

// As in lib/Explain/Trace.cpp, and one more track.
enum Track : int { Modules = 1, Compute, Gather, Reduce, Replicate };

struct Slice {
  int64_t begin = 0, end = 0;
  double us() const { return static_cast<double>(end - begin) / 1e3; }
};

/// The path up to and including its first number, else its first component: "layers.3" of
/// "layers.3.attention.wq".
std::string blockOf(const std::string &module) {
  size_t begin = 0;
  while (begin < module.size()) {
    size_t dot = std::min(module.find('.', begin), module.size());
    if (std::all_of(module.begin() + static_cast<std::ptrdiff_t>(begin),
                    module.begin() + static_cast<std::ptrdiff_t>(dot),
                    [](unsigned char c) { return std::isdigit(c); }))
      return module.substr(0, dot);
    begin = dot + 1;
  }
  return module.substr(0, module.find('.'));
}

/// The events of one step.
class StepWriter {
public:
  /// `process` tells the steps of a trace apart; that of a simulated step is 0.
  StepWriter(const PlanView &plan, int64_t step, int process)
      : plan(plan), step(step), process(process) {}

  /// Adds an operation to the timeline, unless it took no time.
  void addOperation(uint32_t entry, Slice slice);
  void addCollective(uint32_t first, Slice slice);
  void addWait(uint32_t entry, Slice slice);
  /// Appends the events to those of other steps.
  void take(Json &all);

private:
  struct Collective {
    uint32_t first = 0;
    Slice slice;
    int64_t exposedNs = 0;
    int64_t awaited = -1; // time at which computation goes on
  };

  static double us(int64_t ns) { return static_cast<double>(ns) / 1e3; }
  Json event(const char *phase, const std::string &name, Track track, double timeUs) const {
    return {{"ph", phase}, {"name", name}, {"pid", process}, {"tid", int(track)}, {"ts", timeUs}};
  }
  void addSlice(const std::string &name, Track track, Slice slice, Json arguments) {
    Json added = event("X", name, track, us(slice.begin));
    added["dur"] = slice.us();
    added["args"] = std::move(arguments);
    events.push_back(std::move(added));
  }
  void addNames();
  void endBlock();
  void writeCollective(const Collective &collective, size_t id);
  /// "mm.default", as in the simulated step.
  std::string operatorName(const fsdp_entry &call) const {
    std::string callee = plan.string(call.callee), overload = plan.string(call.overload);
    return callee.substr(callee.rfind(':') + 1) + "." + (overload.empty() ? "default" : overload);
  }
  /// The module of a call, the group of an entry that names one.
  std::string moduleOf(const fsdp_entry &entry) const {
    bool isOfGroup =
        entry.kind == FSDP_UPDATE || entry.kind == FSDP_SHARD_NORM || entry.kind == FSDP_CHUNK;
    return isOfGroup ? displayName(plan.string(plan.groups()[entry.target].name))
                     : plan.string(entry.module);
  }
  const char *partOf(const fsdp_entry &entry) const {
    bool updates = entry.kind == FSDP_UPDATE || entry.kind == FSDP_SHARD_NORM ||
                   entry.kind == FSDP_PARTIAL_NORM || entry.kind == FSDP_NORM_ALL_REDUCE_START ||
                   entry.kind == FSDP_CLIP_FACTOR;
    return updates ? "update" : entry.phase == FSDP_FORWARD ? "forward" : "backward";
  }

  const PlanView plan;
  const int64_t step;
  const int process;
  Json events = Json::array();
  std::vector<Collective> collectives;
  std::map<uint32_t, size_t> byHandle; // index into `collectives`
  std::string block;
  const char *blockPart = nullptr; // null: no block is open
  Slice blockSlice;
};

} // namespace

void StepWriter::endBlock() {
  if (blockPart)
    addSlice(block.empty() ? "root" : block, Modules, blockSlice, {{"part", blockPart}});
  blockPart = nullptr;
}

void StepWriter::addOperation(uint32_t index, Slice slice) {
  if (slice.end <= slice.begin)
    return;
  const fsdp_entry &entry = plan.entries()[index];
  std::string module = moduleOf(entry);
  std::string name = entry.kind == FSDP_UPDATE   ? "update"
                     : entry.kind == FSDP_CALL   ? operatorName(entry)
                     : entry.kind == FSDP_KERNEL ? plan.string(plan.kernelOf(entry).name)
                                                 : plan.describeEntry(entry);
  const char *part = partOf(entry);
  if (std::string next = blockOf(module); !blockPart || next != block || part != blockPart) {
    endBlock();
    block = next;
    blockPart = part;
    blockSlice = slice;
  }
  blockSlice.end = slice.end;
  Json arguments = {{"operator", name}, {"part", part}, {"entry", index}};
  if (int64_t bytes = movedBytes(plan, entry))
    arguments["bytes"] = bytes;
  addSlice(module.empty() ? name : module, Compute, slice, std::move(arguments));
}

void StepWriter::addCollective(uint32_t first, Slice slice) {
  std::span<const fsdp_entry> entries = plan.entries();
  uint32_t entry = first;
  do
    byHandle[entries[entry++].handle] = collectives.size();
  while (entry < entries.size() && startsCollective(entries[entry]) && entries[entry].coalesced);
  collectives.push_back({first, slice});
}

void StepWriter::addWait(uint32_t index, Slice slice) {
  auto found = byHandle.find(plan.entries()[index].handle);
  if (found == byHandle.end())
    return;
  Collective &collective = collectives[found->second];
  collective.exposedNs += slice.end - slice.begin;
  if (collective.awaited < 0)
    collective.awaited = slice.end;
}

void StepWriter::writeCollective(const Collective &collective, size_t id) {
  std::span<const fsdp_entry> entries = plan.entries();
  const fsdp_entry &first = entries[collective.first];
  bool across = first.kind == FSDP_ALL_REDUCE_START, gathers = first.kind == FSDP_ALL_GATHER_START;
  Track track = across ? Replicate : gathers ? Gather : Reduce;
  bool isNorm = reducesNumbers(first); // belongs to no group
  std::string name = isNorm    ? plan.describeEntry(first)
                     : across  ? "all_reduce"
                     : gathers ? "all_gather"
                               : "reduce_scatter";
  int64_t bytes = 0;
  size_t groups = 0;
  for (uint32_t i = collective.first;
       i == collective.first ||
       (i < entries.size() && startsCollective(entries[i]) && entries[i].coalesced);
       ++i, ++groups) {
    if (isNorm) {
      bytes += entries[i].bytes;
      continue;
    }
    const fsdp_group &group = plan.groups()[entries[i].target];
    name += std::string(groups ? " + " : " ") + displayName(plan.string(group.name));
    bytes += entries[i].bytes * (across    ? 1
                                 : gathers ? plan.communicatorOf(entries[i]).ranks
                                           : group.shards);
  }
  int64_t duration = collective.slice.end - collective.slice.begin;
  addSlice(name, track, collective.slice,
           {{"bytes", bytes},
            {"part", partOf(first)},
            {"hidden us", us(std::max<int64_t>(0, duration - collective.exposedNs))},
            {"exposed us", us(collective.exposedNs)}});
  if (collective.awaited < 0)
    return;
  // An arrow from the collective to the operation that waits for it. Each end binds to the slice
  // around it.
  Json from = event("s", "wait", track, us((collective.slice.begin + collective.slice.end) / 2));
  Json to = event("f", "wait", Compute, us(collective.awaited));
  to["bp"] = "e";
  for (Json *end : {&from, &to}) {
    (*end)["cat"] = "wait";
    (*end)["id"] = id;
    events.push_back(std::move(*end));
  }
}

void StepWriter::addNames() {
  auto add = [&](const char *kind, Track track, Json arguments) {
    Json named = event("M", kind, track, 0);
    named["args"] = std::move(arguments);
    events.push_back(std::move(named));
  };
  add("process_name", Modules,
      {{"name", std::string(plan.string(plan.tables().model)) + ", measured, step " +
                    std::to_string(step)}});
  add("process_sort_index", Modules, {{"sort_index", process}});
  constexpr std::pair<Track, const char *> tracks[] = {{Modules, "modules"},
                                                       {Compute, "compute"},
                                                       {Gather, "gather"},
                                                       {Reduce, "reduce"},
                                                       {Replicate, "replicate"}};
  for (auto [track, name] : tracks) {
    if (track == Replicate && std::ranges::none_of(plan.groups(), [&](const fsdp_group &group) {
          return plan.hasReplicas(group);
        }))
      continue;
    add("thread_name", track, {{"name", name}});
    add("thread_sort_index", track, {{"sort_index", int(track)}});
  }
}

void StepWriter::take(Json &all) {
  endBlock();
  for (size_t i = 0; i < collectives.size(); ++i)
    writeCollective(collectives[i], i);
  addNames();
  std::ranges::move(events, std::back_inserter(all));
}

static std::string describeMesh(const PlanView &plan) {
  const fsdp_plan &tables = plan.tables();
  std::string mesh =
      std::string(plan.string(tables.axis)) + " = " + std::to_string(plan.meshShards());
  if (tables.replicate_axis)
    mesh = std::string(plan.string(tables.replicate_axis)) + " = " +
           std::to_string(tables.replicas) + ", " + mesh;
  return mesh;
}

static void addStep(const PlanView &plan, const EntryTimes &times, StepWriter &writer) {
  for (uint32_t i = 0; i < plan.entries().size(); ++i) {
    if (!times.hasRun(i))
      continue;
    Slice slice{times.beginNs(i), times.endNs(i)};
    const fsdp_entry &entry = plan.entries()[i];
    if (startsCollective(entry))
      writer.addCollective(i, slice);
    else if (entry.kind == FSDP_WAIT)
      writer.addWait(i, slice);
    else
      writer.addOperation(i, slice);
  }
}

StepTrace::StepTrace(const PlanView &plan, Device &device, bool onHost,
                     std::span<const int64_t> steps)
    : plan(plan) {
  const size_t entries = plan.entries().size();
  for (int64_t step : steps)
    times.emplace(step, onHost ? EntryTimes(entries) : EntryTimes(entries, device));
}

EntryTracer *StepTrace::tracerOf(int64_t step) {
  auto found = times.find(step);
  return found == times.end() ? nullptr : &found->second;
}

Status StepTrace::write(int64_t last, std::ostream &os) {
  Json events = Json::array();
  int steps = 0;
  for (auto &[step, ofStep] : times) {
    if (step > last)
      break;
    if (Status status = ofStep.read(); !status.ok())
      return status;
    StepWriter writer(plan, step, ++steps);
    addStep(plan, ofStep, writer);
    writer.take(events);
  }
  const int64_t first = times.begin()->first;
  std::string costs = steps == 1 ? "measured, step " + std::to_string(first)
                                 : "measured, " + std::to_string(steps) + " steps from " +
                                       std::to_string(first) + " to " + std::to_string(last);
  os << Json{{"displayTimeUnit", "ns"},
             {"otherData",
              {{"model", plan.string(plan.tables().model)},
               {"mesh", describeMesh(plan)},
               {"costs", costs}}},
             {"traceEvents", std::move(events)}}
     << '\n';
  return {};
}

Status fsdp::rt::writeTraceFile(StepTrace &trace, int64_t last, const std::string &path) {
  std::ostringstream text;
  if (Status status = trace.write(last, text); !status.ok())
    return Status::error("--trace " + path + ": " + status.message());
  std::string problem;
  std::optional<OutputFile> file = OutputFile::open(path, problem);
  std::optional<std::string> wrong = problem;
  if (file) {
    wrong = file->write(text.view().data(), text.view().size());
    if (!wrong)
      wrong = file->commit();
  }
  if (wrong)
    return Status::error("--trace " + path + ": cannot be written: " + *wrong);
  return {};
}
