//===- AttentionChoice.cpp - Chooses the kernel of an attention -----------===//

#include "cpu/AttentionChoice.h"
#include "cpu/GemmChoice.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <cmath>
#include <cstring>

using namespace fsdp::rt;

//===----------------------------------------------------------------------===//
// What a call computes
//===----------------------------------------------------------------------===//

/// The strides of a tensor [batch, heads, rows, head size], or [batch, heads, rows].
static HeadStrides stridesOf(const at::Tensor &tensor) {
  return {tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

static bool hasSizes(const at::Tensor &tensor, at::IntArrayRef sizes) {
  return isPlainFloat(tensor) && tensor.sizes() == sizes &&
         (sizes.size() < 4 || tensor.stride(3) == 1);
}

std::optional<AttentionCall> AttentionCall::of(const c10::OperatorHandle &op,
                                               const std::vector<c10::IValue> &arguments,
                                               std::span<const at::Tensor> results) {
  const std::string &name = op.schema().name();
  AttentionCall call;
  call.isBackward = name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward";
  if (!call.isBackward && name != "aten::_scaled_dot_product_flash_attention_for_cpu")
    return std::nullopt;
  // Tensors, dropout, causality, mask, scale.
  const size_t tensors = call.isBackward ? 6 : 3;
  if (arguments.size() != tensors + 4 || results.size() != (call.isBackward ? 3u : 2u))
    return std::nullopt;
  for (size_t i = 0; i < tensors; ++i)
    if (!arguments[i].isTensor() || !isPlainFloat(arguments[i].toTensor()))
      return std::nullopt;
  const c10::IValue &dropout = arguments[tensors], &isCausal = arguments[tensors + 1];
  const c10::IValue &mask = arguments[tensors + 2], &scale = arguments[tensors + 3];
  if (!dropout.isDouble() || dropout.toDouble() != 0 || !isCausal.isBool() || !mask.isNone() ||
      (!scale.isNone() && !scale.isDouble()))
    return std::nullopt;

  auto argument = [&](size_t i) -> const at::Tensor & { return arguments[i].toTensor(); };
  const size_t first = call.isBackward ? 1 : 0;
  const at::Tensor &query = argument(first), &key = argument(first + 1);
  const at::Tensor &value = argument(first + 2);
  const at::Tensor &output = call.isBackward ? argument(4) : results[0];
  const at::Tensor &logSumExp = call.isBackward ? argument(5) : results[1];
  if (query.dim() != 4 || key.dim() != 4)
    return std::nullopt;
  AttentionShape &shape = call.shape;
  shape.batch = query.size(0);
  shape.queryHeads = query.size(1);
  shape.keyHeads = key.size(1);
  shape.queries = query.size(2);
  shape.keys = key.size(2);
  shape.headSize = query.size(3);
  const std::vector<int64_t> querySizes = query.sizes().vec();
  const std::vector<int64_t> keySizes{shape.batch, shape.keyHeads, shape.keys, shape.headSize};
  if (!hasSizes(query, querySizes) || !hasSizes(key, keySizes) || !hasSizes(value, keySizes) ||
      !hasSizes(output, querySizes) ||
      !hasSizes(logSumExp, {shape.batch, shape.queryHeads, shape.queries}))
    return std::nullopt;
  shape.isCausal = isCausal.toBool();
  shape.scale = static_cast<float>(
      scale.isNone() ? 1 / std::sqrt(static_cast<double>(shape.headSize)) : scale.toDouble());
  shape.query = stridesOf(query);
  shape.key = stridesOf(key);
  shape.value = stridesOf(value);
  shape.output = stridesOf(output);
  shape.logSumExp = stridesOf(logSumExp);
  AttentionOperands &operands = call.operands;
  operands.query = query.const_data_ptr<float>();
  operands.key = key.const_data_ptr<float>();
  operands.value = value.const_data_ptr<float>();
  // The backward reads these two.
  operands.output = const_cast<float *>(output.const_data_ptr<float>());
  operands.logSumExp = const_cast<float *>(logSumExp.const_data_ptr<float>());
  if (!call.isBackward)
    return call;

  if (!hasSizes(argument(0), querySizes) || !hasSizes(results[0], querySizes) ||
      !hasSizes(results[1], keySizes) || !hasSizes(results[2], keySizes))
    return std::nullopt;
  shape.gradientOutput = stridesOf(argument(0));
  shape.gradientQuery = stridesOf(results[0]);
  shape.gradientKey = stridesOf(results[1]);
  shape.gradientValue = stridesOf(results[2]);
  operands.gradientOutput = argument(0).const_data_ptr<float>();
  operands.gradientQuery = results[0].mutable_data_ptr<float>();
  operands.gradientKey = results[1].mutable_data_ptr<float>();
  operands.gradientValue = results[2].mutable_data_ptr<float>();
  return call;
}

//===----------------------------------------------------------------------===//
// Trying
//===----------------------------------------------------------------------===//

std::optional<FlashAttention> AttentionChooser::measure(const AttentionCall &call,
                                                        const c10::OperatorHandle &op,
                                                        const std::vector<c10::IValue> &arguments) {
  const std::vector<c10::IValue> copies = trials.randomOperands(arguments);
  std::vector<c10::IValue> stack;
  auto runTheirs = [&] {
    stack = copies;
    op.callBoxed(stack);
  };
  TimedRuns theirs;
  theirs.run(runTheirs);
  std::vector<at::Tensor> expected, results;
  for (const c10::IValue &result : stack) {
    expected.push_back(result.toTensor());
    results.push_back(at::empty_strided(expected.back().sizes(), expected.back().strides(),
                                        expected.back().options()));
    if (!results.back().is_non_overlapping_and_dense())
      return std::nullopt;
  }
  std::optional<AttentionCall> copy = AttentionCall::of(op, copies, results);
  // The plan has the operator's strides.
  if (!copy || copy->shape != call.shape)
    return std::nullopt;

  FlashAttention attention(call.shape, call.isBackward, knownDepth, threads);
  at::Tensor workspace = at::empty({static_cast<int64_t>(attention.workspaceBytes())}, at::kByte);
  auto *memory = reinterpret_cast<std::byte *>(workspace.mutable_data_ptr());
  bool same = true;
  auto runOurs = [&] { same = attention.run(copy->operands, memory) && same; };
  TimedRuns ours;
  ours.run(runOurs);
  for (size_t i = 0; i < results.size(); ++i)
    same = same && std::memcmp(results[i].const_data_ptr(), expected[i].const_data_ptr(),
                               expected[i].nbytes()) == 0;
  if (!same)
    return std::nullopt;
  trials.repeat(theirs, runTheirs, ours, runOurs);
  return ours.shortest < theirs.shortest ? std::optional(attention) : std::nullopt;
}

std::optional<FlashAttention> AttentionChooser::choose(const AttentionCall &call,
                                                       const c10::OperatorHandle &op,
                                                       const std::vector<c10::IValue> &arguments) {
  if (!FlashAttention::isSupported(call.shape))
    return std::nullopt;
  auto [place, isNew] = chosen.try_emplace({call.isBackward, call.shape});
  if (isNew)
    place->second = measure(call, op, arguments);
  return place->second;
}
