//===- Staging.h - Copies data from the host for each step ---- -*- C++ -*-===//
//
// The host fills memory that the device reads asynchronously, and a stream copies it to the
// addresses at which the step reads it. The host's memory has a slot per step that may be in
// flight, so that filling the next slot does not disturb these steps.
//
// Used by the thread that runs the step.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_STAGING_H
#define FSDP_RUNTIME_STAGING_H

#include "device/Device.h"

#include <vector>

namespace fsdp::rt {

class Staging {
public:
  /// A part of a step's bytes, and its destination in device memory.
  struct Part {
    std::byte *destination;
    size_t bytes;
  };

  /// The device outlives the object. An error if there is no memory.
  static Result<std::unique_ptr<Staging>> create(Device &device, std::vector<Part> parts,
                                                 unsigned slots);

  /// The host's bytes of a part for the next step, 64-byte aligned.
  std::byte *host(size_t part) const { return memory->data() + slot * slotBytes + offsets[part]; }
  /// Enqueues the copies of all parts and goes on to the next slot. At most `slots` - 1 earlier
  /// steps may have pending copies.
  void enqueue(Stream &stream);

private:
  Staging() = default;

  std::vector<Part> parts;
  std::vector<size_t> offsets; // by part, in a slot
  size_t slotBytes = 0, slots = 1, slot = 0;
  std::unique_ptr<Memory> memory;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STAGING_H
