//===- OptimizerScalars.cu - A step's constants, and the choice of update -===//
//
// torch's scalar arithmetic of _single_tensor_sgd and _single_tensor_adam, in double.
//
//===----------------------------------------------------------------------===//

#include "cuda/kernels/OptimizerUpdate.cuh"

using namespace fsdp::rt;

static __global__ void scalarsKernel(fsdp_optimizer optimizer, const OptimizerInputs *inputs,
                                     OptimizerScalars *scalars) {
  const double lr = inputs->learningRate;
  const double step = static_cast<double>(inputs->step);
  const double decay = optimizer.weight_decay;
  if (optimizer.kind == FSDP_SGD) {
    scalars->sgd = {static_cast<float>(-lr), static_cast<float>(decay),
                    static_cast<float>(optimizer.momentum), optimizer.momentum != 0,
                    inputs->step == 1, (optimizer.options & FSDP_NESTEROV) != 0,
                    static_cast<float>(__dsub_rn(1, optimizer.dampening))};
    return;
  }
  const bool decoupled = optimizer.kind == FSDP_ADAMW;
  const double correction1 = 1 - pow(optimizer.beta1, step);
  const double correction2 = 1 - pow(optimizer.beta2, step);
  AdamScalars adam;
  adam.decay = static_cast<float>(decoupled ? __dsub_rn(1, __dmul_rn(lr, decay)) : 1);
  adam.weightDecay = static_cast<float>(decoupled ? 0 : decay);
  adam.lerpWeight = static_cast<float>(1 - optimizer.beta1);
  adam.beta2 = static_cast<float>(optimizer.beta2);
  adam.oneMinusBeta2 = static_cast<float>(1 - optimizer.beta2);
  adam.sqrtCorrection2 = static_cast<float>(__dsqrt_rn(correction2));
  adam.eps = static_cast<float>(optimizer.eps);
  adam.negativeStepSize = static_cast<float>(-(lr / correction1));
  scalars->adam = adam;
}

cudaError_t fsdp::rt::launchKernel(const OptimizerScalarsArguments &a, cudaStream_t stream) {
  if (cudaError_t error = checkArguments(a); error != cudaSuccess)
    return error;
  scalarsKernel<<<1, 1, 0, stream>>>(a.optimizer, a.inputs, a.scalars);
  return cudaGetLastError();
}

cudaError_t fsdp::rt::launchKernel(const OptimizerUpdateArguments &a, cudaStream_t stream) {
  if (cudaError_t error = checkArguments(a); error != cudaSuccess || a.elements == 0)
    return error;
  return a.kind == FSDP_SGD ? launchSgd(a, stream) : launchAdam(a, stream);
}
