//===- MeasuredStep.cpp - Reads the timeline of a measured step -----------===//

#include "fsdp/Explain/MeasuredStep.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <limits>

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

class StepReader {
public:
  explicit StepReader(const std::string &path) : path(path) {}
  llvm::Expected<MeasuredStep> read();

private:
  llvm::Error fail(const llvm::Twine &message) const {
    return llvm::createStringError("trace '" + path + "': " + message);
  }
  llvm::Error addSlice(const Slice &slice);
  llvm::Error addOperation(const Slice &slice);
  llvm::Error addCollective(const Slice &slice, llvm::StringRef kind);

  const std::string &path;
  MeasuredStep step;
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
    return fail("the operation '" + slice.name + "' lacks its operator or its part of the step");
  // A slice is named by its module, in the root module by its operator.
  step.operations.push_back(
      {slice.inNs(), *op == slice.name ? std::string() : slice.name, op->str(), *part});
  return llvm::Error::success();
}

/// The all-reduce of the norm of all gradients has no group. The wait for it counts as computation,
/// as in the simulated step.
llvm::Error StepReader::addCollective(const Slice &slice, llvm::StringRef kind) {
  std::optional<double> exposedUs = slice.arguments->getNumber("exposed us");
  if (!exposedUs)
    return fail("the collective '" + slice.name + "' lacks 'exposed us'");
  if (!llvm::StringRef(slice.name).starts_with(kind)) {
    const double endUs = slice.startUs + slice.durationUs;
    step.operations.push_back(
        {{(endUs - *exposedUs) * 1e3, *exposedUs * 1e3}, "", slice.name, StepPart::Update});
    return llvm::Error::success();
  }
  step.collectives.push_back({slice.inNs(), slice.name, *exposedUs * 1e3});
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

llvm::Expected<MeasuredStep> StepReader::read() {
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
  step.mesh = *mesh;
  step.source = *costs;
  for (auto [index, value] : llvm::enumerate(*events)) {
    const json::Object *event = value.getAsObject();
    if (!event || event->getString("ph") != llvm::StringRef("X"))
      continue;
    std::optional<llvm::StringRef> name = event->getString("name");
    std::optional<int64_t> track = event->getInteger("tid");
    std::optional<double> startUs = event->getNumber("ts"), durationUs = event->getNumber("dur");
    const json::Object *arguments = event->getObject("args");
    if (!name || !track || !startUs || !durationUs || *durationUs < 0 || !arguments)
      return fail("event " + llvm::Twine(index) +
                  " lacks its name, tid, ts, dur or args, or has a negative dur");
    if (llvm::Error error = addSlice({name->str(), *track, *startUs, *durationUs, arguments}))
      return error;
  }
  if (step.operations.empty())
    return fail("it has no operations");
  step.stepNs = (lastUs - firstUs) * 1e3;
  auto fromBegin = [&](auto &slices) {
    for (MeasuredSlice &slice : slices)
      slice.startNs -= firstUs * 1e3;
  };
  llvm::stable_sort(step.operations, [](const MeasuredOperation &a, const MeasuredOperation &b) {
    return a.startNs < b.startNs;
  });
  fromBegin(step.operations);
  fromBegin(step.collectives);
  return std::move(step);
}

llvm::Expected<MeasuredStep> fsdp::explain::readMeasuredStep(const std::string &path) {
  return StepReader(path).read();
}
