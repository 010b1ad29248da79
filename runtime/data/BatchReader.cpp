//===- BatchReader.cpp - Opening a data file ------------------------------===//

#include "data/BatchReader.h"
#include "data/Readers.h"
#include "plan/PlanView.h"

using namespace fsdp::rt;

Result<std::vector<InputShape>> fsdp::rt::planInputs(const PlanView &plan) {
  std::vector<InputShape> inputs;
  for (const fsdp_input &input : plan.inputs()) {
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

Result<std::unique_ptr<BatchReader>> fsdp::rt::openData(const DataOptions &options,
                                                        const std::vector<InputShape> &inputs) {
  auto reader = options.tokenType ? openTokens(options, inputs) : openTensors(options, inputs);
  if (!reader.ok())
    return reader;
  int64_t batch = inputs[0].sizes[0], needed = batch * options.worldSize;
  if ((*reader)->samples() < needed)
    return Status::error("'" + options.path + "' has " + std::to_string((*reader)->samples()) +
                         " samples, but one step of " + std::to_string(options.worldSize) +
                         " ranks with " + std::to_string(batch) + " samples each needs " +
                         std::to_string(needed));
  return reader;
}
