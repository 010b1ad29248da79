//===- ScheduleDiff.h - Two schedules side by side ---------------*- C++ -*-===//

#ifndef FSDP_EXPLAIN_SCHEDULEDIFF_H
#define FSDP_EXPLAIN_SCHEDULEDIFF_H

#include "fsdp/Explain/ScheduleView.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp::explain {

enum class EventKind : uint8_t {
  Reshard,
  Reduce,
  WaitForReduction,
  Update,
  Gather,
  Fetch,
  CopyEngineGather
};
inline constexpr unsigned kNumEventKinds = 7;
std::string_view getName(EventKind kind);

/// Something that a plan does between two operations.
struct ScheduleEvent {
  EventKind kind = EventKind::Gather;
  std::vector<std::string> groups;
  StepPart part = StepPart::Forward; // that it serves
  unsigned occurrence = 0;           // of equal events before it
  uint32_t position = 0;             // of the problem
  uint32_t place = 0;                // how many operations that do not move precede it
  double timeNs = 0; // when the collective begins, or ends for waits; the reshard's time

  /// Equal in two schedules that do the same thing, wherever it stands.
  bool isSameAs(const ScheduleEvent &other) const {
    return kind == other.kind && groups == other.groups && part == other.part &&
           occurrence == other.occurrence;
  }
};

/// All events of a plan in program order. `view` is the plan's.
std::vector<ScheduleEvent> getEvents(const schedule::Problem &problem, const schedule::Plan &plan,
                                     const ScheduleView &view);

/// Events of two schedules that belong together; an index is absent where the other has none.
struct AlignedEvent {
  std::optional<uint32_t> left, right;
  bool isReordered = false; // both have it, but not in the same order
};

/// A longest common subsequence and what is between (Myers 1986): O((n + m) d) for d differences.
std::vector<AlignedEvent> align(const std::vector<ScheduleEvent> &left,
                                const std::vector<ScheduleEvent> &right);

struct ScheduleSide {
  std::string name; // a file's
  const schedule::Problem &problem;
  const schedule::Plan &plan;
  const ScheduleView &view;
};

/// Whether both have the same operations in the same order, those aside that move. Else positions
/// cannot be compared.
bool haveSameOperations(const ScheduleView &left, const ScheduleView &right);

/// Prints times, peaks and bytes of both, and the events in which they differ: `-` only in the
/// left, `+` only in the right, `~` in both at different places. `all`: equal events too. Returns
/// whether they differ.
bool printDiff(const ScheduleSide &left, const ScheduleSide &right, bool all,
               llvm::raw_ostream &os);

/// The same as JSON: both names, facts that differ, figures, all events with their marks (`=` where
/// they are equal). Returns whether they differ.
bool writeDiff(const ScheduleSide &left, const ScheduleSide &right, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_SCHEDULEDIFF_H
