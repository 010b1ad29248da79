//===- CudaLaunches.h - Generated kernels on a GPU ---------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CUDA_CUDALAUNCHES_H
#define FSDP_RUNTIME_CUDA_CUDALAUNCHES_H

#include "cuda/CudaDevice.h"
#include "plan/PlanView.h"

namespace fsdp::rt {

/// Launches of a plan's kernels on the compute stream. The plan's GPU code is loaded, and compiled
/// by the driver for the device, when the first launch is added.
class CudaLaunches {
public:
  explicit CudaLaunches(CudaCalls &calls) : calls(calls) {}
  /// No launch may be running any more.
  ~CudaLaunches();
  CudaLaunches(const CudaLaunches &) = delete;
  CudaLaunches &operator=(const CudaLaunches &) = delete;

  /// As OperatorRuntime::addLaunch(); all are of one plan.
  Status add(const PlanView &view, const fsdp_entry &entry, std::vector<void *> tensors);
  Status run(size_t index, CudaStream &compute);

private:
  struct Launch {
    cudaKernel_t kernel;
    unsigned blocks, threads;
    std::vector<void *> tensors;   // inputs, then outputs
    std::vector<void *> arguments; // the address of each of these
    std::string name;
  };

  Status load(const PlanView &view);

  CudaCalls &calls;
  cudaLibrary_t library = nullptr;
  std::vector<cudaKernel_t> kernels; // of the plan; null: not looked up yet
  std::vector<Launch> launches;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_CUDALAUNCHES_H
