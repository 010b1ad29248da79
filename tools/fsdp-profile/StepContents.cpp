//===- StepContents.cpp - Contents for the tensors of a step ---------------===//

#include "StepContents.h"

#include "DType.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>

#include <cmath>
#include <optional>
#include <random>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::profile;

namespace {
/// Operand `index` of an operator holds indices into a dimension of operand `table`.
struct IndexUse {
  unsigned index, table;
  int dimension; // -1: the second argument, or any
};

class Filler {
public:
  explicit Filler(unsigned seed) : generator(seed) {}

  /// `count` elements of `dtype`: reals around `center` with uniform deviations up to `amplitude`,
  /// integers in [0, bound).
  void fill(std::byte *bytes, int64_t count, uint32_t dtype, double center, double amplitude,
            int64_t bound);

private:
  template <typename T>
  void fillReals(std::byte *bytes, int64_t count, double center, double amplitude) {
    T *values = reinterpret_cast<T *>(bytes);
    for (int64_t i = 0; i < count; ++i)
      values[i] = static_cast<T>(static_cast<float>(center + amplitude * (2 * unit() - 1)));
  }
  template <typename T> void fillIntegers(std::byte *bytes, int64_t count, int64_t bound) {
    T *values = reinterpret_cast<T *>(bytes);
    for (int64_t i = 0; i < count; ++i)
      values[i] = static_cast<T>(generator() % static_cast<uint64_t>(bound));
  }
  double unit() { return static_cast<double>(generator() >> 11) * 0x1p-53; }

  std::mt19937_64 generator;
};
} // namespace

void Filler::fill(std::byte *bytes, int64_t count, uint32_t dtype, double center, double amplitude,
                  int64_t bound) {
  switch (dtype) {
  case FSDP_F64:
    return fillReals<double>(bytes, count, center, amplitude);
  case FSDP_F32:
    return fillReals<float>(bytes, count, center, amplitude);
  case FSDP_C64: // two reals per element
    return fillReals<float>(bytes, 2 * count, center, amplitude);
  case FSDP_C128:
    return fillReals<double>(bytes, 2 * count, center, amplitude);
  case FSDP_F16:
    return fillReals<c10::Half>(bytes, count, center, amplitude);
  case FSDP_BF16:
    return fillReals<c10::BFloat16>(bytes, count, center, amplitude);
  case FSDP_F8E5M2:
    return fillReals<c10::Float8_e5m2>(bytes, count, center, amplitude);
  case FSDP_F8E4M3:
    return fillReals<c10::Float8_e4m3fn>(bytes, count, center, amplitude);
  case FSDP_I64:
    return fillIntegers<int64_t>(bytes, count, bound);
  case FSDP_I32:
    return fillIntegers<int32_t>(bytes, count, bound);
  case FSDP_I16:
    return fillIntegers<int16_t>(bytes, count, std::min<int64_t>(bound, 1 << 15));
  case FSDP_BOOL:
    return fillIntegers<uint8_t>(bytes, count, 2);
  default:
    return fillIntegers<uint8_t>(bytes, count, std::min<int64_t>(bound, 1 << 7));
  }
}

static const IndexUse *lookupIndexUse(StringRef baseName) {
  static const llvm::StringMap<IndexUse> uses = {{"embedding", {1, 0, 0}},
                                                 {"nll_loss_forward", {1, 0, 1}},
                                                 {"nll_loss2d_forward", {1, 0, 1}},
                                                 {"nll_loss_backward", {2, 1, 1}},
                                                 {"fsdpc::ctc_loss", {1, 0, -1}},
                                                 {"gather", {1, 0, -1}},
                                                 {"index_select", {1, 0, -1}},
                                                 {"index", {1, 0, -1}},
                                                 {"scatter", {1, 0, -1}}};
  auto found = uses.find(baseName);
  return found == uses.end() ? nullptr : &found->second;
}

/// The bound of the integers in `input`: the least size of the dimensions that they, their views,
/// or values computed from them index; none if they index nothing.
static std::optional<int64_t> findBound(Value input) {
  std::optional<int64_t> bound;
  llvm::SmallVector<Value> worklist = {input};
  llvm::DenseSet<Value> seen = {input};
  while (!worklist.empty())
    for (OpOperand &use : worklist.pop_back_val().getUses()) {
      if (auto launch = dyn_cast<LaunchOp>(use.getOwner())) {
        Value inside = launch.getDeclaration().getBody().getArgument(use.getOperandNumber());
        if (seen.insert(inside).second)
          worklist.push_back(inside);
        continue;
      }
      auto call = dyn_cast<aten::CallOp>(use.getOwner());
      if (!call)
        continue;
      const IndexUse *rule = lookupIndexUse(call.getBaseName());
      if (rule && use.getOperandNumber() >= rule->index) {
        auto table = cast<RankedTensorType>(call.getOperand(rule->table).getType());
        int64_t dimension = rule->dimension;
        if (auto given = dyn_cast<IntegerAttr>(call.getArgs()[1]); given && dimension < 0)
          dimension = given.getInt() + (given.getInt() < 0 ? table.getRank() : 0);
        dimension = std::min(dimension, table.getRank() - 1);
        int64_t size = dimension < 0 ? *llvm::min_element(table.getShape())
                                     : table.getDimSize(static_cast<unsigned>(dimension));
        if (call.getBaseName() == "fsdpc::ctc_loss") // numbers of targets among them
          size = std::min(
              size, cast<RankedTensorType>(call.getOperand(1).getType()).getShape().back() + 1);
        bound = std::min(size, bound.value_or(size));
        continue;
      }
      if (call.getBaseName() == "clamp_max") // its results have a bound of their own
        continue;
      for (Value result : call.getResults())
        if (auto type = dyn_cast<RankedTensorType>(result.getType());
            type && type.getElementType().isInteger(64) && seen.insert(result).second)
          worklist.push_back(result);
    }
  return bound;
}

/// The number of stored elements; an element that an expanded value repeats counts once.
static int64_t storedElements(const rt::PlanView &plan, const fsdp_value &value) {
  return plan.spanBytes(value) / static_cast<int64_t>(rt::elementBytes(value.dtype));
}

std::vector<std::vector<std::byte>> profile::makeInputs(const PlannedStep &step,
                                                        const rt::PlanView &plan, unsigned seed) {
  constexpr int64_t kUnbounded = 128;
  llvm::StringMap<int64_t> bounds;
  ModuleOp module = *step.module;
  module.walk([&](InputOp input) {
    if (isa<RankedTensorType>(input.getType()))
      bounds[input.getName()] = findBound(input.getResult()).value_or(kUnbounded);
  });
  Filler filler(seed);
  std::vector<std::vector<std::byte>> inputs;
  for (const fsdp_input &input : plan.inputs()) {
    const fsdp_value &value = plan.values()[input.value];
    std::vector<std::byte> &bytes = inputs.emplace_back(static_cast<size_t>(plan.spanBytes(value)));
    filler.fill(bytes.data(), storedElements(plan, value), value.dtype, 0, 1,
                std::max<int64_t>(bounds.lookup(plan.string(input.name)), 1));
  }
  return inputs;
}

rt::Status profile::fillState(const rt::PlanView &plan, unsigned rank, const WriteBytes &write) {
  std::vector<std::byte> bytes;
  for (size_t index = 0; index < plan.groups().size(); ++index) {
    const fsdp_group &group = plan.groups()[index];
    const unsigned shard = rt::PlanView::shardOf(group, rank);
    // All replicas of the group have the same values.
    Filler filler(index * plan.tables().world_size + shard);
    const bool isOnHost = plan.areParametersOnHost(group);
    const int64_t shardPlace = isOnHost ? group.host_shard : group.shard;
    for (const fsdp_parameter &parameter : plan.parametersOf(group)) {
      std::span<const int64_t> sizes = plan.sizes(parameter);
      auto elementBytes = static_cast<int64_t>(rt::elementBytes(parameter.dtype));
      // Matrices preserve the magnitude of what they multiply, vectors scale by about one.
      bool isMatrix = sizes.size() > 1;
      double inputs = isMatrix ? static_cast<double>(plan.numElements(parameter) / sizes[0]) : 1;
      for (const fsdp_piece &piece : plan.piecesOf(parameter)) {
        if (piece.rank != shard)
          continue;
        bytes.resize(static_cast<size_t>(piece.count * elementBytes));
        filler.fill(bytes.data(), piece.count, parameter.dtype, isMatrix ? 0 : 1,
                    isMatrix ? std::sqrt(3 / std::max(inputs, 1.0)) : 0.1, 1);
        if (rt::Status status =
                write(isOnHost, shardPlace + piece.shard_offset * elementBytes, bytes);
            !status.ok())
          return status;
      }
    }
  }
  Filler filler(rank);
  for (const fsdp_buffer &buffer : plan.buffers()) {
    const fsdp_value &value = plan.values()[buffer.value];
    if (plan.numElements(value) == 0 || plan.isTransient(buffer))
      continue;
    bytes.resize(static_cast<size_t>(plan.spanBytes(value)));
    filler.fill(bytes.data(), storedElements(plan, value), value.dtype, 1, 0.1, 1);
    if (rt::Status status = write(/*isOnHost=*/false, value.offset, bytes); !status.ok())
      return status;
  }
  return {};
}
