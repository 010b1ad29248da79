//===- CudaLibrary.cpp - Exports of libfsdp_cuda.so -----------------------===//

#include "cuda/CudaBackend.h"
#include "cuda/RealCudaCalls.h"

using namespace fsdp::rt;

extern "C" DeviceBackend *fsdp_device_backend_8() {
  static CudaBackend backend(realCudaCalls);
  return &backend;
}
