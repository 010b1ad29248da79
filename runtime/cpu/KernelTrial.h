//===- KernelTrial.h - Times kernels and torch's operators ---- -*- C++ -*-===//
//
// Tools for the choice of a kernel: random operands, and timed runs of a kernel and of torch's
// operator.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_KERNELTRIAL_H
#define FSDP_RUNTIME_KERNELTRIAL_H

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace fsdp::rt {

/// True for a tensor that a kernel in fp32 can read or write: strided, on the CPU, not empty.
bool isPlainFloat(const at::Tensor &tensor);

/// CPU time of the calling thread, without other processes of a busy machine.
std::chrono::nanoseconds threadTime();

/// The last and the shortest of several runs.
struct TimedRuns {
  std::chrono::nanoseconds last{}, shortest = std::chrono::nanoseconds::max();

  template <typename Body> void run(Body body) {
    std::chrono::nanoseconds begin = threadTime();
    body();
    last = threadTime() - begin;
    shortest = std::min(shortest, last);
  }
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(shortest).count();
  }
};

/// State that the trials of one kind of kernel share.
class KernelTrials {
public:
  /// The arguments with each fp32 operand replaced by random numbers in (-1, 1) in the same layout.
  /// Some rows are negative zeroes: there, sums that begin with their first product differ from
  /// sums that begin with zero.
  std::vector<c10::IValue> randomOperands(const std::vector<c10::IValue> &arguments);

  /// Runs both a few more times, against noise, within a budget of 50 ms for all trials.
  template <typename Theirs, typename Ours>
  void repeat(TimedRuns &theirs, Theirs runTheirs, TimedRuns &ours, Ours runOurs) {
    constexpr int kRepetitions = 3;
    for (int i = 0; i < kRepetitions && timeLeft > std::chrono::nanoseconds::zero(); ++i) {
      theirs.run(runTheirs);
      ours.run(runOurs);
      timeLeft -= theirs.last + ours.last;
    }
  }

private:
  std::chrono::nanoseconds timeLeft = std::chrono::milliseconds(50);
  at::Tensor numbers;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_KERNELTRIAL_H
