//===- EntryTimes.h - When a step's entries ran -----------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_ENTRYTIMES_H
#define FSDP_RUNTIME_ENTRYTIMES_H

#include "executor/EntryTracer.h"

#include <chrono>
#include <vector>

namespace fsdp::rt {

/// Notes when each entry begins and ends on its stream; of several steps, when it did last. Streams
/// that are threads of the host read a clock, those of a device record its events.
class EntryTimes final : public EntryTracer {
public:
  /// Of the thread that calls it, from any point in time.
  using Clock = std::chrono::nanoseconds (*)();
  static std::chrono::nanoseconds steadyClock();

  /// Of the host. Moments of different threads compare if `clock` is the same for all.
  explicit EntryTimes(size_t entries, Clock clock = &steadyClock);
  /// Of `device`, which outlives the object; its events must have times.
  EntryTimes(size_t entries, Device &device);

  void begins(uint32_t entry, Stream &stream) override { note(begin[entry], stream); }
  void ends(uint32_t entry, Stream &stream) override { note(end[entry], stream); }

  /// Waits for the device's events and reads their times. After the step, before the times are
  /// asked for. Errors come from the device.
  Status read();

  bool hasRun(uint32_t entry) const { return begin[entry].noted && end[entry].noted; }
  /// From when the first entry began.
  int64_t beginNs(uint32_t entry) const { return begin[entry].ns; }
  int64_t endNs(uint32_t entry) const { return end[entry].ns; }
  double durationNs(uint32_t entry) const {
    return static_cast<double>(end[entry].ns - begin[entry].ns);
  }
  /// Of all entries.
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
