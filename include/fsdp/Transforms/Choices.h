//===- Choices.h - What a user may leave to the compiler --------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_CHOICES_H
#define FSDP_TRANSFORMS_CHOICES_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace fsdp {

/// Who decides on the order of issue.
enum class ScheduleChoice {
  Fsdp2, // eager FSDP2, event for event
  Asap,  // everything as soon as its memory is there, nothing kept that need not be
  Auto   // a search for the least predicted step time
};

/// "fsdp2", "asap" or "auto".
llvm::StringRef nameChoice(ScheduleChoice choice);

/// Which groups keep the state of their optimizer, or activations, in the memory of the host.
enum class OffloadPolicy {
  None, // those that say so
  Auto, // of those that do not say otherwise what a search under a memory cap decides
  All   // all that do not say otherwise
};

/// What a step keeps on the host.
struct OffloadChoices {
  OffloadPolicy optimizer = OffloadPolicy::None, activations = OffloadPolicy::None;
};

/// Smaller activations stay in the arena: the latency of their copies would be most of these.
inline constexpr int64_t kLeastOffloadedBytes = 1024;

/// Which operators become generated kernels.
enum class FusionChoice {
  Auto,  // fast of steps that were captured for CUDA, exact of others
  Off,   // none
  Exact, // those whose kernels give torch's bits
  Fast   // also others, with fp32 inside and one rounding
};

} // namespace fsdp

#endif // FSDP_TRANSFORMS_CHOICES_H
