//===- HostCopyWait.h - A wait for a host copy -------------------*- C++ -*-===//

#ifndef FSDP_ANALYSIS_HOSTCOPYWAIT_H
#define FSDP_ANALYSIS_HOSTCOPYWAIT_H

#include <cstdint>

namespace fsdp {

/// Time that computation waits for a copy to or from the host. It is part of the duration of the
/// operation at its position, or of the last operation if the wait is after that.
struct HostCopyWait {
  uint32_t position = 0;
  uint32_t copy = 0; // index into ScheduleProblem::hostCopies
  bool isStore = false;
  double ns = 0;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_HOSTCOPYWAIT_H
