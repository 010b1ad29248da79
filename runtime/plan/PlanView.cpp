//===- PlanView.cpp - Typed access to a plan's tables ---------------------===//

#include "plan/PlanView.h"
#include "DType.h"
#include "fsdp/Plan/Optimizers.h"
#include "plan/CollectiveOrder.h"
#include "plan/Saturate.h"

#include <algorithm>
#include <utility>
#include <vector>

using namespace fsdp::rt;

int64_t PlanView::product(std::span<const int64_t> sizes) {
  // If any size is 0 the product is 0, even if the other sizes overflow.
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end())
    return 0;
  int64_t elements = 1;
  for (int64_t size : sizes)
    elements = multiply(elements, size);
  return elements;
}

PlanView::Runs PlanView::runsOf(const fsdp_parameter &parameter) const {
  std::span<const int64_t> all = sizes(parameter);
  const size_t dim = parameter.shard_dim;
  return {product(all.first(dim)), product(all.subspan(dim)),
          product(all.subspan(std::min(dim + 1, all.size())))};
}

bool PlanView::isTransient(const fsdp_buffer &buffer) const {
  return std::ranges::any_of(
      constants(), [&](const fsdp_constant &constant) { return constant.value == buffer.value; });
}

int64_t PlanView::spanBytes(const fsdp_value &value) const {
  std::span<const int64_t> valueSizes = sizes(value), valueStrides = strides(value);
  int64_t last = 0;
  for (size_t i = 0; i < valueSizes.size(); ++i) {
    if (valueSizes[i] == 0)
      return 0;
    last = add(last, multiply(valueSizes[i] - 1, valueStrides[i]));
  }
  return multiply(add(last, 1), static_cast<int64_t>(elementBytes(value.dtype)));
}

bool PlanView::isContiguous(const fsdp_value &value) const {
  std::span<const int64_t> valueSizes = sizes(value), valueStrides = strides(value);
  int64_t expected = 1;
  for (size_t i = valueSizes.size(); i-- > 0;) {
    if (valueSizes[i] == 0)
      return true;
    if (valueSizes[i] != 1 && valueStrides[i] != expected)
      return false;
    expected = multiply(expected, valueSizes[i]);
  }
  return true;
}

bool PlanView::isDense(const fsdp_value &value) const {
  std::span<const int64_t> valueSizes = sizes(value), valueStrides = strides(value);
  std::vector<std::pair<int64_t, int64_t>> dimensions; // strides and sizes
  for (size_t i = 0; i < valueSizes.size(); ++i) {
    if (valueSizes[i] == 0)
      return true;
    if (valueSizes[i] != 1)
      dimensions.emplace_back(valueStrides[i], valueSizes[i]);
  }
  std::sort(dimensions.begin(), dimensions.end());
  int64_t expected = 1;
  for (auto [stride, size] : dimensions) {
    if (stride != expected)
      return false;
    expected = multiply(expected, size);
  }
  return true;
}

unsigned PlanView::normRanks() const {
  if (groups().empty())
    return 1;
  const uint32_t shards = groups().front().shards;
  const bool isUniform = std::ranges::all_of(
      groups(), [&](const fsdp_group &group) { return group.shards == shards; });
  return isUniform ? shards : plan.world_size;
}

int64_t PlanView::shardBytes(const fsdp_group &group) const {
  return multiply(group.shard_elements, static_cast<int64_t>(elementBytes(group.dtype)));
}

int64_t PlanView::trainedBytes(const fsdp_group &group) const {
  return multiply(group.trained_elements, static_cast<int64_t>(elementBytes(group.dtype)));
}

int64_t PlanView::stateBytes(const fsdp_group &group, unsigned state) const {
  return multiply(group.trained_elements,
                  static_cast<int64_t>(elementBytes(group.state_dtype[state])));
}

bool PlanView::hasOwnStateDtype(const fsdp_group &group) const {
  return std::ranges::any_of(std::span(group.state_dtype).first(numOptimizerStates()),
                             [&](uint32_t dtype) { return dtype != group.dtype; });
}

int64_t PlanView::gatherShardBytes(const fsdp_group &group) const {
  return multiply(group.shard_elements, static_cast<int64_t>(elementBytes(group.gather_dtype)));
}

std::vector<PlanView::HostCopy> PlanView::hostCopiesOf(const fsdp_group &group) const {
  std::vector<HostCopy> copies;
  if (areParametersOnHost(group))
    copies.push_back({group.shard, group.host_shard, trainedBytes(group), true});
  if (isStateOnHost(group))
    for (unsigned state = 0; state < numOptimizerStates(); ++state)
      copies.push_back(
          {group.state[state], group.host_state[state], stateBytes(group, state), true});
  if (areParametersOnHost(group) && hasGatherCopy(group))
    copies.push_back(
        {group.gather_shard, group.host_gather_shard,
         multiply(group.trained_elements, static_cast<int64_t>(elementBytes(group.gather_dtype))),
         false});
  return copies;
}

int64_t PlanView::hostCopyBytes(const fsdp_group &group, bool isFetch) const {
  int64_t bytes = 0;
  for (const HostCopy &copy : hostCopiesOf(group))
    if (copy.isFetched || !isFetch)
      bytes = add(bytes, copy.bytes);
  return bytes;
}

unsigned PlanView::numOptimizerStates() const {
  if (isEvaluation())
    return 0;
  const auto names = optimizerStateNames(plan.optimizer);
  return static_cast<unsigned>(std::ranges::find(names, std::string_view()) - names.begin());
}

std::array<std::string_view, FSDP_MAX_KEPT_STATES>
fsdp::rt::optimizerStateNames(const fsdp_optimizer &optimizer) {
  return fsdp::plan::statesOf(fsdp::plan::kindOf(optimizer), [&](std::string_view option) {
    return fsdp::plan::findOption(option)->valueOf(optimizer) != 0;
  });
}

std::string fsdp::rt::optimizerKindName(const fsdp_optimizer &optimizer) {
  return std::string(fsdp::plan::kindOf(optimizer).name);
}

const char *fsdp::rt::displayName(const char *name) { return *name ? name : "root"; }

static std::string listText(std::span<const int64_t> numbers) {
  std::string text = "[";
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text + "]";
}

std::string fsdp::rt::describeTensor(uint32_t dtype, std::span<const int64_t> sizes,
                                     std::span<const int64_t> strides) {
  return dtypeName(dtype) + listText(sizes) + " strides " + listText(strides);
}

std::string PlanView::describeValue(const fsdp_value &value) const {
  std::string text = string(value.name);
  if (!text.empty())
    text += ": ";
  return text + describeTensor(value.dtype, sizes(value), strides(value));
}

std::string PlanView::describeEntry(const fsdp_entry &entry) const {
  auto ofGroup = [&](const char *what) {
    return std::string(what) + " of group \"" +
           displayName(string(plan.groups[entry.target].name)) + "\"";
  };
  std::string text;
  switch (entry.kind) {
  case FSDP_CALL:
  case FSDP_VIEW:
    text = string(entry.callee);
    if (*string(entry.overload))
      text += std::string(".") + string(entry.overload);
    break;
  case FSDP_ALL_GATHER_START:
    text = ofGroup("all_gather");
    break;
  case FSDP_REDUCE_SCATTER_START:
    text = ofGroup("reduce_scatter");
    break;
  case FSDP_ALL_REDUCE_START:
    text = ofGroup("all_reduce");
    break;
  case FSDP_WAIT:
    text = "wait for handle " + std::to_string(entry.handle);
    break;
  case FSDP_RELEASE:
    text = ofGroup("release");
    break;
  case FSDP_CHUNK:
    text = ofGroup("chunk");
    break;
  case FSDP_COPY:
    text = "copy to " + describeValue(plan.values[entry.destination_value]);
    break;
  case FSDP_ACCUMULATE:
    text = "accumulate into " + describeValue(plan.values[entry.destination_value]);
    break;
  case FSDP_ZERO:
    text = "zeroing of " + std::to_string(entry.bytes) + " bytes";
    break;
  case FSDP_UPDATE:
    text = ofGroup("update");
    break;
  case FSDP_FETCH_STATE_START:
    text = ofGroup("fetch of optimizer state");
    break;
  case FSDP_STORE_STATE_START:
    text = ofGroup("store of optimizer state");
    break;
  case FSDP_STORE_START:
    text = "store of " + std::to_string(entry.bytes) + " bytes on the host";
    break;
  case FSDP_FETCH_START:
    text = "fetch of " + std::to_string(entry.bytes) + " bytes from the host";
    break;
  case FSDP_SHARD_NORM:
    text = ofGroup("norm of the gradients");
    break;
  case FSDP_PARTIAL_NORM:
    text = "norm of this rank's gradients";
    break;
  case FSDP_NORM_ALL_REDUCE_START:
    text = "all_reduce of the gradients' norm";
    break;
  case FSDP_AMAX_ALL_REDUCE_START:
    text = "all_reduce of the parameters' amax";
    break;
  case FSDP_MODEL_ALL_REDUCE:
    text = "all_reduce";
    break;
  case FSDP_MODEL_ALL_GATHER:
    text = "all_gather";
    break;
  case FSDP_MODEL_REDUCE_SCATTER:
    text = "reduce_scatter";
    break;
  case FSDP_CLIP_FACTOR:
    text = "clip factor";
    break;
  case FSDP_KERNEL:
    text = std::string("kernel ") + string(kernelOf(entry).name) + " of " +
           string(kernelOf(entry).operators);
    break;
  default:
    text = "entry of unknown kind " + std::to_string(entry.kind);
  }
  if (entry.kind == FSDP_CALL || entry.kind == FSDP_VIEW || entry.kind == FSDP_KERNEL ||
      isOfModel(entry) || *string(entry.module))
    text += std::string(" in module \"") + string(entry.module) + "\"";
  if (*string(entry.location))
    text += std::string(" (") + string(entry.location) + ")";
  return text;
}
