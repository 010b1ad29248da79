//===- Choices.h - Choices of schedule, offload, fusion ---------*- C++ -*-===//

#ifndef FSDP_TRANSFORMS_CHOICES_H
#define FSDP_TRANSFORMS_CHOICES_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace fsdp {

/// The order of issue.
enum class ScheduleChoice {
  Fsdp2, // that of eager FSDP2, event for event
  Asap,  // everything as soon as memory allows; nothing is kept without need
  Auto   // a search for the least predicted step time
};

/// "fsdp2", "asap" or "auto".
llvm::StringRef nameChoice(ScheduleChoice choice);

/// Which groups keep optimizer state, or activations, on the host.
enum class OffloadPolicy {
  None, // groups that ask for it
  Auto, // also groups without a request that a search under a memory cap chooses
  All   // all groups but those that refuse
};

/// What a step keeps on the host, by kind.
struct OffloadChoices {
  OffloadPolicy optimizer = OffloadPolicy::None, activations = OffloadPolicy::None;
};

/// Smaller activations stay in the arena: the latency of their copies would dominate.
inline constexpr int64_t kLeastOffloadedBytes = 1024;

/// Which operators become parts of generated kernels.
enum class FusionChoice {
  Auto,  // Fast for steps that were captured for CUDA, else Exact
  Off,   // none
  Exact, // those whose kernels have the same bits as torch
  Fast   // also others, with fp32 arithmetic and a single rounding
};

} // namespace fsdp

#endif // FSDP_TRANSFORMS_CHOICES_H
