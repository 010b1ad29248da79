//===- IndexUses.h - Checks of inputs that are indices -------- -*- C++ -*-===//
//
// Tokens are indices: an embedding's input selects its rows, a loss's target selects its classes.
// An index out of range is found on the host, before an operator reads it: on a device it would end
// the whole process, far from the cause.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_INDEXUSES_H
#define FSDP_RUNTIME_INDEXUSES_H

#include "Status.h"
#include "plan/PlanView.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fsdp::rt {

/// An operator that takes an input of the step, or a view or copy of it, as indices.
struct IndexUse {
  uint32_t input;                // of the plan
  uint32_t dtype;                // of the input
  int64_t firstElement;          // of the elements read, within the input
  std::vector<int64_t> sizes;    // of the elements read
  std::vector<int64_t> strides;  // elements
  int64_t least;                 // lower limit of indices: 0, or negative where that is allowed
  int64_t count;                 // upper limit of indices, exclusive
  std::optional<int64_t> exempt; // the index that a loss ignores
  std::string user;              // for messages: `aten::embedding in module "tok"`
};

/// The index uses of a plan, found by its calls.
std::vector<IndexUse> findIndexUses(const PlanView &plan);

/// An index of a batch that is out of range.
struct BadIndex {
  int64_t value;
  int64_t element; // of the input
};
/// The first bad index that `use` reads from `input`, the input's bytes.
std::optional<BadIndex> findBadIndex(const IndexUse &use, std::span<const std::byte> input);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_INDEXUSES_H
