//===- Stopwatch.h - Measures the time of a block ------------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_STOPWATCH_H
#define FSDP_RUNTIME_STOPWATCH_H

#include <chrono>

namespace fsdp::rt {

/// Adds its lifetime to a sum, which must outlive it.
class Stopwatch {
public:
  explicit Stopwatch(double &milliseconds) : sum(milliseconds) {}
  ~Stopwatch() {
    sum += std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }
  Stopwatch(const Stopwatch &) = delete;

private:
  using Clock = std::chrono::steady_clock;

  double &sum;
  const Clock::time_point begin = Clock::now();
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STOPWATCH_H
