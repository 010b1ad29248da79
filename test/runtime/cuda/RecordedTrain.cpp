//===- RecordedTrain.cpp - Trains a plan on recorded devices --------------===//
//
//   recorded-train PLAN.so [flags of a training binary]
//
// PLAN.so is what fsdp-compile --shared writes. With the folder of RecordedBackend.cpp's library as
// LD_LIBRARY_PATH, --device cuda is a recorded device.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/Abi.h"

#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <cstdio>
#include <dlfcn.h>

/// Of plans for CUDA, where torch has it.
TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("mm.dtype", [](const at::Tensor &left, const at::Tensor &right, at::ScalarType out) {
    return at::mm(left.to(out), right.to(out));
  });
}

extern "C" {
const fsdp_plan *fsdp_recorded_plan = nullptr; // RecordedBackend.cpp finds it here
}

int main(int argc, char **argv) {
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  auto *plan = library ? static_cast<const fsdp_plan *>(dlsym(library, "fsdp_step_plan")) : nullptr;
  if (!plan) {
    std::fprintf(stderr, "recorded-train: error: no plan: %s\n",
                 argc > 1 ? dlerror() : "PLAN.so is needed");
    return 1;
  }
  fsdp_recorded_plan = plan;
  return fsdp_train_main(argc - 1, argv + 1, plan);
}
