//===- EntryTimes.h - Measures when a step's entries run ------ -*- C++ -*-===//

#ifndef FSDP_RUNTIME_ENTRYTIMES_H
#define FSDP_RUNTIME_ENTRYTIMES_H

#include "executor/EntryTracer.h"

#include <chrono>
#include <vector>

namespace fsdp::rt {

/// Notes when each entry begins and ends on its stream, in the last step that ran it. Streams that
/// are host threads read a clock; streams of a device record events.
class EntryTimes final : public EntryTracer {
public:
  /// The time since any fixed point, read on the calling thread.
  using Clock = std::chrono::nanoseconds (*)();
  static std::chrono::nanoseconds steadyClock();

  /// For streams of the host. Times of different threads are comparable if `clock` is the same
  /// clock for all threads.
  explicit EntryTimes(size_t entries, Clock clock = &steadyClock);
  /// For streams of `device`, which outlives the object; its events must have times.
  EntryTimes(size_t entries, Device &device);

  void begins(uint32_t entry, Stream &stream) override { note(begin[entry], stream); }
  void ends(uint32_t entry, Stream &stream) override { note(end[entry], stream); }

  /// Waits for the device's events and reads their times. To be called after the step, before the
  /// times are read. Errors are the device's.
  Status read();

  bool hasRun(uint32_t entry) const { return begin[entry].noted && end[entry].noted; }
  /// Relative to the begin of the first entry.
  int64_t beginNs(uint32_t entry) const { return begin[entry].ns; }
  int64_t endNs(uint32_t entry) const { return end[entry].ns; }
  double durationNs(uint32_t entry) const {
    return static_cast<double>(end[entry].ns - begin[entry].ns);
  }
  /// The durations of all entries.
  std::vector<double> durationsNs() const;

private:
  struct Moment {
    std::unique_ptr<Event> event; // of a device
    int64_t ns = 0;
    bool noted = false;
  };

  void note(Moment &moment, Stream &stream);

  const Clock clock;              // null: events
  std::vector<Moment> begin, end; // by entry
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_ENTRYTIMES_H
