//===- GemmChoice.cpp - Chooses the kernel of a matrix product ------------===//

#include "cpu/GemmChoice.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstring>
#include <string>

using namespace fsdp::rt;

/// Smaller products are not tried: the overhead of the call exceeds the possible gain.
static constexpr double kMinimumFlops = 1e6;

//===----------------------------------------------------------------------===//
// What a call computes
//===----------------------------------------------------------------------===//

/// The strides of a matrix or a batch of matrices. For a bias, which may have fewer dimensions, the
/// strides of its expansion to `sizes`; nothing if it does not expand.
static std::optional<MatrixStrides> stridesOf(const at::Tensor &tensor, at::IntArrayRef sizes) {
  MatrixStrides strides;
  int64_t *const places[] = {&strides.batch, &strides.row, &strides.column};
  for (int64_t i = 1; i <= tensor.dim(); ++i) {
    if (i > static_cast<int64_t>(sizes.size()))
      return std::nullopt;
    int64_t size = tensor.size(-i), wanted = sizes[sizes.size() - i];
    if (size != wanted && size != 1)
      return std::nullopt;
    *places[3 - i] = size == 1 && wanted != 1 ? 0 : tensor.stride(-i);
  }
  return strides;
}

static bool isOne(const c10::IValue &factor) {
  return factor.isScalar() && factor.toScalar().isIntegral(/*includeBool=*/false)
             ? factor.toScalar().toLong() == 1
             : factor.isDouble() && factor.toDouble() == 1;
}

std::optional<GemmCall> GemmCall::of(const c10::OperatorHandle &op,
                                     const std::vector<c10::IValue> &arguments) {
  const std::string &name = op.schema().name();
  bool isBatched = name == "aten::bmm", hasBias = name == "aten::addmm";
  if ((!isBatched && !hasBias && name != "aten::mm") || !op.schema().overload_name().empty())
    return std::nullopt;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (i < size_t(hasBias ? 3 : 2)
            ? !arguments[i].isTensor() || !isPlainFloat(arguments[i].toTensor())
            : !isOne(arguments[i]))
      return std::nullopt;
  const at::Tensor &a = arguments[hasBias ? 1 : 0].toTensor();
  const at::Tensor &b = arguments[hasBias ? 2 : 1].toTensor();
  int64_t dimensions = isBatched ? 3 : 2;
  if (a.dim() != dimensions || b.dim() != dimensions || a.size(-1) != b.size(-2))
    return std::nullopt;

  GemmCall call;
  GemmShape &shape = call.shape;
  shape.batch = isBatched ? a.size(0) : 1;
  shape.m = a.size(-2);
  shape.n = b.size(-1);
  shape.k = a.size(-1);
  std::vector<int64_t> sizes{shape.batch, shape.m, shape.n};
  shape.a = *stridesOf(a, a.sizes());
  shape.b = *stridesOf(b, b.sizes());
  shape.c = {isBatched ? shape.m * shape.n : 0, shape.n, 1};
  call.operands = {a.const_data_ptr<float>(), b.const_data_ptr<float>(), nullptr, nullptr};
  if (hasBias) {
    const at::Tensor &bias = arguments[0].toTensor();
    std::optional<MatrixStrides> strides = stridesOf(bias, {shape.m, shape.n});
    if (!strides)
      return std::nullopt;
    shape.hasBias = true;
    shape.bias = *strides;
    call.operands.bias = bias.const_data_ptr<float>();
  }
  return call;
}

//===----------------------------------------------------------------------===//
// Trying
//===----------------------------------------------------------------------===//

int64_t fsdp::rt::knownDepth(int64_t k) {
  // MKL's AVX2 kernels, as it selects them on AMD's processors: blocks of 192, or two equal ones.
  constexpr int64_t kMklDepth = 192;
  return k <= kMklDepth ? k : k < 2 * kMklDepth ? k / 2 : kMklDepth;
}

/// Scales random operands, which share one storage, so small that each product underflows to a
/// signed zero.
static void makeProductsVanish(const std::vector<c10::IValue> &operands) {
  const at::Tensor &first = operands[0].toTensor();
  const auto count = static_cast<int64_t>(first.storage().nbytes() / sizeof(float));
  first.as_strided({count}, {1}, 0).mul_(1e-30);
}

std::optional<BlockedGemm> GemmChooser::measure(const GemmShape &shape,
                                                const c10::OperatorHandle &op,
                                                const std::vector<c10::IValue> &arguments) {
  const std::vector<c10::IValue> copies = trials.randomOperands(arguments);
  GemmOperands operands = GemmCall::of(op, copies)->operands;
  std::vector<c10::IValue> stack;
  auto runTheirs = [&] {
    stack = copies;
    op.callBoxed(stack);
  };
  TimedRuns theirs;
  theirs.run(runTheirs);
  at::Tensor result = at::empty_like(stack[0].toTensor());
  operands.c = result.mutable_data_ptr<float>();

  GemmOrder order{depthOf(shape.k)};
  BlockedGemm gemm(shape, order, threads);
  at::Tensor workspace = at::empty({static_cast<int64_t>(gemm.workspaceBytes())}, at::kByte);
  auto *memory = reinterpret_cast<std::byte *>(workspace.mutable_data_ptr());
  auto runOurs = [&] { gemm.run(operands, memory); };
  auto isEqual = [&] {
    const at::Tensor expected = stack[0].toTensor();
    return std::memcmp(operands.c, expected.const_data_ptr(), expected.nbytes()) == 0;
  };
  TimedRuns ours;
  ours.run(runOurs);
  bool same = isEqual();
  if (same) {
    trials.repeat(theirs, runTheirs, ours, runOurs);
    makeProductsVanish(copies);
    runTheirs();
    runOurs();
    same = isEqual();
    if (!same) {
      order.addsToZero = false;
      gemm = BlockedGemm(shape, order, threads);
      runOurs();
      same = isEqual();
    }
  }
  trialsOfShapes.push_back({shape, order, same, theirs.milliseconds(), ours.milliseconds()});
  return same && ours.shortest < theirs.shortest ? std::optional(gemm) : std::nullopt;
}

std::optional<BlockedGemm> GemmChooser::choose(const GemmCall &call, const c10::OperatorHandle &op,
                                               const std::vector<c10::IValue> &arguments) {
  if (!BlockedGemm::isSupported() || call.shape.flops() < kMinimumFlops)
    return std::nullopt;
  auto [place, isNew] = chosen.try_emplace(call.shape);
  if (isNew)
    place->second = measure(call.shape, op, arguments);
  return place->second;
}
