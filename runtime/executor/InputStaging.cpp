//===- InputStaging.cpp - Copies a step's inputs to a device --------------===//

#include "executor/InputStaging.h"

using namespace fsdp::rt;

Result<std::unique_ptr<InputStaging>>
InputStaging::create(Device &device, std::vector<Staging::Part> parts, unsigned slots) {
  constexpr size_t kAlignment = 64;
  std::unique_ptr<InputStaging> staging(new InputStaging);
  for (const Staging::Part &part : parts) {
    staging->offsets.push_back(staging->slotBytes);
    staging->slotBytes += (part.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  staging->parts = std::move(parts);
  staging->slots = slots;
  Result<std::unique_ptr<Memory>> onHost = device.allocateHost(staging->slotBytes * slots);
  if (!onHost.ok())
    return onHost.status();
  staging->onHost = std::move(*onHost);
  Result<std::unique_ptr<Memory>> onDevice = device.allocate(staging->slotBytes * slots);
  if (!onDevice.ok())
    return onDevice.status();
  staging->onDevice = std::move(*onDevice);
  staging->arrived = device.makeEvent();
  staging->stream = device.makeStream("fsdp-inputs");
  return staging;
}

Status InputStaging::enqueue(Stream &compute) {
  std::byte *place = onDevice->data() + slot * slotBytes;
  stream->copy(place, onHost->data() + slot * slotBytes, slotBytes);
  stream->record(*arrived);
  if (Status status = compute.wait(*arrived); !status.ok())
    return status;
  for (size_t i = 0; i < parts.size(); ++i)
    compute.copy(parts[i].destination, place + offsets[i], parts[i].bytes);
  slot = (slot + 1) % slots;
  return {};
}
