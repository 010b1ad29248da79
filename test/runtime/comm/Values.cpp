//===- Values.cpp - Inputs of collectives and what must come out ----------===//

#include "Values.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>

#include <cmath>
#include <cstring>

using namespace fsdp::rt;

at::Tensor fsdp::rt::makeValues(size_t count, fsdp_dtype dtype, unsigned rank, bool exact,
                                unsigned salt) {
  at::Tensor values = at::empty({static_cast<int64_t>(count)}, at::kDouble);
  auto *data = values.data_ptr<double>();
  uint64_t state = 0x9E3779B97F4A7C15ull * (rank + 1) + 0xD1B54A32D192ED03ull * salt;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    auto bits = static_cast<int64_t>(state >> 40);
    if (exact)
      data[i] = static_cast<double>(bits % 13) * 4;
    else
      data[i] = std::ldexp(static_cast<double>(bits % 4001 - 2000), static_cast<int>(bits % 9) - 8);
  }
  return values.to(static_cast<at::ScalarType>(dtype));
}

at::Tensor fsdp::rt::reduceWithTorch(const std::vector<at::Tensor> &inputs, ReduceOp op) {
  at::Tensor result = inputs[0].clone();
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (op == ReduceOp::Max)
      result = at::maximum(result, inputs[i]);
    else
      result += inputs[i];
  }
  if (op == ReduceOp::Average)
    result /= static_cast<int64_t>(inputs.size());
  return result;
}

std::string fsdp::rt::difference(const void *data, const at::Tensor &expected) {
  auto size = expected.element_size();
  const auto *found = static_cast<const char *>(data);
  const auto *wanted = static_cast<const char *>(expected.const_data_ptr());
  for (int64_t i = 0; i < expected.numel(); ++i)
    if (std::memcmp(found + i * size, wanted + i * size, size) != 0)
      return "element " + std::to_string(i) + " of " + std::to_string(expected.numel()) +
             " differs from " + std::to_string(expected[i].item().toDouble());
  return "";
}
