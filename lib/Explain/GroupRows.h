//===- GroupRows.h - A table of each group's events -------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_GROUPROWS_H
#define FSDP_EXPLAIN_GROUPROWS_H

#include "fsdp/Explain/Print.h"

namespace fsdp::explain {

/// A group's share of a gather or a reduction, or a use whose copy is kept.
struct GroupRow {
  uint32_t group = 0;
  uint32_t operation = 0; // rows of a group are sorted by it
  StepPart part = StepPart::Forward;
  const char *what = ""; // "gather", "reduce", "keep", "again", "again by copy engines"
  int64_t sizeBytes = 0;              // of this group alone
  std::optional<uint32_t> collective; // index into the view's collectives; none: a kept use
  std::string why;                    // why the collective is launched there; empty without one
  /// Why the copy is kept, or gathered again. Empty for first gathers and for reductions.
  std::string whyKept;

  std::string getWhy() const {
    return why + (why.empty() || whyKept.empty() ? "" : "; ") + whyKept;
  }
};

/// By group, then by operation. Every gather and reduction has a row in each of its groups.
std::vector<GroupRow> getGroupRows(const ExplainedPlan &plan);

/// The module of the operation at a position.
std::string getPlace(const ScheduleView &view, uint32_t position);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_GROUPROWS_H
