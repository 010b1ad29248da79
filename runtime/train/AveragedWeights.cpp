//===- AveragedWeights.cpp - Use the moving average as weights -------------===//

#include "train/AveragedWeights.h"
#include "DType.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

using namespace fsdp::rt;

AveragedWeights::AveragedWeights(const PlanView &plan, Device &device, std::byte *arena,
                                 std::byte *hostArena)
    : stream(device.makeStream("fsdp-average")) {
  const unsigned last = plan.numOptimizerStates() - 1;
  for (const fsdp_group &group : plan.groups()) {
    if (group.trained_elements == 0)
      continue;
    const bool isOnHost = plan.areParametersOnHost(group);
    const std::byte *average =
        plan.isStateOnHost(group) ? hostArena + group.host_state[last] : arena + group.state[last];
    auto add = [&](std::byte *weights, uint32_t dtype) {
      places.push_back({weights,
                        static_cast<fsdp_dtype>(dtype),
                        average,
                        static_cast<fsdp_dtype>(group.state_dtype[last]),
                        group.trained_elements,
                        {}});
    };
    add(isOnHost ? hostArena + group.host_shard : arena + group.shard, group.dtype);
    if (plan.hasGatherCopy(group))
      add(isOnHost ? hostArena + group.host_gather_shard : arena + group.gather_shard,
          group.gather_dtype);
  }
}

Status AveragedWeights::use(Place &place, std::vector<std::byte> &average,
                            std::vector<std::byte> &cast) {
  auto resize = [&](std::vector<std::byte> &bytes, fsdp_dtype dtype) {
    bytes.resize(static_cast<size_t>(place.elements) * elementBytes(dtype));
  };
  auto tensorOf = [&](std::vector<std::byte> &bytes, fsdp_dtype dtype) {
    return at::from_blob(bytes.data(), {place.elements}, static_cast<at::ScalarType>(dtype));
  };
  resize(average, place.averageDtype);
  resize(cast, place.dtype);
  resize(place.saved, place.dtype);
  stream->copy(average.data(), place.average, average.size());
  stream->copy(place.saved.data(), place.weights, place.saved.size());
  if (Status status = stream->synchronize(); !status.ok())
    return status;
  tensorOf(cast, place.dtype).copy_(tensorOf(average, place.averageDtype));
  stream->copy(place.weights, cast.data(), cast.size());
  return stream->synchronize();
}

Status AveragedWeights::use() {
  std::vector<std::byte> average, cast;
  for (Place &place : places)
    if (Status status = use(place, average, cast); !status.ok())
      return status;
  return {};
}

Status AveragedWeights::restore() {
  for (Place &place : places)
    stream->copy(place.weights, place.saved.data(), place.saved.size());
  Status status = stream->synchronize();
  for (Place &place : places)
    place.saved = {};
  return status;
}
