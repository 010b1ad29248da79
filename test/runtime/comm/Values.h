//===- Values.h - Inputs of collectives and what must come out ---*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_COMM_VALUES_H
#define FSDP_TEST_RUNTIME_COMM_VALUES_H

#include "comm/Communicator.h"

#include <ATen/core/Tensor.h>

namespace fsdp::rt {

/// Deterministic values of `dtype` for `rank`. Exact ones are small integers, whose sums and halves
/// need no rounding, so that the order of additions does not matter; others span magnitudes such
/// that it does. Each `salt` gives other values.
at::Tensor makeValues(size_t count, fsdp_dtype dtype, unsigned rank, bool exact, unsigned salt);

/// The reduction of `inputs` by torch: one in-place operation after another, in order.
at::Tensor reduceWithTorch(const std::vector<at::Tensor> &inputs, ReduceOp op);

/// "", or how the bytes at `data` differ from those of `expected`.
std::string difference(const void *data, const at::Tensor &expected);

} // namespace fsdp::rt

#endif // FSDP_TEST_RUNTIME_COMM_VALUES_H
