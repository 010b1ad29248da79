//===- EntryTimes.cpp - Measures when a step's entries run ----------------===//

#include "executor/EntryTimes.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::rt;

std::chrono::nanoseconds EntryTimes::steadyClock() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

EntryTimes::EntryTimes(size_t entries, Clock clock) : clock(clock), begin(entries), end(entries) {}

EntryTimes::EntryTimes(size_t entries, Device &device)
    : clock(nullptr), begin(entries), end(entries) {
  for (std::vector<Moment> *moments : {&begin, &end})
    for (Moment &moment : *moments)
      moment.event = device.makeEvent();
}

void EntryTimes::note(Moment &moment, Stream &stream) {
  moment.noted = true;
  if (clock)
    moment.ns = clock().count();
  else
    stream.record(*moment.event);
}

Status EntryTimes::read() {
  const Event *origin = nullptr;
  int64_t first = INT64_MAX;
  for (std::vector<Moment> *moments : {&begin, &end})
    for (Moment &moment : *moments) {
      if (!moment.noted)
        continue;
      if (moment.event) {
        if (Status status = moment.event->synchronize(); !status.ok())
          return status;
        if (!origin)
          origin = moment.event.get();
        Result<double> milliseconds = moment.event->millisecondsSince(*origin);
        if (!milliseconds.ok())
          return milliseconds.status();
        moment.ns = std::llround(*milliseconds * 1e6);
      }
      first = std::min(first, moment.ns);
    }
  for (std::vector<Moment> *moments : {&begin, &end})
    for (Moment &moment : *moments)
      moment.ns -= first;
  return {};
}

std::vector<double> EntryTimes::durationsNs() const {
  std::vector<double> durations;
  for (uint32_t entry = 0; entry < begin.size(); ++entry)
    durations.push_back(durationNs(entry));
  return durations;
}
