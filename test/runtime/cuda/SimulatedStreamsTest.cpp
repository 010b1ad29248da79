//===- SimulatedStreamsTest.cpp - Missing events show ---------------------===//

#include "SimulatedStreams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

using namespace fsdp::rt;
using testing::ElementsAre;

namespace {

/// Torch's stream and another one, whose work says that it runs.
class SimulatedStreamsTest : public testing::Test {
protected:
  void SetUp() override { streams.setTorchStream(torch); }
  void run(cudaStream_t stream, std::string name) {
    streams.run(stream, [this, name = std::move(name)] { ran.push_back(name); });
  }

  int handles[4] = {};
  cudaStream_t torch = reinterpret_cast<cudaStream_t>(&handles[0]),
               other = reinterpret_cast<cudaStream_t>(&handles[1]);
  cudaEvent_t fork = reinterpret_cast<cudaEvent_t>(&handles[2]),
              join = reinterpret_cast<cudaEvent_t>(&handles[3]);
  SimulatedStreams streams;
  std::vector<std::string> ran;
};

} // namespace

// Work of another stream runs when torch's stream or the host waits for it, and no sooner.
TEST_F(SimulatedStreamsTest, RunsLate) {
  run(other, "copy");
  streams.record(join, other);
  run(other, "mark");
  run(torch, "mm");
  EXPECT_THAT(ran, ElementsAre("mm"));
  streams.wait(torch, join);
  EXPECT_THAT(ran, ElementsAre("mm", "copy"));
  EXPECT_EQ(streams.synchronize(other), cudaSuccess);
  EXPECT_THAT(ran, ElementsAre("mm", "copy", "mark"));
}

// A graph runs the other stream's work first and last by turns, as far as its events allow.
TEST_F(SimulatedStreamsTest, GraphsRunEarlyAndLate) {
  streams.begin(torch);
  run(torch, "mm");
  streams.record(fork, torch);
  run(torch, "add");
  streams.wait(other, fork);
  run(other, "copy");
  streams.record(join, other);
  run(torch, "mul");
  streams.wait(torch, join);
  run(torch, "sum");
  std::shared_ptr<SimulatedGraph> graph;
  ASSERT_EQ(streams.end(torch, &graph), cudaSuccess);
  EXPECT_THAT(ran, ElementsAre());
  graph->launch();
  EXPECT_THAT(ran, ElementsAre("mm", "copy", "add", "mul", "sum"));
  ran.clear();
  graph->launch();
  EXPECT_THAT(ran, ElementsAre("mm", "add", "mul", "copy", "sum"));
}

// Captures end with all their streams joined, and wait for nothing outside.
TEST_F(SimulatedStreamsTest, InvalidCaptures) {
  std::shared_ptr<SimulatedGraph> graph;
  streams.begin(torch);
  streams.record(fork, torch);
  streams.wait(other, fork);
  run(other, "copy");
  EXPECT_EQ(streams.end(torch, &graph), cudaErrorStreamCaptureUnjoined);
  run(other, "copy");
  streams.record(join, other);
  streams.begin(torch);
  streams.wait(torch, join);
  EXPECT_EQ(streams.end(torch, &graph), cudaErrorStreamCaptureInvalidated);
  streams.begin(torch);
  EXPECT_EQ(streams.synchronize(torch), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(streams.end(torch, &graph), cudaErrorStreamCaptureInvalidated);
}
