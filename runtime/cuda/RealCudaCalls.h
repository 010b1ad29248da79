//===- RealCudaCalls.h - Calls CUDA, NCCL and torch ----------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_CUDA_REALCUDACALLS_H
#define FSDP_RUNTIME_CUDA_REALCUDACALLS_H

#include "cuda/CudaCalls.h"

namespace fsdp::rt {

/// The CUDA runtime, NCCL and torch of this process.
CudaCalls &realCudaCalls();

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_REALCUDACALLS_H
