//===- CudaTraceTest.cpp - Traced steps on a recorded device --------------===//

#include "TrainingStep.h"
#include "cuda/CudaFakeTransport.h"

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

/// Those of the first entry of a kind.
std::vector<std::string> callsOf(fsdp_entry_kind kind, const fsdp_plan &plan,
                                 const std::map<uint32_t, std::vector<std::string>> &byEntry) {
  for (const auto &[entry, calls] : byEntry)
    if (plan.entries[entry].kind == kind)
      return calls;
  return {"not traced"};
}

/// The streams that wait for events, in order.
std::vector<std::string> waitingStreams(const std::vector<std::string> &calls) {
  std::vector<std::string> streams;
  for (const std::string &call : calls)
    if (std::istringstream words(call); call.starts_with("cudaStreamWaitEvent"))
      streams.push_back(*std::next(std::istream_iterator<std::string>(words)));
  return streams;
}

} // namespace

// A lane waits for compute, and compute for the lane right behind that: for each handle of what is
// one launch.
TEST(CudaTrace, CollectivesOverlapNothing) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  auto byEntry = traceStep(plan, Overlap::None);
  // The plan's wait is still issued, for what has ended.
  std::vector<std::string> compute = waitingStreams(callsOf(FSDP_WAIT, plan, byEntry));
  ASSERT_EQ(compute.size(), 1u);
  std::vector<std::string> gather = callsOf(FSDP_ALL_GATHER_START, plan, byEntry);
  EXPECT_THAT(waitingStreams(gather), ElementsAre(Ne(compute[0]), compute[0], compute[0]));
  EXPECT_THAT(gather.back(), StartsWith("cudaStreamWaitEvent " + compute[0]));
  std::vector<std::string> reduction = callsOf(FSDP_REDUCE_SCATTER_START, plan, byEntry);
  EXPECT_THAT(waitingStreams(reduction), ElementsAre(Ne(compute[0]), compute[0]));
  EXPECT_THAT(reduction.back(), StartsWith("cudaStreamWaitEvent " + compute[0]));
}

// What the plan says stays as it is: compute waits where the plan's waits are.
TEST(CudaTrace, CollectivesOverlapAsPlanned) {
  TrainingStep step;
  const fsdp_plan &plan = step.finish();
  auto byEntry = traceStep(plan, Overlap::AsPlanned);
  std::vector<std::string> compute = waitingStreams(callsOf(FSDP_WAIT, plan, byEntry));
  ASSERT_EQ(compute.size(), 1u);
  for (auto kind : {FSDP_ALL_GATHER_START, FSDP_REDUCE_SCATTER_START})
    EXPECT_THAT(waitingStreams(callsOf(kind, plan, byEntry)), Not(Contains(compute[0])));
}
