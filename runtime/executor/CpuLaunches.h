//===- CpuLaunches.h - Generated kernels on a CPU ----------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CPULAUNCHES_H
#define FSDP_RUNTIME_CPULAUNCHES_H

#include "Status.h"
#include "plan/PlanView.h"

#include <vector>

namespace fsdp::rt {

/// The index of this machine's instruction set among those of a plan's kernels
/// (FSDP_NUM_KERNEL_LEVELS).
size_t kernelLevel();

/// Launches a plan's kernels on the operators' threads, with the functions for this machine's
/// instruction set.
class CpuLaunches {
public:
  /// As OperatorRuntime::addLaunch().
  Status add(const PlanView &view, const fsdp_entry &entry, std::vector<void *> tensors);
  void run(size_t index) const;

private:
  struct Launch {
    fsdp_kernel_function function;
    std::vector<void *> tensors; // inputs, then outputs
    int64_t units, grain;
  };

  std::vector<Launch> launches;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CPULAUNCHES_H
