//===- CheckpointReader.cpp - Reads a checkpoint's tensors ----------------===//

#include "checkpoint/CheckpointReader.h"
#include "DType.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

using namespace fsdp::rt;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The names under which a checkpoint may have a tensor: our name, and those with torch's usual
/// prefixes.
static std::vector<std::string> spellings(const std::string &name) {
  constexpr std::string_view kOptimizer = "optim.";
  if (!name.starts_with(std::string(kOptimizer) + "state."))
    return {name, "model." + name};
  std::string state = name.substr(kOptimizer.size());
  return {name, "optimizer." + state, state};
}

const CheckpointReader::Tensor *CheckpointReader::find(const std::string &name) const {
  for (const std::string &spelling : spellings(name))
    if (auto position = tensors.find(spelling); position != tensors.end())
      return &position->second;
  return nullptr;
}

const CheckpointReader::Tensor *CheckpointReader::find(const StateRange &range,
                                                       const PlanView &plan, unsigned rank) const {
  // If the number of ranks differs from the checkpoint's, all ranks begin with rank 0's buffers, as
  // in torch.
  const bool isOfRank =
      range.ownOfRank && ownManifest && ownManifest->ranks == plan.tables().world_size;
  if (isOfRank || range.isTransient)
    return find(bufferNameOfRank(range.name, isOfRank ? rank : 0, range.isTransient));
  if (const Tensor *tensor = find(range.name))
    return tensor;
  for (const std::vector<std::string> *others : {&range.aliases, &range.substitutes})
    for (const std::string &name : *others)
      if (const Tensor *tensor = find(name))
        return tensor;
  return nullptr;
}

Status CheckpointReader::checkNames(const PlanView &plan) const {
  std::set<std::string, std::less<>> known{"step"};
  auto add = [&](const std::string &name) {
    for (std::string &spelling : spellings(name))
      known.insert(std::move(spelling));
  };
  for (const fsdp_parameter &parameter : plan.parameters())
    for (const std::string &name : namesOf(plan, parameter)) {
      add(name);
      // torch may keep state of parameters without a gradient: adagrad does, and so does every
      // optimizer whose state torch.distributed.checkpoint has loaded.
      if (!isTrained(plan, parameter) && ownManifest)
        continue;
      for (unsigned i = 0; i < plan.numOptimizerStates(); ++i)
        add(optimizerTensorName(name, optimizerStateName(plan, i)));
      if (hasStepNumber(plan))
        add(optimizerTensorName(name, "step"));
      if (momentumProduct(plan.tables().optimizer, 0))
        add(optimizerTensorName(name, "mu_product"));
    }
  std::set<std::string, std::less<>> buffers;
  for (const fsdp_buffer &buffer : plan.buffers())
    for (const std::string &name : namesOf(plan, buffer))
      add(bufferNameOfRank(*buffers.insert(name).first, 0, plan.isTransient(buffer)));
  auto isKnown = [&](const std::string &name) {
    std::optional<RankedName> own = nameOfRank(name);
    return known.contains(name) || (own && own->rank > 0 && ownManifest &&
                                    own->rank < ownManifest->ranks && buffers.contains(own->name));
  };
  for (const auto &[name, tensor] : tensors)
    if (!isKnown(name))
      return Status::error("'" + filePath(tensor.chunks[0].file) + "' holds '" + name + "' (" +
                           describeStored(tensor.dtypeName, tensor.shape) +
                           "), which this binary does not have");
  return {};
}

std::vector<std::string> CheckpointReader::filePaths() const {
  std::vector<std::string> paths;
  for (size_t file = 0; file < files.size(); ++file)
    paths.push_back(filePath(file));
  return paths;
}

//===----------------------------------------------------------------------===//
// The step's number
//===----------------------------------------------------------------------===//

Result<double> CheckpointReader::scalar(const std::string &name, const Tensor &tensor) const {
  const Chunk &chunk = tensor.chunks[0];
  std::byte bytes[sizeof(double)] = {};
  const size_t size = tensor.dtype ? elementBytes(*tensor.dtype) : 0;
  if (tensor.chunks.size() != 1 || chunk.part.elements() != 1 ||
      (tensor.dtype != FSDP_F32 && tensor.dtype != FSDP_F64 && tensor.dtype != FSDP_I64))
    return Status::error("'" + filePath(chunk.file) + "': '" + name + "' is " +
                         describeStored(tensor.dtypeName, tensor.shape) +
                         ", expected one F32, F64 or I64");
  const std::string path = filePath(chunk.file);
  if (Status status = OpenFile(path).read(chunk.position, std::span(bytes).first(size));
      !status.ok())
    return status;
  auto as = [&]<typename T>(T value) {
    std::memcpy(&value, bytes, sizeof(T));
    return static_cast<double>(value);
  };
  return tensor.dtype == FSDP_F32   ? as(float())
         : tensor.dtype == FSDP_F64 ? as(double())
                                    : as(int64_t());
}

Result<int64_t> CheckpointReader::step(const PlanView &plan) const {
  if (ownManifest)
    return int64_t{ownManifest->step};
  std::vector<std::string> names;
  for (const fsdp_parameter &parameter : plan.parameters())
    if (hasStepNumber(plan) && isTrained(plan, parameter))
      names.push_back(optimizerTensorName(plan.string(parameter.name), "step"));
  if (names.empty())
    names.emplace_back("step");
  std::optional<double> step;
  for (const std::string &name : names) {
    const Tensor *tensor = find(name);
    if (!tensor)
      return Status::error("'" + folder + "' lacks '" + name +
                           "', the number of the step from which to go on");
    Result<double> own = scalar(name, *tensor);
    if (!own.ok())
      return own.status();
    if (!(*own >= 0 && *own <= 1e12 && *own == std::floor(*own)))
      return Status::error("'" + folder + "': '" + name + "' is " + std::to_string(*own) +
                           ", expected the number of a step");
    if (step && *step != *own)
      return Status::error("'" + folder + "': '" + names[0] + "' is " + std::to_string(*step) +
                           ", but '" + name + "' is " + std::to_string(*own) +
                           ": here all parameters are updated at every step");
    step = *own;
  }
  return static_cast<int64_t>(*step);
}

Status CheckpointReader::checkProducts(const PlanView &plan, int64_t step) const {
  auto text = [](double number) {
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%g", number);
    return std::string(digits);
  };
  if (ownManifest)
    step -= ownManifest->skippedSteps;
  std::map<uint32_t, std::optional<float>> expectedOf; // by the parameter's optimizer
  for (const fsdp_parameter &parameter : plan.parameters()) {
    auto [expected, isNew] = expectedOf.try_emplace(parameter.optimizer);
    if (isNew)
      expected->second = momentumProduct(plan.optimizer(parameter.optimizer), step);
    const std::string name = optimizerTensorName(plan.string(parameter.name), "mu_product");
    const Tensor *tensor = find(name);
    if (!expected->second || !tensor)
      continue;
    Result<double> own = scalar(name, *tensor);
    if (!own.ok())
      return own.status();
    // torch may compute on a device, and rounds otherwise there.
    if (!(std::abs(*own - *expected->second) <= 1e-3 * *expected->second + 1e-30))
      return Status::error(
          "'" + folder + "': '" + name + "' is " + text(*own) + ", but " + text(*expected->second) +
          " follows from this binary's betas and momentum_decay after " + std::to_string(step) +
          " steps: nadam goes on with the options of "
          "the checkpoint's run only");
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

static const char *kindName(StateRange::Kind kind) {
  switch (kind) {
  case StateRange::Kind::Parameter:
    return "parameter";
  case StateRange::Kind::OptimizerState:
    return "optimizer state";
  case StateRange::Kind::Buffer:
    return "buffer";
  }
  return "";
}

/// The index in the flattened tensor of element `index` of a rectangle.
static int64_t positionOf(std::span<const int64_t> shape, const Rectangle &rectangle,
                          int64_t index) {
  int64_t position = 0, stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    position += (rectangle.offsets[i] + index % rectangle.sizes[i]) * stride;
    index /= rectangle.sizes[i];
  }
  return position;
}

/// True if a tensor is cast when it is loaded. torch's optimizers cast when they load a state_dict,
/// and torch's checkpoints cast since they are read by copy_.
static bool isCastOnLoad(StateRange::Kind kind, fsdp_dtype from, fsdp_dtype to) {
  auto isKnown = [](fsdp_dtype dtype) {
    return dtype == FSDP_F32 || dtype == FSDP_BF16 || dtype == FSDP_F16;
  };
  return kind == StateRange::Kind::OptimizerState && isKnown(from) && isKnown(to);
}

const CheckpointReader::Tensor *CheckpointReader::findState(const PlanView &plan,
                                                            const fsdp_parameter &parameter,
                                                            unsigned state) const {
  for (const std::string &name : namesOf(plan, parameter))
    if (const Tensor *tensor = find(optimizerTensorName(name, optimizerStateName(plan, state))))
      return tensor;
  return nullptr;
}

std::vector<std::string> CheckpointReader::describeDifferences(const PlanView &plan) const {
  std::map<std::string, int64_t> counts; // of parameters, by the text about them
  int64_t missingAverages = 0, unused = 0;
  for (const fsdp_parameter &parameter : plan.parameters())
    for (unsigned i = 0; i < plan.numOptimizerStates(); ++i) {
      const uint32_t own = plan.groups()[parameter.group].state_dtype[i];
      const Tensor *tensor = findState(plan, parameter, i);
      if (!isTrained(plan, parameter))
        unused += tensor && i == 0;
      else if (!tensor)
        missingAverages += plan.isAverage(i);
      else if (tensor->dtype && *tensor->dtype != own)
        ++counts[std::string(optimizerStateName(plan, i)) + " is " + tensor->dtypeName +
                 " in the checkpoint and " + safetensorsName(own) + " here"];
    }
  std::vector<std::string> lines;
  if (missingAverages != 0)
    lines.push_back("the checkpoint has no moving average of " + std::to_string(missingAverages) +
                    (missingAverages == 1 ? " parameter" : " parameters") +
                    ": it begins with the weights");
  if (unused != 0)
    lines.push_back("the checkpoint's optimizer state of " + std::to_string(unused) +
                    (unused == 1 ? " parameter" : " parameters") +
                    " is left out: no gradient reaches " + (unused == 1 ? "it" : "them") + " here");
  for (const auto &[what, count] : counts)
    lines.push_back("optimizer state " + what + ": it is cast, of " + std::to_string(count) +
                    (count == 1 ? " parameter" : " parameters"));
  return lines;
}

Status CheckpointReader::addCopies(const StateRange &range, const Tensor &tensor,
                                   std::vector<Copy> &copies) const {
  const bool isTaken = tensor.dtype && (*tensor.dtype == range.dtype ||
                                        isCastOnLoad(range.kind, *tensor.dtype, range.dtype));
  if (!isTaken || tensor.shape != range.shape)
    return Status::error("'" + filePath(tensor.chunks[0].file) + "': '" + range.name + "' is " +
                         describeStored(tensor.dtypeName, tensor.shape) +
                         " with all its parts, the model has " +
                         describeStored(safetensorsName(range.dtype), range.shape));
  const auto elementSize = static_cast<int64_t>(elementBytes(range.dtype));
  const auto storedSize = static_cast<int64_t>(elementBytes(*tensor.dtype));
  struct Found {
    ElementRun run;
    const Chunk *chunk;
  };
  int64_t offset = range.offset;
  for (const Rectangle &own : range.parts) {
    std::vector<Found> found;
    for (const Chunk &chunk : tensor.chunks)
      forEachRun(own, chunk.part, [&](const ElementRun &run) { found.push_back({run, &chunk}); });
    std::ranges::sort(found, {}, [](const Found &one) { return one.run.own; });
    int64_t next = 0;
    auto wrong = [&](const char *what, int64_t begin, int64_t end) {
      return Status::error("'" + folder + "' " + what + " elements " +
                           std::to_string(positionOf(range.shape, own, begin)) + " to " +
                           std::to_string(positionOf(range.shape, own, end - 1)) + " of '" +
                           range.name + "' (" + describeStored(tensor.dtypeName, tensor.shape) +
                           ")");
    };
    for (const auto &[run, chunk] : found) {
      if (run.own > next)
        return wrong("lacks", next, run.own);
      if (run.own < next)
        return wrong("holds twice", run.own, std::min(next, run.own + run.count));
      copies.push_back({chunk->file, chunk->position + static_cast<uint64_t>(run.part * storedSize),
                        run.count * storedSize, offset + run.own * elementSize, range.onHost,
                        *tensor.dtype, range.dtype});
      next += run.count;
    }
    if (next != own.elements())
      return wrong("lacks", next, own.elements());
    offset += next * elementSize;
  }
  return {};
}

Result<std::vector<CheckpointReader::Copy>> CheckpointReader::copiesFor(const PlanView &plan,
                                                                        unsigned rank) const {
  std::vector<Copy> copies;
  for (const StateRange &range : stateOf(plan, rank)) {
    const Tensor *tensor = find(range, plan, rank);
    if (!tensor && range.isTransient && !ownManifest)
      continue; // torch's checkpoints have no transient buffers: the run begins with the model's
    if (!tensor)
      return Status::error("'" + folder + "' lacks " + kindName(range.kind) + " '" + range.name +
                           "' (" + describeStored(safetensorsName(range.dtype), range.shape) + ")");
    if (Status status = addCopies(range, *tensor, copies); !status.ok())
      return status;
  }
  std::ranges::sort(copies, {},
                    [](const Copy &copy) { return std::pair(copy.file, copy.position); });
  return copies;
}

std::vector<CheckpointReader::Listed> CheckpointReader::list() const {
  std::vector<Listed> listed;
  for (const auto &[name, tensor] : tensors)
    listed.push_back({name, tensor.dtypeName, tensor.dtype, tensor.shape});
  return listed;
}

Result<std::vector<CheckpointReader::Copy>>
CheckpointReader::copiesOf(const Listed &listed, int64_t first, int64_t count) const {
  const Tensor &tensor = tensors.find(listed.name)->second;
  if (!tensor.dtype)
    return Status::error("'" + filePath(tensor.chunks[0].file) + "': '" + listed.name + "' is " +
                         describeStored(tensor.dtypeName, tensor.shape) +
                         ", of a dtype that is not known here");
  StateRange range;
  range.name = listed.name;
  range.dtype = *tensor.dtype;
  range.shape = tensor.shape;
  range.parts = cutRange(range.shape, first, count);
  std::vector<Copy> copies;
  if (Status status = addCopies(range, tensor, copies); !status.ok())
    return status;
  return copies;
}
