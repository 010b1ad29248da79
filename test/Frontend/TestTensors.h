//===- TestTensors.h - Batches and states of the models of tests -*- C++ -*-===//

#ifndef FSDP_TEST_FRONTEND_TESTTENSORS_H
#define FSDP_TEST_FRONTEND_TESTTENSORS_H

#include "fsdp/Frontend/Capture.h"

#include <ATen/Context.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <cstring>

namespace fsdp::frontend {

inline void seedGenerator(uint64_t value) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(value);
}

/// A batch, determined by the seed.
inline std::vector<at::Tensor> makeInputs(const CaptureOptions &options, uint64_t seed = 3) {
  seedGenerator(seed);
  std::vector<at::Tensor> inputs;
  for (const InputSpec &spec : options.inputs) {
    if (spec.dtype == "i64")
      inputs.push_back(at::randint(0, 10, spec.sizes, at::TensorOptions(at::kLong)));
    else
      inputs.push_back(at::randn(spec.sizes));
  }
  return inputs;
}

/// Sizes, dtype and bits; -0 and 0 differ.
inline bool isBitwiseEqual(const at::Tensor &a, const at::Tensor &b) {
  if (!a.defined() || !b.defined() || a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type())
    return false;
  at::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

} // namespace fsdp::frontend

#endif // FSDP_TEST_FRONTEND_TESTTENSORS_H
