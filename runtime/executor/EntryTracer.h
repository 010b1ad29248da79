//===- EntryTracer.h - Told when a step's entries run -----------*- C++ -*-===//

#ifndef FSDP_RUNTIME_ENTRYTRACER_H
#define FSDP_RUNTIME_ENTRYTRACER_H

#include "device/Device.h"

namespace fsdp::rt {

/// What runs beside what in a step that is traced.
enum class Overlap {
  AsPlanned,
  /// Nothing: where a collective or a copy of state starts, the compute stream waits for it, and
  /// the time is the compute stream's.
  None
};

/// Follows the entries of a step on their streams. A call comes in the order of `stream`: on a CPU
/// from the stream's thread when it gets there, on a device while the work is enqueued. Collectives
/// that are one launch are told of as their first entry. Calls for one stream come from one thread,
/// those for others may come at the same time.
class EntryTracer {
public:
  virtual ~EntryTracer() = default;
  virtual void begins(uint32_t entry, Stream &stream) = 0;
  virtual void ends(uint32_t entry, Stream &stream) = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ENTRYTRACER_H
