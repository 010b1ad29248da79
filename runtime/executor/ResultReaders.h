//===- ResultReaders.h - Until when a result is read -------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_RESULTREADERS_H
#define FSDP_RUNTIME_RESULTREADERS_H

#include "plan/PlanView.h"

#include <vector>

namespace fsdp::rt {

/// Which entry of a plan is the last one that reads what a call writes, directly or through views.
class ResultReaders {
public:
  /// Takes O(n log n) for n entries.
  explicit ResultReaders(const PlanView &view);

  static constexpr size_t kEver = ~size_t(0);
  /// The last entry that reads `value`, a result of a call; 0 if none does; kEver if something else
  /// than a call or a copy does: a collective, an update, the next step, the host.
  size_t lastReader(uint32_t value) const { return last[value]; }

private:
  void findReadingCalls();
  void findOtherReaders();

  const PlanView &view;
  std::vector<size_t> last; // by value, of those that are results of calls
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RESULTREADERS_H
