//===- BatchReader.cpp - Batches from files -------------------------------===//

#include "data/BatchReader.h"
#include "plan/PlanView.h"

#include <algorithm>

using namespace fsdp::rt;

/// Smaller data are read ahead completely when they are opened, larger data batch by batch.
static constexpr size_t kReadWholeBytes = size_t{64} << 20;

static std::vector<int64_t> endsOf(const std::vector<std::unique_ptr<SampleFile>> &files) {
  std::vector<int64_t> ends;
  for (const auto &file : files)
    ends.push_back((ends.empty() ? 0 : ends.back()) + file->samples());
  return ends;
}

BatchReader::BatchReader(std::vector<std::unique_ptr<SampleFile>> opened, int64_t batch,
                         const DataOptions &options)
    : files(std::move(opened)), ends(endsOf(files)), batch(batch),
      split(ends.back(), options.heldOutFraction, options.heldOutSeed),
      readHeldOut(options.readHeldOut),
      order(samples(), batch, options.rank, options.worldSize, options.shuffleSeed,
            options.overfit ? 0 : options.origin) {
  if (options.overfit)
    repeated = options.microbatches;
  size_t bytes = 0;
  for (const auto &file : files)
    bytes += file->sizeBytes();
  readAhead = bytes > kReadWholeBytes && !repeated;
  if (bytes <= kReadWholeBytes)
    for (const auto &file : files)
      file->willNeedAll();
}

int64_t BatchReader::samples() const { return readHeldOut ? split.heldOut() : split.training(); }

std::string BatchReader::description() const {
  return files.size() == 1 ? files[0]->path() : std::to_string(files.size()) + " files";
}

BatchReader::Place BatchReader::place(int64_t step, int64_t index) {
  const int64_t number = order.sample(repeated ? step % *repeated : step, index);
  const int64_t sample = readHeldOut ? split.heldOutSample(number) : split.trainingSample(number);
  const auto file = std::ranges::upper_bound(ends, sample) - ends.begin();
  return {files[static_cast<size_t>(file)].get(),
          sample - (file == 0 ? 0 : ends[static_cast<size_t>(file - 1)])};
}

Status BatchReader::fill(int64_t step, std::span<const std::span<std::byte>> inputs) {
  for (int64_t row = 0; row < batch; ++row) {
    const Place next = place(step, row);
    if (Status status = next.file->read(next.sample, row, inputs); !status.ok())
      return status;
  }
  for (int64_t row = 0; readAhead && row < batch; ++row) {
    const Place next = place(step + 1, row);
    next.file->willNeed(next.sample);
  }
  return {};
}

Result<std::vector<InputShape>> fsdp::rt::planInputs(const PlanView &plan) {
  std::vector<InputShape> inputs;
  for (const fsdp_input &input : plan.inputs()) {
    if (input.microbatch != 0)
      continue; // further microbatches repeat the inputs of the first; validatePlan() has checked
                // this
    const fsdp_value &value = plan.values()[input.value];
    std::span<const int64_t> sizes = plan.sizes(value);
    inputs.push_back({plan.string(input.name),
                      static_cast<fsdp_dtype>(value.dtype),
                      {sizes.begin(), sizes.end()}});
    const InputShape &first = inputs.front(), &last = inputs.back();
    if (sizes.empty() || sizes[0] == 0 || !plan.isContiguous(value))
      return Status::error("input '" + last.name +
                           "' of this binary is not a contiguous tensor whose first dimension "
                           "counts samples");
    if (sizes[0] != first.sizes[0])
      return Status::error("inputs '" + first.name + "' and '" + last.name +
                           "' of this binary have different batch sizes: " +
                           std::to_string(first.sizes[0]) + " and " + std::to_string(sizes[0]));
  }
  if (inputs.empty())
    return Status::error("this binary has no inputs: there is nothing to train on");
  return inputs;
}

Status fsdp::rt::fillStep(BatchReader &reader, int64_t step, size_t inputsOfMicrobatch,
                          std::span<const std::span<std::byte>> inputs) {
  const size_t microbatches = inputs.size() / inputsOfMicrobatch;
  for (size_t i = 0; i < microbatches; ++i)
    if (Status status =
            reader.fill(step * static_cast<int64_t>(microbatches) + static_cast<int64_t>(i),
                        inputs.subspan(i * inputsOfMicrobatch, inputsOfMicrobatch));
        !status.ok())
      return status;
  return {};
}

Status fsdp::rt::checkIndices(std::span<const IndexUse> uses, const std::vector<InputShape> &shapes,
                              std::span<const std::span<std::byte>> inputs, BatchReader &reader,
                              int64_t step) {
  for (const IndexUse &use : uses) {
    std::optional<BadIndex> bad = findBadIndex(use, inputs[use.input]);
    if (!bad)
      continue;
    const InputShape &shape = shapes[use.input % shapes.size()];
    int64_t sampleElements = 1;
    for (size_t i = 1; i < shape.sizes.size(); ++i)
      sampleElements *= shape.sizes[i];
    const auto microbatches = static_cast<int64_t>(inputs.size() / shapes.size());
    const auto microbatch = static_cast<int64_t>(use.input / shapes.size());
    const BatchReader::Place place =
        reader.place(step * microbatches + microbatch, bad->element / sampleElements);
    return Status::error("'" + place.file->path() + "': element " +
                         std::to_string(bad->element % sampleElements) + " of sample " +
                         std::to_string(place.sample) + " of input '" + shape.name + "' is " +
                         std::to_string(bad->value) + ", expected " + std::to_string(use.least) +
                         " to " + std::to_string(use.count - 1) + " by " + use.user);
  }
  return {};
}

Result<std::unique_ptr<BatchReader>> fsdp::rt::openData(const DataOptions &options,
                                                        const std::vector<InputShape> &inputs) {
  std::vector<std::unique_ptr<SampleFile>> files;
  for (const std::string &path : options.paths) {
    auto file = path.ends_with(".safetensors") ? openTensors(path, inputs)
                                               : openTokens(path, options.tokenType, inputs);
    if (!file.ok())
      return file.status();
    files.push_back(std::move(*file));
  }
  auto reader = std::make_unique<BatchReader>(std::move(files), inputs[0].sizes[0], options);
  int64_t batch = inputs[0].sizes[0] * options.microbatches, needed = batch * options.worldSize;
  if (reader->samples() < needed)
    return Status::error("'" + reader->description() + "' has " +
                         std::to_string(reader->samples()) + " samples" +
                         (options.heldOutFraction == 0 ? ""
                          : options.readHeldOut        ? " that are held out"
                                                       : " that are not held out") +
                         ", but one step of " + std::to_string(options.worldSize) + " ranks with " +
                         std::to_string(batch) + " samples each needs " + std::to_string(needed));
  return reader;
}
