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

/// An action of a plan between two operations.
struct ScheduleEvent {
  EventKind kind = EventKind::Gather;
  std::vector<std::string> groups;
  StepPart part = StepPart::Forward; // that it serves
  unsigned occurrence = 0;           // number of equal events before it
  uint32_t position = 0;             // of the problem
  uint32_t place = 0;                // number of preceding operations that are not movable
  double timeNs = 0; // when the collective begins, or ends for waits; the reshard's time

  /// True for the same event of two schedules, at any position.
  bool isSameAs(const ScheduleEvent &other) const {
    return kind == other.kind && groups == other.groups && part == other.part &&
           occurrence == other.occurrence;
  }
};

/// All events of a plan in program order. `view` is the plan's.
std::vector<ScheduleEvent> getEvents(const schedule::Problem &problem, const schedule::Plan &plan,
                                     const ScheduleView &view);

/// Matching events of two schedules; an index is absent if the other schedule has no such event.
struct AlignedEvent {
  std::optional<uint32_t> left, right;
  bool isReordered = false; // both have it, in another order
};

/// By a longest common subsequence (Myers 1986): O((n + m) d) for d differences.
std::vector<AlignedEvent> align(const std::vector<ScheduleEvent> &left,
                                const std::vector<ScheduleEvent> &right);

struct ScheduleSide {
  std::string name; // file name
  const schedule::Problem &problem;
  const schedule::Plan &plan;
  const ScheduleView &view;
};

/// True if both have the same operations in the same order, apart from movable ones. Otherwise
/// positions cannot be compared.
bool haveSameOperations(const ScheduleView &left, const ScheduleView &right);

/// Prints times, peaks and bytes of both, and the events in which they differ: `-` only in the
/// left, `+` only in the right, `~` in both at different positions. `all`: equal events too.
/// Returns true if they differ.
bool printDiff(const ScheduleSide &left, const ScheduleSide &right, bool all,
               llvm::raw_ostream &os);

/// The same as JSON: both names, differing facts, figures, and all events with their marks (`=` for
/// equal ones). Returns true if they differ.
bool writeDiff(const ScheduleSide &left, const ScheduleSide &right, llvm::raw_ostream &os);

} // namespace fsdp::explain

#endif // FSDP_EXPLAIN_SCHEDULEDIFF_H
