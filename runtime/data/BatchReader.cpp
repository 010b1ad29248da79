//===- BatchReader.cpp - Opening a data file ------------------------------===//

#include "data/BatchReader.h"
#include "data/Readers.h"
#include "plan/PlanView.h"

using namespace fsdp::rt;

Result<std::vector<InputShape>> fsdp::rt::planInputs(const PlanView &plan) {
  std::vector<InputShape> inputs;
  for (const fsdp_input &input : plan.inputs()) {
    if (input.microbatch != 0)
      continue; // checked with the plan: they repeat those of the first
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
                              int64_t step, const std::string &path) {
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
    int64_t sample = reader.sample(step * microbatches + microbatch, bad->element / sampleElements);
    return Status::error(
        "'" + path + "': element " + std::to_string(bad->element % sampleElements) + " of sample " +
        std::to_string(sample) + " of input '" + shape.name + "' is " + std::to_string(bad->value) +
        ", expected 0 to " + std::to_string(use.count - 1) + " by " + use.user);
  }
  return {};
}

Result<std::unique_ptr<BatchReader>> fsdp::rt::openData(const DataOptions &options,
                                                        const std::vector<InputShape> &inputs) {
  auto reader = options.tokenType ? openTokens(options, inputs) : openTensors(options, inputs);
  if (!reader.ok())
    return reader;
  int64_t batch = inputs[0].sizes[0] * options.microbatches, needed = batch * options.worldSize;
  if ((*reader)->samples() < needed)
    return Status::error("'" + options.path + "' has " + std::to_string((*reader)->samples()) +
                         " samples, but one step of " + std::to_string(options.worldSize) +
                         " ranks with " + std::to_string(batch) + " samples each needs " +
                         std::to_string(needed));
  return reader;
}
