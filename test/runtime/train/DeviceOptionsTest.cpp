//===- DeviceOptionsTest.cpp - --device, --communicator and their flags ---===//

#include "TinyPlan.h"
#include "train/Launch.h"
#include "train/TrainOptions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

using namespace fsdp::rt;
using fsdp::test::TinyPlan;
using testing::AllOf;
using testing::HasSubstr;

namespace {

PlanView twoRanks() {
  static const TinyPlan plan(2, fsdp::plan::Layout::Flat);
  return PlanView(plan.tables());
}

/// Parses `flags`, split at spaces, beside the flags that are always needed.
Result<TrainCommand> parse(const std::string &flags) {
  std::istringstream stream("train --data d.safetensors " + flags);
  std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
  std::vector<const char *> arguments;
  for (const std::string &word : words)
    arguments.push_back(word.c_str());
  return parseTrainOptions(static_cast<int>(arguments.size()), arguments.data(), twoRanks(),
                           nullptr);
}

std::string refusal(const std::string &flags) { return parse(flags).status().message(); }

} // namespace

TEST(DeviceOptions, Defaults) {
  auto command = parse("");
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(command->options.device, "cpu");
  EXPECT_EQ(command->options.graph, GraphMode::Automatic);
  EXPECT_FALSE(command->options.lossLag);
}

TEST(DeviceOptions, ReadsEveryFlag) {
  auto command = parse("--device cuda --communicator nccl --cuda-graph off");
  ASSERT_TRUE(command.ok()) << command.status().message();
  EXPECT_EQ(command->options.device, "cuda");
  EXPECT_EQ(command->options.graph, GraphMode::Off);
  // Ranks that are threads have graphs if these are asked for.
  EXPECT_EQ(parse("--ranks 2 --device cuda")->options.graph, GraphMode::OffInThreads);
  EXPECT_EQ(parse("--ranks 2 --device cuda --cuda-graph on")->options.graph, GraphMode::Automatic);
  EXPECT_TRUE(parse("--device cuda --ranks 2").ok());
  command = parse("--communicator fake --fake-ranks 2 --fake-gb-per-s 400 --fake-latency-us 12.5");
  ASSERT_TRUE(command.ok()) << command.status().message();
  EXPECT_EQ(command->options.fakeRanks, 2u);
  EXPECT_EQ(command->options.fakeGbPerSec, 400);
  EXPECT_EQ(command->options.fakeLatencyUs, 12.5);
}

// Flags that could have no effect, or contradict each other, are refused by name.
TEST(DeviceOptions, Refusals) {
  const std::string fake = "--communicator fake --fake-ranks 2 ";
  EXPECT_THAT(refusal("--device tpu"), AllOf(HasSubstr("--device"), HasSubstr("tpu")));
  EXPECT_THAT(refusal("--communicator nccl"),
              AllOf(HasSubstr("--communicator nccl"), HasSubstr("--device cuda")));
  for (const char *communicator : {"local", "shm", "gloo"})
    EXPECT_THAT(refusal(std::string("--device cuda --communicator ") + communicator),
                AllOf(HasSubstr(communicator), HasSubstr("memory of its own")));
  EXPECT_THAT(refusal("--cuda-graph auto"), HasSubstr("--cuda-graph auto is for --device cuda"));
  EXPECT_THAT(refusal("--pin-memory off"), HasSubstr("--pin-memory off is for --device cuda"));
  EXPECT_THAT(refusal("--device cuda --pin-memory off"),
              HasSubstr("--pin-memory off is for steps that offload something to the host"));
  EXPECT_THAT(refusal("--loss-lag 65"), HasSubstr("from 0 to 64"));
  EXPECT_THAT(refusal("--fake-ranks 2"), HasSubstr("--fake-ranks 2 is for --communicator fake"));
  EXPECT_THAT(refusal("--fake-gb-per-s 3"), HasSubstr("--fake-gb-per-s 3 is for"));
  EXPECT_THAT(refusal("--fake-latency-us 3"), HasSubstr("--fake-latency-us 3 is for"));
  EXPECT_THAT(refusal("--communicator fake"),
              AllOf(HasSubstr("no --fake-ranks"), HasSubstr("compiled for 2 ranks")));
  EXPECT_THAT(refusal("--communicator fake --fake-ranks 8"),
              AllOf(HasSubstr("--fake-ranks 8"), HasSubstr("compiled for 2 ranks")));
  EXPECT_THAT(refusal(fake + "--fake-gb-per-s 0"), HasSubstr("--fake-gb-per-s 0: expected"));
  EXPECT_THAT(refusal(fake + "--fake-gb-per-s inf"), HasSubstr("--fake-gb-per-s inf: expected"));
  EXPECT_THAT(refusal(fake + "--fake-latency-us 5"),
              AllOf(HasSubstr("--fake-latency-us 5"), HasSubstr("--fake-gb-per-s")));
  EXPECT_THAT(refusal(fake + "--ranks 2"), AllOf(HasSubstr("fake"), HasSubstr("--ranks 2")));
  EXPECT_THAT(refusal(fake + "--save s.safetensors"), HasSubstr("nothing worth saving"));
}

// A fake run is alone, whatever the plan's ranks; devices are connected over what connects hosts.
TEST(DeviceOptions, Launches) {
  auto none = [](const char *) -> const char * { return nullptr; };
  TrainOptions options;
  options.communicator = "fake";
  EXPECT_EQ(decideLaunch(options, {}, none, twoRanks())->backend, "fake");
  LaunchEnvironment two{.rank = 1,
                        .worldSize = 2,
                        .localRank = 1,
                        .masterAddress = "10.0.0.1",
                        .masterPort = 29500,
                        .agentStore = false,
                        .runId = "",
                        .launcher = "environment"};
  EXPECT_THAT(decideLaunch(options, two, none, twoRanks()).status().message(),
              HasSubstr("--communicator fake needs no peers"));
  options.communicator = "nccl";
  Result<Launch> launch = decideLaunch(options, two, none, twoRanks());
  EXPECT_EQ(launch->backend, "gloo");
  EXPECT_FALSE(launch->oneHost);
  two.masterAddress = "127.0.0.1";
  launch = decideLaunch(options, two, none, twoRanks());
  EXPECT_EQ(launch->backend, "shm");
  EXPECT_TRUE(launch->oneHost);
}
