//===- KernelTrial.cpp - Times kernels and torch's operators --------------===//

#include "cpu/KernelTrial.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/narrow.h>

#include <ctime>

using namespace fsdp::rt;

bool fsdp::rt::isPlainFloat(const at::Tensor &tensor) {
  return tensor.defined() && tensor.scalar_type() == at::kFloat && tensor.is_cpu() &&
         tensor.layout() == at::kStrided && tensor.numel() > 0;
}

std::chrono::nanoseconds fsdp::rt::threadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// The number of elements from the first to the last one of a tensor, rounded up to cache lines.
static int64_t spanOf(const at::Tensor &tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i)
    last += (tensor.size(i) - 1) * tensor.stride(i);
  constexpr int64_t kLineElements = 16;
  return (last + kLineElements) / kLineElements * kLineElements;
}

std::vector<c10::IValue> KernelTrials::randomOperands(const std::vector<c10::IValue> &arguments) {
  auto isOperand = [](const c10::IValue &argument) {
    return argument.isTensor() && isPlainFloat(argument.toTensor());
  };
  int64_t elements = 0;
  for (const c10::IValue &argument : arguments)
    if (isOperand(argument))
      elements += spanOf(argument.toTensor());
  // Random numbers that use all bits of the significand.
  if (!numbers.defined() || numbers.numel() < elements) {
    numbers = at::empty({elements}, at::kFloat);
    auto *values = numbers.mutable_data_ptr<float>();
    uint32_t seed = 1;
    for (int64_t i = 0; i < elements; ++i) {
      seed = seed * 1664525u + 1013904223u;
      values[i] = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
    }
  }
  at::Tensor copy = numbers.narrow(0, 0, elements).clone();
  std::vector<c10::IValue> operands = arguments;
  int64_t offset = 0;
  for (c10::IValue &operand : operands)
    if (isOperand(operand)) {
      const at::Tensor &given = operand.toTensor();
      at::Tensor tensor = at::as_strided(copy, given.sizes(), given.strides(), offset);
      offset += spanOf(given);
      if (tensor.dim() > 1)
        tensor.select(-2, 0).fill_(-0.0);
      operand = tensor;
    }
  return operands;
}
