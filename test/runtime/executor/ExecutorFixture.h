//===- ExecutorFixture.h - Run a plan in a test ------------------*- C++ -*-===//

#ifndef FSDP_TEST_RUNTIME_EXECUTOR_EXECUTORFIXTURE_H
#define FSDP_TEST_RUNTIME_EXECUTOR_EXECUTORFIXTURE_H

#include "PlanBuilder.h"
#include "comm/StandardLanes.h"
#include "device/CpuDevice.h"
#include "executor/Executor.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

namespace fsdp::test {

/// A tensor at `offset` of an arena.
inline at::Tensor tensorAt(std::byte *arena, int64_t offset, at::IntArrayRef sizes,
                           at::ScalarType type = at::kFloat) {
  return at::from_blob(arena + offset, sizes, type);
}

/// One rank that runs a plan of world size 1.
class SingleRank {
public:
  explicit SingleRank(const fsdp_plan &plan, rt::ExecutorOptions options = {})
      : communicators(rt::makeLocalCommunicators(1, {.lanes = rt::standardLanes(1)})),
        arena(*communicators[0]->makeArena(static_cast<size_t>(plan.arena_bytes))),
        result(create(plan, device, *communicators[0], arena, options)) {}

  rt::Executor &executor() { return **result; }
  rt::Status status() const { return result.status(); }
  at::Tensor tensor(int64_t offset, at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
    return tensorAt(arena, offset, sizes, type);
  }
  /// Runs a step that must succeed; its results, or those of a step before if any lag.
  rt::StepResults step(int64_t number, uint64_t seed = 1) {
    rt::Result<std::optional<rt::StepResults>> done =
        executor().step({.step = number, .learningRate = 0.1, .seed = seed});
    EXPECT_TRUE(done.ok()) << done.status().message();
    return done.ok() && *done ? **done : rt::StepResults{};
  }

private:
  /// With one thread per operator, as a training binary has by default.
  static rt::Result<std::unique_ptr<rt::Executor>> create(const fsdp_plan &plan, rt::Device &device,
                                                          rt::Communicator &communicator,
                                                          std::byte *arena,
                                                          rt::ExecutorOptions options) {
    at::set_num_threads(1);
    return rt::Executor::create(plan, device, communicator, arena, options);
  }

  rt::CpuDevice device;
  std::vector<std::unique_ptr<rt::Communicator>> communicators;

public:
  std::byte *const arena;

private:
  rt::Result<std::unique_ptr<rt::Executor>> result;
};

} // namespace fsdp::test

#endif // FSDP_TEST_RUNTIME_EXECUTOR_EXECUTORFIXTURE_H
