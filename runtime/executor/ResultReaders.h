//===- ResultReaders.h - Until when a result is read -------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_RESULTREADERS_H
#define FSDP_RUNTIME_RESULTREADERS_H

#include "plan/PlanView.h"

#include <vector>

namespace fsdp::rt {

/// Which entry of a plan is the last one that reads what a call writes. Bytes tell, not values: a
/// copy into the layout of a group reads the gradient's bytes as a value of its own.
class ResultReaders {
public:
  /// Takes O(n log n) for n entries.
  explicit ResultReaders(const PlanView &view);

  static constexpr size_t kEver = ~size_t(0);
  /// The last entry that reads a byte of `value`, a result of a call, before it is overwritten (for
  /// what a start reads: the wait for it); 0 if none does; kEver if the host or the next step does.
  size_t lastReader(uint32_t value) const { return last[value]; }

private:
  std::vector<size_t> last; // by value, of those that are results of calls
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RESULTREADERS_H
