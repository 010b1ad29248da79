//===- TorchChecks.cpp - Checks of batches on a GPU -----------------------===//
//
// torch has this operator for CPUs only. A check that fails is an assertion of the device, which
// prints its message; the run then ends with CUDA's error.
//
//===----------------------------------------------------------------------===//

#include <ATen/ops/_assert_async.h>
#include <torch/library.h>

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_functional_assert_async.msg",
               [](const at::Tensor &condition, c10::string_view message, const at::Tensor &after) {
                 at::_assert_async(condition, message);
                 return after.clone();
               });
}
