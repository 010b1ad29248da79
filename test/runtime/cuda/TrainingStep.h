//===- TrainingStep.h - A small step to run on recorded devices -*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_CUDA_TRAININGSTEP_H
#define FSDP_TEST_RUNTIME_CUDA_TRAININGSTEP_H

#include "../executor/PlanBuilder.h"
#include "NcclRanks.h"
#include "device/CpuDevice.h"
#include "executor/Executor.h"
#include "watch/WatchedCommunicator.h"

#include <functional>

namespace fsdp::test {

/// Two sharded layers with dropout between them, over two ranks: loss = sum(dropout(x v^T) w^T).
/// Both groups are gathered by one launch.
struct TrainingStep {
  struct Options {
    bool narrow = false; // groups are gathered and reduced in bf16; the step computes in fp32
    bool generated = false; // a generated kernel doubles x v^T, and another its gradient
    std::optional<double> clipNorm = {};
    fsdp_norm_type clipNormType = FSDP_NORM_2;
  };
  TrainingStep(uint32_t optimizer = FSDP_SGD) : TrainingStep(optimizer, Options{}) {}
  TrainingStep(uint32_t optimizer, Options options);
  TrainingStep(const fsdp_optimizer &optimizer, Options options);
  /// A step that also writes `index_put` of a mask, which needs the host.
  void addMaskedWrite();
  /// A step that also calls an operator whose results lie in other memory than the device's, unless
  /// a graph is captured, as the seeds of torch's memory-efficient attention do.
  void addHostResults();
  const fsdp_plan &finish() { return builder.finish(loss); }

  PlanBuilder builder;
  uint32_t loss;

private:
  /// The value of what is gathered at `place`, cast to `wide` behind the wait.
  void widen(uint32_t wide, int64_t place, std::vector<int64_t> sizes);
  /// Where the gradient is reduced from: itself, or its cast.
  int64_t narrowed(uint32_t gradient, std::vector<int64_t> sizes);
  /// Twice `value`, 4 x 16 numbers, by a kernel; or `value` itself.
  uint32_t doubled(uint32_t value);

  bool narrow, generated;
};

/// What a rank has seen of a run.
struct RankRun {
  rt::Status status;
  std::vector<rt::StepResults> results;
  std::vector<float> parameters; // of its shards, at the end
  std::string graphNote, lostMarks;
  rt::StepProgress::Numbers gathers, reductions; // after the last step
  rt::ExecutorStatistics statistics;
};

/// Runs `steps` steps of a plan on a rank, with inputs and initial parameters that its number
/// determines. Rank 0 traces `tracedStep`.
RankRun runSteps(const fsdp_plan &plan, int64_t steps, rt::Device &device,
                 rt::Communicator &communicator, rt::ExecutorOptions options = {},
                 int64_t tracedStep = 0);

/// The same on two ranks of this process, on CPUs.
std::vector<RankRun> runOnCpus(const fsdp_plan &plan, int64_t steps);

/// Ranks on recorded devices whose collectives happen.
struct RecordedRanks {
  explicit RecordedRanks(unsigned size = 2);
  rt::NcclRank &operator[](unsigned rank) { return *ranks[rank]; }
  std::vector<RankRun> run(const fsdp_plan &plan, int64_t steps, rt::ExecutorOptions options = {},
                           int64_t tracedStep = 0);

  std::vector<std::unique_ptr<rt::Communicator>> exchanges;
  std::vector<std::unique_ptr<rt::NcclRank>> ranks;
};

/// The number of recorded calls that begin with `prefix`.
size_t countOf(const std::vector<std::string> &calls, const std::string &prefix);

} // namespace fsdp::test

#endif // FSDP_TEST_RUNTIME_CUDA_TRAININGSTEP_H
