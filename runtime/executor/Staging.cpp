//===- Staging.cpp - Copies data from the host for each step --------------===//

#include "executor/Staging.h"

using namespace fsdp::rt;

Result<std::unique_ptr<Staging>> Staging::create(Device &device, std::vector<Part> parts,
                                                 unsigned slots) {
  constexpr size_t kAlignment = 64;
  std::unique_ptr<Staging> staging(new Staging);
  for (const Part &part : parts) {
    staging->offsets.push_back(staging->slotBytes);
    staging->slotBytes += (part.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  staging->parts = std::move(parts);
  staging->slots = slots;
  Result<std::unique_ptr<Memory>> memory = device.allocateHost(staging->slotBytes * slots);
  if (!memory.ok())
    return memory.status();
  staging->memory = std::move(*memory);
  return staging;
}

void Staging::enqueue(Stream &stream) {
  for (size_t i = 0; i < parts.size(); ++i)
    stream.copy(parts[i].destination, host(i), parts[i].bytes);
  slot = (slot + 1) % slots;
}
