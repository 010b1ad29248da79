//===- IndexUses.cpp - Checks of inputs that are indices ------------------===//

#include "data/IndexUses.h"
#include "DType.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>

using namespace fsdp::rt;

namespace {
/// An operator with indices, by its arguments.
struct IndexedOperator {
  const char *name;
  size_t table, indices;
  /// The indexed dimension of the table; -1: the dimension of classes, which is the second or the
  /// only one; -2: the value of argument 1.
  int dimension;
  int exempt; // the argument with an index to ignore; -1: none
};
constexpr IndexedOperator kOperators[] = {
    {"aten::embedding", 0, 1, 0, -1},
    {"aten::nll_loss_forward", 0, 1, -1, 4},
    {"aten::nll_loss2d_forward", 0, 1, -1, 4},
    {"aten::index_select", 0, 2, -2, -1},
    {"aten::gather", 0, 2, -2, -1},
    {"aten::scatter", 0, 2, -2, -1},
    {"aten::scatter_add", 0, 2, -2, -1},
    {"aten::scatter_reduce", 0, 2, -2, -1},
    {"aten::_embedding_bag", 0, 1, 0, -1},
    {"aten::_embedding_bag_forward_only", 0, 1, 0, -1},
};
// Argument 1 is a list of indices into the dimensions of argument 0: x[i, j]. Negative indices
// count from the end.
constexpr std::string_view kListOperators[] = {"aten::index", "aten::index_put"};
// Copies that keep the order of elements if their results are contiguous.
constexpr std::string_view kCopies[] = {"aten::_to_copy", "aten::clone"};

/// Which elements an operator replaces by 0: those below 0, or those above.
enum class Clamp : uint8_t { None, Below, Above };
Clamp getClamp(std::string_view callee) {
  return callee == "aten::clamp_min"   ? Clamp::Below
         : callee == "aten::clamp_max" ? Clamp::Above
                                       : Clamp::None;
}

bool isIndex(uint32_t dtype) { return dtype == FSDP_I64 || dtype == FSDP_I32; }

class UseFinder {
public:
  explicit UseFinder(const PlanView &plan) : plan(plan) {
    for (uint32_t input = 0; input < plan.inputs().size(); ++input) {
      uint32_t value = plan.inputs()[input].value;
      if (isIndex(plan.values()[value].dtype))
        bases[value] = {input, plan.values()[value].offset};
    }
    for (const fsdp_entry &entry : plan.entries()) {
      if (entry.kind == FSDP_VIEW)
        follow(entry, /*isCopy=*/false);
      if (entry.kind == FSDP_KERNEL)
        addKernel(entry);
      if (entry.kind != FSDP_CALL)
        continue;
      std::string_view callee = plan.string(entry.callee);
      for (std::string_view copy : kCopies)
        if (callee == copy)
          follow(entry, /*isCopy=*/true);
      if (Clamp clamp = getClamp(callee); clamp != Clamp::None && clampsAtZero(entry))
        follow(entry, /*isCopy=*/true, clamp);
      if (callee == "aten::eq" || callee == "aten::masked_fill")
        followIgnored(entry, callee == "aten::eq");
      for (const IndexedOperator &op : kOperators)
        if (callee == op.name)
          add(entry, op);
      for (std::string_view name : kListOperators)
        if (callee == name)
          addList(entry);
    }
  }

  std::vector<IndexUse> uses;

private:
  /// The input whose elements a value has, and the position of the value's first element.
  struct Base {
    uint32_t input;
    int64_t offset;
    Clamp clamp = Clamp::None;
    std::optional<int64_t> replaced = std::nullopt; // by kReplacement
  };
  /// A result of aten::eq: marks the elements of a value that equal a number.
  struct Mask {
    uint32_t value;
    int64_t number;
  };
  /// The value that replaces a class that a loss ignores, in a loss that the compiler has
  /// split (fsdp-fuse).
  static constexpr int64_t kReplacement = std::numeric_limits<int64_t>::min();

  const Base *baseOf(const fsdp_entry &entry, size_t argument) const {
    std::span<const fsdp_argument> arguments = plan.arguments(entry);
    if (argument >= arguments.size() || arguments[argument].kind != FSDP_ARG_VALUE)
      return nullptr;
    auto found = bases.find(arguments[argument].index);
    return found == bases.end() ? nullptr : &found->second;
  }

  bool clampsAtZero(const fsdp_entry &entry) const {
    std::span<const fsdp_argument> arguments = plan.arguments(entry);
    return arguments.size() == 2 && arguments[1].kind == FSDP_ARG_INT &&
           arguments[1].payload.integer == 0;
  }

  void follow(const fsdp_entry &entry, bool isCopy, Clamp clamp = Clamp::None) {
    const Base *base = baseOf(entry, 0);
    if (!base || (base->clamp != Clamp::None && clamp != Clamp::None))
      return;
    if (clamp == Clamp::None)
      clamp = base->clamp;
    const fsdp_value &from = plan.values()[plan.arguments(entry)[0].index];
    for (int64_t result : plan.results(entry)) {
      if (result < 0)
        continue;
      const fsdp_value &to = plan.values()[result];
      if (!isCopy)
        bases[static_cast<uint32_t>(result)] = *base;
      else if (isIndex(to.dtype) && plan.isContiguous(from) && plan.isContiguous(to) &&
               plan.numElements(from) == plan.numElements(inputOf(*base)))
        bases[static_cast<uint32_t>(result)] = {base->input, to.offset, clamp, base->replaced};
    }
  }

  /// masked_fill(indices, indices == number, kReplacement)
  void followIgnored(const fsdp_entry &entry, bool isComparison) {
    std::span<const fsdp_argument> arguments = plan.arguments(entry);
    auto isInteger = [&](size_t i) {
      return i + 1 == arguments.size() && arguments[i].kind == FSDP_ARG_INT;
    };
    if (!baseOf(entry, 0) || plan.results(entry).size() != 1 || plan.results(entry)[0] < 0)
      return;
    const auto result = static_cast<uint32_t>(plan.results(entry)[0]);
    if (isComparison && isInteger(1))
      masks[result] = {arguments[0].index, arguments[1].payload.integer};
    if (isComparison || !isInteger(2) || arguments[2].payload.integer != kReplacement ||
        arguments[1].kind != FSDP_ARG_VALUE)
      return;
    auto mask = masks.find(arguments[1].index);
    if (mask == masks.end() || mask->second.value != arguments[0].index)
      return;
    follow(entry, /*isCopy=*/true);
    if (auto made = bases.find(result); made != bases.end())
      made->second.replaced = mask->second.number;
  }

  const fsdp_value &inputOf(const Base &base) const {
    return plan.values()[plan.inputs()[base.input].value];
  }

  void add(const fsdp_entry &entry, const IndexedOperator &op) {
    std::span<const fsdp_argument> arguments = plan.arguments(entry);
    const Base *base = baseOf(entry, op.indices);
    if (!base || arguments[op.table].kind != FSDP_ARG_VALUE)
      return;
    std::span<const int64_t> table = plan.sizes(plan.values()[arguments[op.table].index]);
    auto dimensions = static_cast<int64_t>(table.size());
    int64_t dimension = op.dimension;
    if (dimension == -1)
      dimension = dimensions > 1 ? 1 : 0;
    if (dimension == -2)
      dimension =
          arguments[1].payload.integer + (arguments[1].payload.integer < 0 ? dimensions : 0);
    if (dimension < 0 || dimension >= dimensions)
      return;
    IndexUse &use =
        addUse(entry, *base, arguments[op.indices].index, 0, table[static_cast<size_t>(dimension)]);
    if (base->replaced)
      return; // the call then ignores the replacement instead of the number
    if (op.exempt >= 0 && static_cast<size_t>(op.exempt) < arguments.size() &&
        arguments[op.exempt].kind == FSDP_ARG_INT)
      use.exempt = arguments[op.exempt].payload.integer;
  }

  void addList(const fsdp_entry &entry) {
    std::span<const fsdp_argument> arguments = plan.arguments(entry);
    if (arguments.size() < 2 || arguments[0].kind != FSDP_ARG_VALUE ||
        arguments[1].kind != FSDP_ARG_VALUE_LIST)
      return;
    std::span<const int64_t> table = plan.sizes(plan.values()[arguments[0].index]);
    std::span<const int64_t> list = plan.integers(arguments[1].index, arguments[1].count);
    // A mask indexes as many dimensions as it has.
    for (int64_t value : list)
      if (value >= 0 && !isIndex(plan.values()[static_cast<size_t>(value)].dtype))
        return;
    for (size_t i = 0; i < std::min(list.size(), table.size()); ++i)
      if (auto found = list[i] < 0 ? bases.end() : bases.find(static_cast<uint32_t>(list[i]));
          found != bases.end())
        addUse(entry, found->second, found->first, -table[i], table[i]);
  }

  /// Adds the index uses of a kernel. Indices of columns have a last dimension of size 1. If a loss
  /// ignores negative ones, the compiler clamps them (fsdp-fuse). Targets of a loss's backward have
  /// no such dimension and are skipped: a kernel does not tell which of them are ignored, and the
  /// loss's own use is checked.
  void addKernel(const fsdp_entry &entry) {
    int64_t most = 0, columns = 0;
    auto consider = [&](const fsdp_value &value) {
      std::span<const int64_t> sizes = plan.sizes(value);
      if (int64_t elements = plan.numElements(value); elements > most && !sizes.empty()) {
        most = elements;
        columns = sizes.back();
      }
    };
    for (const fsdp_argument &argument : plan.arguments(entry))
      consider(plan.values()[argument.index]);
    for (int64_t result : plan.results(entry))
      consider(plan.values()[result]);
    for (size_t i = 0; i < plan.arguments(entry).size(); ++i)
      if (const Base *base = baseOf(entry, i)) {
        const uint32_t index = plan.arguments(entry)[i].index;
        std::span<const int64_t> sizes = plan.sizes(plan.values()[index]);
        if (sizes.size() >= 2 && sizes.back() == 1)
          addUse(entry, *base, index, 0, columns);
      }
  }

  /// `value`: the indices, which are elements of an input.
  IndexUse &addUse(const fsdp_entry &entry, const Base &base, uint32_t value, int64_t least,
                   int64_t count) {
    const fsdp_value &indices = plan.values()[value];
    std::span<const int64_t> sizes = plan.sizes(indices), strides = plan.strides(indices);
    if (base.clamp == Clamp::Below)
      least = std::numeric_limits<int64_t>::min();
    if (base.clamp == Clamp::Above)
      count = std::numeric_limits<int64_t>::max();
    return uses.emplace_back(
        IndexUse{base.input,
                 inputOf(base).dtype,
                 (indices.offset - base.offset) / static_cast<int64_t>(elementBytes(indices.dtype)),
                 {sizes.begin(), sizes.end()},
                 {strides.begin(), strides.end()},
                 least,
                 count,
                 base.replaced,
                 plan.describeEntry(entry)});
  }

  const PlanView &plan;
  std::map<uint32_t, Base> bases; // by value
  std::map<uint32_t, Mask> masks;
};
} // namespace

std::vector<IndexUse> fsdp::rt::findIndexUses(const PlanView &plan) {
  return std::move(UseFinder(plan).uses);
}

template <typename Index>
static std::optional<BadIndex> findBad(const IndexUse &use, std::span<const std::byte> input) {
  const size_t dimensions = use.sizes.size();
  std::vector<int64_t> place(dimensions, 0);
  for (int64_t size : use.sizes)
    if (size == 0)
      return std::nullopt;
  for (int64_t element = use.firstElement;;) {
    Index index;
    std::memcpy(&index, input.data() + static_cast<size_t>(element) * sizeof(Index), sizeof(Index));
    if ((index < use.least || index >= use.count) && use.exempt != index)
      return BadIndex{index, element};
    size_t i = dimensions;
    for (; i-- > 0;) { // to the next element, in row-major order
      element += use.strides[i];
      if (++place[i] < use.sizes[i])
        break;
      element -= use.sizes[i] * use.strides[i];
      place[i] = 0;
    }
    if (i == ~size_t(0))
      return std::nullopt;
  }
}

std::optional<BadIndex> fsdp::rt::findBadIndex(const IndexUse &use,
                                               std::span<const std::byte> input) {
  return use.dtype == FSDP_I64 ? findBad<int64_t>(use, input) : findBad<int32_t>(use, input);
}
