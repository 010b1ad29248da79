//===- CollectiveOrder.cpp - The order of a plan's collectives ------------===//

#include "plan/CollectiveOrder.h"
#include "DType.h"

#include <bit>
#include <string_view>

using namespace fsdp::rt;

namespace {
/// FNV-1a (Fowler, Noll, Vo), 64 bits.
class Hash {
public:
  void add(uint64_t number) {
    for (unsigned byte = 0; byte < 8; ++byte)
      addByte(static_cast<uint8_t>(number >> (8 * byte)));
  }
  void add(std::string_view text) {
    for (char character : text)
      addByte(static_cast<uint8_t>(character));
    addByte(0);
  }
  uint64_t value() const { return state; }

private:
  void addByte(uint8_t byte) { state = (state ^ byte) * 0x100000001b3ull; }

  uint64_t state = 0xcbf29ce484222325ull;
};
} // namespace

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
    // The gradients' norm is of no group.
    hash.add(entry.kind == FSDP_NORM_ALL_REDUCE_START
                 ? ""
                 : plan.string(plan.groups()[entry.target].name));
    for (uint64_t field : {entry.kind, entry.phase, entry.stream, entry.dtype})
      hash.add(field);
    for (int64_t field : {entry.bytes, entry.count, entry.source, entry.destination})
      hash.add(static_cast<uint64_t>(field));
    const fsdp_communicator &communicator = plan.communicatorOf(entry);
    for (uint64_t field : {entry.communicator, communicator.ranks, communicator.stride})
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
