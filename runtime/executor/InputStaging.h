//===- InputStaging.h - Copies a step's inputs to a device ---- -*- C++ -*-===//
//
// The host fills host memory. A separate stream copies it to a staging buffer on the device while
// earlier steps still run. The compute stream copies it from there to the addresses at which the
// step reads it. Each step that may be in flight has a slot in both memories.
//
// Used by the thread that runs the step.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_INPUTSTAGING_H
#define FSDP_RUNTIME_INPUTSTAGING_H

#include "executor/Staging.h"

namespace fsdp::rt {

class InputStaging {
public:
  /// As Staging::create().
  static Result<std::unique_ptr<InputStaging>>
  create(Device &device, std::vector<Staging::Part> parts, unsigned slots);

  /// The host's bytes of a part for the next step, 64-byte aligned.
  std::byte *host(size_t part) const { return onHost->data() + slot * slotBytes + offsets[part]; }
  /// Enqueues the copies of all parts and goes on to the next slot. Work given to `compute` from
  /// now on finds the inputs in place. The step that used the next slot before must be complete.
  /// Returns the first error of a stream.
  Status enqueue(Stream &compute);

private:
  InputStaging() = default;

  std::vector<Staging::Part> parts;
  std::vector<size_t> offsets; // by part, in a slot
  size_t slotBytes = 0, slots = 1, slot = 0;
  std::unique_ptr<Memory> onHost, onDevice;
  std::unique_ptr<Event> arrived;
  std::unique_ptr<Stream> stream; // last member: it ends before the members that it uses
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_INPUTSTAGING_H
