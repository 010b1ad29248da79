//===- CollectiveOrder.cpp - The order of a plan's collectives ------------===//

#include "plan/CollectiveOrder.h"
#include "DType.h"
#include "Hash.h"

#include <bit>

using namespace fsdp::rt;

std::vector<uint32_t> fsdp::rt::collectiveEntries(const PlanView &plan) {
  std::vector<uint32_t> result;
  for (uint32_t i = 0; i < plan.entries().size(); ++i)
    if (isCollective(plan.entries()[i]))
      result.push_back(i);
  return result;
}

std::vector<uint64_t> fsdp::rt::collectiveOrderHashes(const PlanView &plan) {
  std::vector<uint64_t> result;
  Hash hash;
  for (uint32_t index : collectiveEntries(plan)) {
    const fsdp_entry &entry = plan.entries()[index];
    hash.add(isOfGroup(entry) ? plan.string(plan.groups()[entry.target].name) : "");
    for (uint64_t field : {entry.kind, entry.phase, entry.stream, entry.dtype})
      hash.add(field);
    for (int64_t field : {entry.bytes, entry.count, entry.source, entry.destination})
      hash.add(static_cast<uint64_t>(field));
    const fsdp_communicator &communicator = plan.communicatorOf(entry);
    for (uint64_t field :
         {entry.communicator, communicator.ranks, communicator.stride, communicator.by_copy_engine})
      hash.add(field);
    hash.add(entry.reduce_op);
    for (double divisor : {entry.predivide, entry.postdivide})
      hash.add(std::bit_cast<uint64_t>(divisor));
    result.push_back(hash.value());
  }
  return result;
}

const char *fsdp::rt::streamName(unsigned stream) {
  switch (stream) {
  case FSDP_COMPUTE:
    return "compute";
  case FSDP_GATHER:
    return "gather";
  case FSDP_REDUCE:
    return "reduce";
  case FSDP_REPLICATE:
    return "replicate";
  case FSDP_HOST_TO_DEVICE:
    return "host-to-device";
  case FSDP_DEVICE_TO_HOST:
    return "device-to-host";
  default:
    return "other";
  }
}

std::string fsdp::rt::describeCollectiveEntry(const PlanView &plan, const fsdp_entry &entry) {
  int64_t bytes =
      entry.bytes ? entry.bytes : entry.count * static_cast<int64_t>(elementBytes(entry.dtype));
  return plan.describeEntry(entry) +
         (entry.phase == FSDP_FORWARD ? " in forward, " : " in backward, ") +
         std::to_string(bytes) + " bytes of " + dtypeName(entry.dtype) + " per rank on the " +
         streamName(entry.stream) + " stream, arena [" + std::to_string(entry.source) + "] to [" +
         std::to_string(entry.destination) + "]";
}
