//===- MeasuredStep.cpp - Reads the timelines of measured steps ----------===//

#include "fsdp/Explain/MeasuredStep.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>
#include <limits>
#include <map>

using namespace fsdp::explain;
namespace json = llvm::json;

namespace {

/// The same numbers as in Trace.cpp and in the runtime's StepTrace.cpp.
enum Track : int64_t { Compute = 2, Gather, Reduce, Replicate };

struct Slice {
  std::string name;
  int64_t track = 0;
  double startUs = 0, durationUs = 0;
  const json::Object *arguments = nullptr;
  MeasuredSlice inNs() const { return {startUs * 1e3, durationUs * 1e3}; }
};

/// Collects the slices of one step.
class StepReader {
public:
  llvm::Error addSlice(const Slice &slice);
  /// The collective that was added last has been awaited at this time.
  void addWait(double timeUs) {
    if (lastIsCollective)
      step.collectives.back().awaitedNs = timeUs * 1e3;
  }
  /// Times are from the beginning of the step.
  MeasuredStep finish();

private:
  llvm::Error addOperation(const Slice &slice);
  llvm::Error addCollective(const Slice &slice, llvm::StringRef kind);
  void measureBetween();

  MeasuredStep step;
  bool lastIsCollective = false;
  double firstUs = std::numeric_limits<double>::infinity(), lastUs = -firstUs;
};

} // namespace

static std::optional<StepPart> readPart(const json::Object &arguments) {
  std::optional<llvm::StringRef> name = arguments.getString("part");
  for (StepPart part : {StepPart::Forward, StepPart::Backward, StepPart::Update})
    if (name && *name == llvm::StringRef(getName(part)))
      return part;
  return std::nullopt;
}

llvm::Error StepReader::addOperation(const Slice &slice) {
  std::optional<llvm::StringRef> op = slice.arguments->getString("operator");
  std::optional<StepPart> part = readPart(*slice.arguments);
  if (!op || !part)
    return llvm::createStringError("lacks its operator or its part of the step");
  // A slice is named by its module, in the root module by its operator.
  step.operations.push_back(
      {slice.inNs(), *op == slice.name ? std::string() : slice.name, op->str(), *part});
  step.operations.back().entry = slice.arguments->getInteger("entry");
  return llvm::Error::success();
}

/// The all-reduces of the norm of all gradients and of the parameters' amax have no group. The wait
/// for them counts as computation.
llvm::Error StepReader::addCollective(const Slice &slice, llvm::StringRef kind) {
  std::optional<double> exposedUs = slice.arguments->getNumber("exposed us");
  if (!exposedUs)
    return llvm::createStringError("lacks 'exposed us'");
  lastIsCollective = llvm::StringRef(slice.name).starts_with(kind);
  if (!lastIsCollective) {
    const double endUs = slice.startUs + slice.durationUs;
    const bool isAmax = llvm::StringRef(slice.name).ends_with("amax");
    step.operations.push_back({{(endUs - *exposedUs) * 1e3, *exposedUs * 1e3},
                               "",
                               slice.name,
                               isAmax ? StepPart::Forward : StepPart::Update});
    return llvm::Error::success();
  }
  const double endNs = (slice.startUs + slice.durationUs) * 1e3; // unless addWait says more
  step.collectives.push_back({slice.inNs(), slice.name, *exposedUs * 1e3, endNs});
  return llvm::Error::success();
}

llvm::Error StepReader::addSlice(const Slice &slice) {
  if (slice.track >= Compute && slice.track <= Replicate) {
    firstUs = std::min(firstUs, slice.startUs);
    lastUs = std::max(lastUs, slice.startUs + slice.durationUs);
  }
  switch (slice.track) {
  case Compute:
    return addOperation(slice);
  case Gather:
    return addCollective(slice, "all_gather ");
  case Reduce:
    return addCollective(slice, "reduce_scatter ");
  case Replicate:
    return addCollective(slice, "all_reduce ");
  default:
    return llvm::Error::success();
  }
}

/// The wait for a collective is before the first operation that starts after it.
void StepReader::measureBetween() {
  double freeNs = 0; // since then the compute stream has run nothing
  std::vector<double> waitsNs(step.operations.size());
  for (const MeasuredCollective &collective : step.collectives) {
    auto next = llvm::partition_point(step.operations, [&](const MeasuredOperation &operation) {
      return operation.startNs < collective.awaitedNs;
    });
    if (next != step.operations.end())
      waitsNs[next - step.operations.begin()] += collective.exposedNs;
  }
  for (auto [operation, waitNs] : llvm::zip_equal(step.operations, waitsNs)) {
    operation.beforeNs = std::max(0.0, std::round(operation.startNs - freeNs - waitNs));
    freeNs = std::max(freeNs, operation.startNs + operation.durationNs);
  }
}

MeasuredStep StepReader::finish() {
  step.stepNs = (lastUs - firstUs) * 1e3;
  for (MeasuredOperation &operation : step.operations)
    operation.startNs -= firstUs * 1e3;
  for (MeasuredCollective &collective : step.collectives) {
    collective.startNs -= firstUs * 1e3;
    collective.awaitedNs -= firstUs * 1e3;
  }
  llvm::stable_sort(step.operations, [](const MeasuredOperation &a, const MeasuredOperation &b) {
    return a.startNs < b.startNs;
  });
  measureBetween();
  return std::move(step);
}

/// An event of the trace: a slice, or the end of an arrow from a collective to the operation that
/// waited for it. Errors continue "event 7 ...".
static llvm::Error readEvent(const json::Object &event, std::map<int64_t, StepReader> &steps) {
  std::optional<llvm::StringRef> phase = event.getString("ph"), name = event.getString("name");
  std::optional<double> timeUs = event.getNumber("ts");
  const int64_t process = event.getInteger("pid").value_or(0);
  if (phase == llvm::StringRef("f") && timeUs)
    steps[process].addWait(*timeUs);
  if (phase != llvm::StringRef("X"))
    return llvm::Error::success();
  std::optional<int64_t> track = event.getInteger("tid");
  std::optional<double> durationUs = event.getNumber("dur");
  const json::Object *arguments = event.getObject("args");
  if (!name || !track || !timeUs || !durationUs || *durationUs < 0 || !arguments)
    return llvm::createStringError("lacks its name, tid, ts, dur or args, or has a negative dur");
  return steps[process].addSlice({name->str(), *track, *timeUs, *durationUs, arguments});
}

llvm::Expected<MeasuredRun> fsdp::explain::readMeasuredRun(const std::string &path) {
  auto fail = [&](const llvm::Twine &message) {
    return llvm::createStringError("trace '" + path + "': " + message);
  };
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return fail(buffer.getError().message());
  llvm::Expected<json::Value> file = json::parse((*buffer)->getBuffer());
  if (!file)
    return fail("not JSON, or cut off: " + llvm::toString(file.takeError()));
  const json::Object *object = file->getAsObject();
  const json::Array *events = object ? object->getArray("traceEvents") : nullptr;
  const json::Object *data = object ? object->getObject("otherData") : nullptr;
  std::optional<llvm::StringRef> mesh = data ? data->getString("mesh") : std::nullopt;
  std::optional<llvm::StringRef> costs = data ? data->getString("costs") : std::nullopt;
  if (!events || !mesh || !costs)
    return fail("no trace of a training step: it lacks traceEvents, or mesh or costs in otherData");
  MeasuredRun run;
  run.mesh = *mesh;
  run.source = *costs;
  std::map<int64_t, StepReader> steps; // by process
  for (auto [index, value] : llvm::enumerate(*events))
    if (const json::Object *event = value.getAsObject())
      if (llvm::Error error = readEvent(*event, steps))
        return fail("event " + llvm::Twine(index) + " " + llvm::toString(std::move(error)));
  for (auto &[process, reader] : steps)
    run.steps.push_back(reader.finish());
  if (run.steps.empty() ||
      llvm::any_of(run.steps, [](const MeasuredStep &step) { return step.operations.empty(); }))
    return fail("it has no operations");
  return run;
}
