//===- LaggedReadback.h - Reads a step's results some steps late -*- C++ -*-===//
//
// Lets the host read a step's loss without stalling: the copy to the host is enqueued after the
// step, and the host waits for it when `lag` more steps have been issued. With lag 0 the host waits
// for the step itself. The wait also bounds how far the host runs ahead of the device.
//
// Used by the thread that runs the step.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_LAGGEDREADBACK_H
#define FSDP_RUNTIME_LAGGEDREADBACK_H

#include "device/Device.h"

#include <vector>

namespace fsdp::rt {

class LaggedReadback {
public:
  /// `bytes`: per step. The device outlives the object. An error if there is no memory.
  static Result<std::unique_ptr<LaggedReadback>> create(Device &device, size_t bytes, unsigned lag);

  /// Enqueues on `stream` the copy of this step's bytes at `source`. The stream itself copies, so
  /// the next step on it may overwrite them. At most lag + 1 steps may be outstanding.
  void enqueue(Stream &stream, const void *source);

  /// If more than `lag` steps are outstanding: waits for the oldest and gives its bytes, valid
  /// until the next call. Else null.
  Result<const std::byte *> next() { return take(lag); }
  /// The same after the last step: null when none is outstanding.
  Result<const std::byte *> drain() { return take(0); }

private:
  LaggedReadback(size_t bytes, unsigned lag, std::unique_ptr<Memory> memory)
      : bytes(bytes), lag(lag), memory(std::move(memory)) {}
  Result<const std::byte *> take(unsigned left);

  const size_t bytes;
  const unsigned lag;
  std::unique_ptr<Memory> memory;              // a slot per outstanding step
  std::vector<std::unique_ptr<Event>> arrived; // by slot
  uint64_t enqueued = 0, taken = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_LAGGEDREADBACK_H
