//===- EntryTracer.h - Callbacks when a step's entries run ---- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_ENTRYTRACER_H
#define FSDP_RUNTIME_ENTRYTRACER_H

#include "device/Device.h"

namespace fsdp::rt {

/// Which overlap a traced step has.
enum class Overlap {
  AsPlanned,
  /// No overlap: where a collective or a copy of state starts, the compute stream waits for it, so
  /// its time is on the compute stream.
  None
};

/// Follows the entries of a step on their streams. Calls come in the order of `stream`: on a CPU
/// from the stream's thread when it reaches the entry, on a device while the work is enqueued.
/// Collectives in one launch are reported as their first entry. Calls for one stream come from one
/// thread; calls for different streams may be concurrent.
class EntryTracer {
public:
  virtual ~EntryTracer() = default;
  virtual void begins(uint32_t entry, Stream &stream) = 0;
  virtual void ends(uint32_t entry, Stream &stream) = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ENTRYTRACER_H
