//===- OptimizerUpdate.cuh - Loop and launch of the updates ----*- CUDA -*-===//

#ifndef FSDP_RUNTIME_CUDA_KERNELS_OPTIMIZERUPDATE_CUH
#define FSDP_RUNTIME_CUDA_KERNELS_OPTIMIZERUPDATE_CUH

#include "cuda/kernels/Elements.cuh"

namespace fsdp::rt {

/// Runs launch(parameter, gradient, gathered) with an element of each type; `gathered` is NoElement
/// if the parameters themselves are gathered.
template <typename Launch>
cudaError_t withUpdateTypes(const OptimizerUpdateArguments &arguments, Launch launch) {
  if (arguments.dtype == FSDP_BF16)
    return launch(Bf16(), Bf16(), NoElement());
  if (arguments.dtype == FSDP_F16)
    return launch(F16(), F16(), NoElement());
  auto withGradient = [&](auto gradient) {
    if (!arguments.gathered)
      return launch(float(), gradient, NoElement());
    return withElement(arguments.gatheredDtype,
                       [&](auto gathered) { return launch(float(), gradient, gathered); });
  };
  return withElement(arguments.gradientDtype, withGradient);
}

/// Stores updated parameters, and their copy for gathers if there is one.
template <typename Gathered, typename Parameter, int N>
__device__ __forceinline__ void storeParameters(Parameter *parameters, void *gathered,
                                                int64_t first, const float (&values)[N]) {
  storeOnce(parameters + first, values);
  if constexpr (!std::is_same_v<Gathered, NoElement>)
    store(static_cast<Gathered *>(gathered) + first, values);
}

// By file, for checked arguments of at least one element.
cudaError_t launchSgd(const OptimizerUpdateArguments &arguments, cudaStream_t stream);
cudaError_t launchAdam(const OptimizerUpdateArguments &arguments, cudaStream_t stream);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_KERNELS_OPTIMIZERUPDATE_CUH
