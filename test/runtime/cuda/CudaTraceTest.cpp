//===- CudaTraceTest.cpp - Traced steps on a recorded device --------------===//

#include "TrainingStep.h"
#include "cuda/CudaFakeTransport.h"
#include "executor/FakeRun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <sstream>

using namespace fsdp::rt;
using namespace fsdp::test;
using testing::Contains;
using testing::ElementsAre;
using testing::Ne;
using testing::Not;
using testing::StartsWith;

namespace {

/// The calls between an entry's begin and its end.
class CallsOfEntries final : public EntryTracer {
public:
  explicit CallsOfEntries(RecordingCalls &calls) : calls(calls) {}
  void begins(uint32_t, Stream &) override { calls.take(); }
  void ends(uint32_t entry, Stream &) override { byEntry[entry] = calls.take(); }

  std::map<uint32_t, std::vector<std::string>> byEntry;

private:
  RecordingCalls &calls;
};

/// Runs two steps of the plan as rank 0 of two fake ranks, and traces the second.
std::map<uint32_t, std::vector<std::string>> traceStep(const fsdp_plan &plan, Overlap overlap) {
  RecordingCalls calls;
  auto device = std::move(*CudaDevice::open(calls, {}));
  auto communicator = std::move(*FakeCommunicator::create(
      fakeOptionsOf(PlanView(plan)), std::make_unique<CudaFakeTransport>(*device)));
  std::byte *arena = *communicator->makeArena(static_cast<size_t>(plan.arena_bytes));
  auto executor = std::move(*Executor::create(plan, *device, *communicator, arena));
  CallsOfEntries traced(calls);
  executor->trace(&traced, overlap);
  for (int64_t step = 1; step <= 2; ++step) {
    auto results = executor->step({.step = step, .learningRate = 0.1, .seed = 5});
    EXPECT_TRUE(results.ok()) << results.status().message();
  }
  return traced.byEntry;
}

/// The streams that wait for events, in order.
std::vector<std::string> waitingStreams(const std::vector<std::string> &calls) {
  std::vector<std::string> streams;
  for (const std::string &call : calls)
    if (std::istringstream words(call); call.starts_with("cudaStreamWaitEvent"))
      streams.push_back(*std::next(std::istream_iterator<std::string>(words)));
  return streams;
}

/// A training step whose second run was traced.
class TracedStep {
public:
  explicit TracedStep(Overlap overlap) : plan(step.finish()), byEntry(traceStep(plan, overlap)) {}

  /// The calls of the first entry of a kind.
  std::vector<std::string> callsOf(fsdp_entry_kind kind) const {
    for (const auto &[entry, calls] : byEntry)
      if (plan.entries[entry].kind == kind)
        return calls;
    return {"not traced"};
  }
  /// The stream that waits at the plan's waits.
  std::string computeStream() const {
    std::vector<std::string> streams = waitingStreams(callsOf(FSDP_WAIT));
    EXPECT_EQ(streams.size(), 1u);
    return streams.empty() ? "none" : streams[0];
  }

private:
  TrainingStep step;
  const fsdp_plan &plan;
  const std::map<uint32_t, std::vector<std::string>> byEntry;
};

} // namespace

// A lane waits for compute, and compute for the lane right behind that: for each handle of what is
// one launch.
TEST(CudaTrace, CollectivesOverlapNothing) {
  TracedStep step(Overlap::None);
  // The plan's wait is still issued, for what has ended.
  const std::string compute = step.computeStream();
  std::vector<std::string> gather = step.callsOf(FSDP_ALL_GATHER_START);
  EXPECT_THAT(waitingStreams(gather), ElementsAre(Ne(compute), compute, compute));
  EXPECT_THAT(gather.back(), StartsWith("cudaStreamWaitEvent " + compute));
  std::vector<std::string> reduction = step.callsOf(FSDP_REDUCE_SCATTER_START);
  EXPECT_THAT(waitingStreams(reduction), ElementsAre(Ne(compute), compute));
  EXPECT_THAT(reduction.back(), StartsWith("cudaStreamWaitEvent " + compute));
}

// What the plan says stays as it is: compute waits where the plan's waits are.
TEST(CudaTrace, CollectivesOverlapAsPlanned) {
  TracedStep step(Overlap::AsPlanned);
  for (auto kind : {FSDP_ALL_GATHER_START, FSDP_REDUCE_SCATTER_START}) {
    std::vector<std::string> calls = step.callsOf(kind);
    EXPECT_THAT(calls, Not(Contains("not traced")));
    EXPECT_THAT(waitingStreams(calls), Not(Contains(step.computeStream())));
  }
}
