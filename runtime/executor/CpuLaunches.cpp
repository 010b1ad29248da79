//===- CpuLaunches.cpp - Generated kernels on a CPU ------------------------===//

#include "executor/CpuLaunches.h"
#include "cpu/Capability.h"

#include <ATen/Parallel.h>

using namespace fsdp::rt;

size_t fsdp::rt::kernelLevel() { return static_cast<size_t>(capability()); }

Status CpuLaunches::add(const PlanView &view, const fsdp_entry &entry,
                        std::vector<void *> tensors) {
  const fsdp_kernel_function *functions = view.tables().kernel_functions;
  if (!functions)
    return Status::error(view.describeEntry(entry) +
                         ": the plan has no native code; link it by fsdp-compile");
  const fsdp_kernel &kernel = view.kernelOf(entry);
  launches.push_back({functions[entry.target * FSDP_NUM_KERNEL_LEVELS + kernelLevel()],
                      std::move(tensors), kernel.units, kernel.grain});
  return {};
}

void CpuLaunches::run(size_t index) const {
  const Launch &launch = launches[index];
  if (launch.units <= launch.grain || at::get_num_threads() == 1) {
    launch.function(launch.tensors.data(), 0, launch.units);
    return;
  }
  at::parallel_for(0, launch.units, launch.grain, [&](int64_t begin, int64_t end) {
    launch.function(launch.tensors.data(), begin, end);
  });
}
