//===- LaggedReadback.cpp - Reads a step's results some steps late --------===//

#include "device/LaggedReadback.h"

using namespace fsdp::rt;

Result<std::unique_ptr<LaggedReadback>> LaggedReadback::create(Device &device, size_t bytes,
                                                               unsigned lag) {
  Result<std::unique_ptr<Memory>> memory = device.allocateHost(bytes * (lag + 1));
  if (!memory.ok())
    return memory.status();
  std::unique_ptr<LaggedReadback> readback(new LaggedReadback(bytes, lag, std::move(*memory)));
  for (unsigned slot = 0; slot <= lag; ++slot)
    readback->arrived.push_back(device.makeEvent());
  return readback;
}

void LaggedReadback::enqueue(Stream &stream, const void *source) {
  uint64_t slot = enqueued++ % arrived.size();
  stream.copy(memory->data() + slot * bytes, source, bytes);
  stream.record(*arrived[slot]);
}

Result<const std::byte *> LaggedReadback::take(unsigned left) {
  if (enqueued - taken <= left)
    return static_cast<const std::byte *>(nullptr);
  uint64_t slot = taken++ % arrived.size();
  if (Status status = arrived[slot]->synchronize(); !status.ok())
    return status;
  return static_cast<const std::byte *>(memory->data() + slot * bytes);
}
