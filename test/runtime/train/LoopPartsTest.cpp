#include "comm/Agreement.h"
#include "train/LearningRate.h"
#include "train/LossScale.h"
#include "train/OutlierGuard.h"
#include "train/StepLog.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

using namespace fsdp::rt;

namespace {

std::vector<double> rates(const LearningRateSchedule &schedule) {
  std::vector<double> result;
  for (int64_t step = 1; step <= schedule.steps; ++step)
    result.push_back(schedule.at(step));
  return result;
}

} // namespace

TEST(LearningRate, StaysConstantAfterWarmUp) {
  EXPECT_EQ(rates({LearningRateShape::Constant, 8, 0, 0, 3}), (std::vector<double>{8, 8, 8}));
  EXPECT_EQ(rates({LearningRateShape::Constant, 8, 0, 4, 6}),
            (std::vector<double>{2, 4, 6, 8, 8, 8}));
}

TEST(LearningRate, FallsLinearlyToTheMinimumAtTheLastStep) {
  EXPECT_EQ(rates({LearningRateShape::Linear, 8, 0, 0, 5}), (std::vector<double>{8, 6, 4, 2, 0}));
  EXPECT_EQ(rates({LearningRateShape::Linear, 8, 4, 2, 4}), (std::vector<double>{4, 8, 6, 4}));
  EXPECT_EQ(rates({LearningRateShape::Linear, 8, 4, 0, 1}), (std::vector<double>{8}));
}

TEST(LearningRate, FallsAlongHalfACosine) {
  std::vector<double> fall = rates({LearningRateShape::Cosine, 10, 2, 0, 5});
  const double expected[] = {10, 2 + 8 * (1 + std::sqrt(0.5)) / 2, 6,
                             2 + 8 * (1 - std::sqrt(0.5)) / 2, 2};
  for (size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(fall[i], expected[i], 1e-12);
  EXPECT_EQ(fall.back(), 2);
}

TEST(LearningRate, FallsLinearlyAtTheEndOfAStableOne) {
  auto wsd = [](int64_t warmup, int64_t steps, int64_t decay) {
    return rates({LearningRateShape::WarmupStableDecay, 8, 2, warmup, steps, decay});
  };
  EXPECT_EQ(wsd(2, 8, 3), (std::vector<double>{4, 8, 8, 8, 8, 6, 4, 2}));
  EXPECT_EQ(wsd(2, 5, 3), (std::vector<double>{4, 8, 6, 4, 2}));
  EXPECT_EQ(wsd(0, 4, 3), (std::vector<double>{8, 6, 4, 2}));
  EXPECT_EQ(wsd(0, 4, 4), (std::vector<double>{8, 6, 4, 2}));
  EXPECT_EQ(wsd(0, 1, 1), (std::vector<double>{8}));
}

TEST(StepLog, WritesNumbersThatReadBackToTheSameBits) {
  const double losses[] = {0.1, 3.0};
  StepRecord record{7, 1.0 / 3, losses, 2.0 / 7, 1e-5, 12.5, 640};
  std::string line;
  formatStep(record, line);
  EXPECT_EQ(line.back(), '\n');
  auto json = nlohmann::ordered_json::parse(line);
  std::vector<std::string> keys;
  for (const auto &item : json.items())
    keys.push_back(item.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"step", "loss", "loss_hex", "grad_norm", "lr",
                                            "step_ms", "samples_per_s", "issue_ms", "samples"}));
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["loss"].get<double>(), 1.0 / 3);
  EXPECT_EQ(json["grad_norm"].get<double>(), 2.0 / 7);
  EXPECT_EQ(json["lr"].get<double>(), 1e-5);
  // As Python writes (0.1).hex() and (3.0).hex().
  EXPECT_EQ(json["loss_hex"][0], "0x1.999999999999ap-4");
  EXPECT_EQ(json["loss_hex"][1], "0x1.8000000000000p+1");
}

TEST(StepLog, CountsTokens) {
  StepRecord record;
  record.samplesPerSecond = 2.5;
  record.samples = 30;
  record.tokensPerSample = 128;
  std::string line;
  formatStep(record, line);
  auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["samples"], 30);
  EXPECT_EQ(json["tokens"], 30 * 128);
  EXPECT_EQ(json["tokens_per_s"], 2.5 * 128);
}

// A step's log line has tflops_per_s if the plan has the model's arithmetic, mfu if the peak is
// known, and over_bound if the bound is known.
TEST(StepLog, TellsArithmetic) {
  StepRecord record;
  record.milliseconds = 20;
  record.modelFlops = 3e10;
  auto parse = [&] {
    std::string line;
    formatStep(record, line);
    return nlohmann::json::parse(line);
  };
  EXPECT_EQ(parse()["tflops_per_s"], 1.5);
  EXPECT_FALSE(parse().contains("mfu"));
  EXPECT_FALSE(parse().contains("over_bound"));
  record.peakTflops = 6;
  record.boundMilliseconds = 16;
  EXPECT_EQ(parse()["mfu"], 0.25);
  EXPECT_EQ(parse()["over_bound"], 1.25);
}

// However many ranks there are.
TEST(StepLog, StaysShort) {
  std::vector<double> losses(1000, 0.1);
  losses[7] = -3;
  losses[900] = 9;
  StepRecord record{7, 1.0 / 3, losses};
  std::string line;
  formatStep(record, line);
  EXPECT_LT(line.size(), 300);
  auto json = nlohmann::json::parse(line);
  EXPECT_FALSE(json.contains("loss_hex"));
  EXPECT_EQ(json["loss_min"], -3);
  EXPECT_EQ(json["loss_max"], 9);
  record.rankLosses = std::span(losses).first(16);
  formatStep(record, line);
  EXPECT_EQ(nlohmann::json::parse(line)["loss_hex"].size(), 16);
}

TEST(StepLog, StaysJsonWhenTheLossIsNot) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double losses[] = {std::nan(""), -kInfinity, 0.0, -0.0};
  StepRecord record{1, std::nan(""), losses, kInfinity, 0, 0, kInfinity};
  std::string line;
  formatStep(record, line);
  auto json = nlohmann::json::parse(line);
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["grad_norm"].is_null());
  EXPECT_EQ(json["loss_hex"], (nlohmann::json{"nan", "-inf", "0x0.0p+0", "-0x0.0p+0"}));
}

TEST(StepLog, NamesAFileThatCannotBeWritten) {
  EXPECT_NE(
      StepLog::open("/nonexistent/log").status().message().find("--log-file /nonexistent/log"),
      std::string::npos);
}

// The scale follows as torch.amp.GradScaler's does, also by factors that fp32 rounds and up to its
// largest numbers; and from the state of a checkpoint.
TEST(LossScale, IsTorchs) {
  for (const fsdp_loss_scale &options : {fsdp_loss_scale{65536, 2, 0.5, 3},
                                         {1e38, 1.7, 0.3, 1},
                                         {3, 1, 1, 2},
                                         {1e-30, 1e9, 1e-3, 2}}) {
    LossScale scale(options);
    at::Tensor expected = at::full({}, options.init), tracker = at::zeros({}, at::kInt);
    for (int step = 0; step < 40; ++step) {
      const bool isFinite = step % 7 > 1;
      scale.update(isFinite);
      at::_amp_update_scale_(expected, tracker, at::full({}, isFinite ? 0.f : 1.f),
                             options.growth_factor, options.backoff_factor,
                             options.growth_interval);
      ASSERT_EQ(scale.value(), expected.item<float>()) << "step " << step;
      ASSERT_EQ(scale.growthTracker(), tracker.item<int>());
      LossScale resumed(options);
      resumed.resume(scale.value(), scale.growthTracker());
      scale = resumed;
    }
  }
}

// From the 129th step on, by the mean and deviation of the 128 before.
TEST(OutlierGuard, NamesWhatIsUnlikeTheStepsBefore) {
  OutlierGuard guard("--stop-outliers", 3);
  auto loss = [](int64_t step) { return step % 2 ? 1.0 : 3.0; }; // mean 2, deviation 1
  EXPECT_EQ(guard.judge(1, 100, 1), "");
  for (int64_t step = 2; step <= 200; ++step)
    EXPECT_EQ(guard.judge(step, loss(step), 1), "") << step;
  EXPECT_EQ(guard.judge(201, 4.99, 1), "");
  EXPECT_EQ(guard.judge(202, -100, 1), ""); // below the mean nothing is wrong
  OutlierGuard fresh("--stop-outliers", 3);
  for (int64_t step = 1; step <= 128; ++step)
    EXPECT_EQ(fresh.judge(step, loss(step), step % 2), "");
  EXPECT_EQ(fresh.judge(129, 5.5, 0),
            "step 129: the loss is 5.5, but the 128 steps before have 2 on average, with a "
            "standard deviation of 1 (--stop-outliers 3)");
  EXPECT_NE(fresh.judge(130, 2, 9).find("the gradients' norm is 9"), std::string::npos);
  EXPECT_EQ(OutlierGuard("--skip-outliers", 4).judge(1, std::nan(""), 0),
            "step 1: the loss is nan (--skip-outliers 4)");
  EXPECT_NE(OutlierGuard("--stop-outliers", 3).judge(7, 0, INFINITY).find("norm is inf"),
            std::string::npos);
}

// What is finite counts among the steps before, also if it is an outlier: a level that stays is
// none for long. What is not finite never does.
TEST(OutlierGuard, GetsUsedToALevelThatStays) {
  OutlierGuard guard("--skip-outliers", 3);
  for (int64_t step = 1; step <= 128; ++step)
    EXPECT_EQ(guard.judge(step, step % 2, 1), "");
  int64_t outliers = 0;
  for (int64_t step = 129; step <= 256; ++step)
    outliers += guard.judge(step, 10, 1).empty() ? 0 : 1;
  EXPECT_GT(outliers, 0);
  EXPECT_LT(outliers, 30);
  EXPECT_NE(guard.judge(257, INFINITY, NAN), "");
  EXPECT_EQ(guard.window().losses, std::vector<double>(128, 10));
}

// A guard goes on from the numbers that another one has seen.
TEST(OutlierGuard, GoesOnFromAWindow) {
  OutlierGuard whole("--skip-outliers", 1);
  auto number = [](int64_t step) { return static_cast<double>(step * 7919 % 101); };
  for (int64_t step = 1; step <= 150; ++step)
    whole.judge(step, number(step), number(step + 1));
  OutlierGuard again("--skip-outliers", 1, whole.window());
  for (int64_t step = 151; step <= 400; ++step)
    EXPECT_EQ(again.judge(step, number(step), number(step + 1)),
              whole.judge(step, number(step), number(step + 1)));
}

namespace {

std::vector<Outcome> agreeAll(const std::vector<Status> &statuses) {
  auto communicators = makeLocalCommunicators(static_cast<unsigned>(statuses.size()), {});
  std::vector<Outcome> outcomes(statuses.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < statuses.size(); ++rank)
    threads.emplace_back(
        [&, rank] { outcomes[rank] = agree(*communicators[rank], statuses[rank]); });
  for (std::thread &thread : threads)
    thread.join();
  return outcomes;
}

} // namespace

TEST(Agreement, AllRanksFailWithTheLowestRanksMessage) {
  for (const Outcome &outcome : agreeAll({{}, {}, {}}))
    EXPECT_TRUE(outcome.status.ok());
  for (const Outcome &outcome : agreeAll({{}, Status::error("no file"), Status::error("else")})) {
    EXPECT_EQ(outcome.status.message(), "[rank 1] no file");
    EXPECT_TRUE(outcome.known);
  }
  for (const Outcome &outcome : agreeAll({Status::error("no data"), Status::error("no file")}))
    EXPECT_EQ(outcome.status.message(), "no data");
}

TEST(Agreement, CutsLongMessages) {
  std::vector<Outcome> outcomes = agreeAll({{}, Status::error(std::string(5000, 'x'))});
  EXPECT_EQ(outcomes[0].status.message(), "[rank 1] " + std::string(1019, 'x'));
}

TEST(Agreement, PassedOnReasonsKeepTheirRank) {
  Status reason = Status::saidBy(2, Status::error("token 7 does not fit"));
  EXPECT_EQ(reason.message(), "[rank 2] token 7 does not fit");
  EXPECT_EQ(reason.said(), reason.message());
  Status passedOn = reason.within("all_gather was aborted: ");
  EXPECT_EQ(passedOn.message(), "all_gather was aborted: [rank 2] token 7 does not fit");
  EXPECT_EQ(Status::saidBy(0, passedOn).message(), reason.message());
  EXPECT_EQ(passedOn.followedBy("; more").said(), reason.message() + "; more");
  EXPECT_EQ(Status::error("[rank 3] is what a file is called").said(), "");
  std::vector<Outcome> outcomes = agreeAll({passedOn, {}});
  EXPECT_EQ(outcomes[1].status.message(), passedOn.message());
  EXPECT_EQ(outcomes[1].status.said(), reason.message());
}
