//===- PlanChecks.h - Shared checks of a plan's tables -------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_PLANCHECKS_H
#define FSDP_RUNTIME_PLANCHECKS_H

#include "plan/PlanView.h"

#include <limits>
#include <string>

namespace fsdp::rt {

/// Checks of indices against the tables that they refer to. Each returns whether the check holds;
/// the first failure is kept in `status`. `where` begins its message.
class PlanChecks {
protected:
  explicit PlanChecks(const PlanView &view) : plan(view.tables()), view(view) {}

  bool fail(const std::string &message) {
    if (status.ok())
      status = Status::error("invalid plan: " + message);
    return false;
  }

  /// The place of a failed check; built only on failure.
  static std::string at(const char *table, size_t index) {
    return std::string(table) + " " + std::to_string(index);
  }

  /// "bytes [128, 192)"; an end that overflows is printed as the largest number.
  static std::string describeBytes(int64_t offset, int64_t bytes) {
    int64_t end;
    if (__builtin_add_overflow(offset, bytes, &end))
      end = offset < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    return "bytes [" + std::to_string(offset) + ", " + std::to_string(end) + ")";
  }

  bool index(uint32_t value, uint32_t size, const char *what, const std::string &where) {
    return value < size ||
           fail(where + ": " + what + " " + std::to_string(value) + " of " + std::to_string(size));
  }
  bool string(uint32_t offset, const std::string &where) {
    return offset < plan.num_string_bytes ||
           fail(where + ": string at byte " + std::to_string(offset) + " of " +
                std::to_string(plan.num_string_bytes));
  }
  bool aliases(uint64_t first, uint64_t count, const std::string &where) {
    if (!list(first, count, where))
      return false;
    for (int64_t alias : std::span(plan.integers + first, count))
      if (alias < 0 || static_cast<uint64_t>(alias) >= plan.num_string_bytes)
        return fail(where + ": alias at byte " + std::to_string(alias) + " of " +
                    std::to_string(plan.num_string_bytes));
    return true;
  }
  bool list(uint64_t first, uint64_t count, const std::string &where) {
    return first + count <= plan.num_integers ||
           fail(where + ": integers [" + std::to_string(first) + ", " +
                std::to_string(first + count) + ") of " + std::to_string(plan.num_integers));
  }
  bool range(int64_t offset, int64_t bytes, const char *what, const std::string &where) {
    return (offset >= 0 && bytes >= 0 && offset <= plan.arena_bytes &&
            bytes <= plan.arena_bytes - offset) ||
           fail(where + ": " + what + " takes " + describeBytes(offset, bytes) +
                " of an arena of " + std::to_string(plan.arena_bytes));
  }

  const fsdp_plan &plan;
  const PlanView view;
  Status status;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_PLANCHECKS_H
