//===- IndexUses.h - Inputs that number rows of a table ----------*- C++ -*-===//
//
// Tokens are indices: an embedding's input numbers its rows, a loss's target numbers its classes.
// One that lies outside is found on the host, before an operator sees it: on a device it would end
// the whole process, far from what caused it.
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
  int64_t firstElement;          // of what is read, in the input
  std::vector<int64_t> sizes;    // likewise
  std::vector<int64_t> strides;  // elements
  int64_t least;                 // no index is below it: 0, or negative where that is allowed
  int64_t count;                 // indices are below it
  std::optional<int64_t> exempt; // the one that a loss ignores
  std::string user;              // for messages: `aten::embedding in module "tok"`
};

/// Those of a plan, by what it calls.
std::vector<IndexUse> findIndexUses(const PlanView &plan);

/// An index of a batch that is out of range.
struct BadIndex {
  int64_t value;
  int64_t element; // of the input
};
/// The first one that `use` reads of `input`, its bytes.
std::optional<BadIndex> findBadIndex(const IndexUse &use, std::span<const std::byte> input);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_INDEXUSES_H
