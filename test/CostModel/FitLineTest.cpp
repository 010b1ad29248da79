//===- FitLineTest.cpp - Latency and rate from synthetic durations ---------===//

#include "fsdp/CostModel/FitLine.h"

#include <gtest/gtest.h>

#include <vector>

using namespace fsdp::cost;

static std::vector<SizedDuration> onLine(double latencyNs, double nsPerUnit) {
  std::vector<SizedDuration> durations;
  for (int64_t size = 1 << 10; size <= 1 << 24; size *= 4)
    durations.push_back({size, latencyNs + nsPerUnit * static_cast<double>(size)});
  return durations;
}

TEST(FitLine, FindsTheLineOnWhichDurationsLie) {
  Line line = fitLine(onLine(20000, 0.125));
  EXPECT_NEAR(line.latencyNs, 20000, 1);
  EXPECT_NEAR(line.nsPerUnit, 0.125, 1e-6);
}

// A least-squares fit would follow the outlier: it is three times too slow, at the largest size.
TEST(FitLine, IsNotMovedByOneOutlier) {
  std::vector<SizedDuration> durations = onLine(20000, 0.125);
  durations.back().medianNs *= 3;
  Line line = fitLine(durations);
  EXPECT_NEAR(line.latencyNs, 20000, 200);
  EXPECT_NEAR(line.nsPerUnit, 0.125, 0.002);
}

// Through the origin the first duration or the second can be met: deviations of 1 (20 for 10, 40
// for 40) and of 0.5 (10 for 10, 20 for 40).
TEST(FitLine, HasNoNegativeLatency) {
  Line line = fitLine(std::vector<SizedDuration>{{100, 10}, {200, 40}});
  EXPECT_EQ(line.latencyNs, 0);
  EXPECT_DOUBLE_EQ(line.nsPerUnit, 0.1);
}

TEST(FitLine, HasNoNegativeRate) {
  Line line = fitLine(std::vector<SizedDuration>{{100, 40}, {200, 10}});
  EXPECT_EQ(line.latencyNs, 10);
  EXPECT_EQ(line.nsPerUnit, 0);
}

// The best line passes above the second of these, the best one below through both its neighbours.
TEST(FitLine, BelowExceedsNoMedian) {
  const std::vector<SizedDuration> durations{{100, 110}, {200, 190}, {400, 420}, {800, 810}};
  const Line line = fitLineBelow(durations);
  EXPECT_NE(line.latencyNs, fitLine(durations).latencyNs);
  double touched = 0;
  for (const SizedDuration &duration : durations) {
    const double ns = line.latencyNs + line.nsPerUnit * static_cast<double>(duration.size);
    EXPECT_LE(ns, duration.medianNs * (1 + 1e-12));
    touched += ns > duration.medianNs * (1 - 1e-12);
  }
  EXPECT_GE(touched, 1);
}

TEST(FitLine, OneDurationGivesALineThroughTheOrigin) {
  Line line = fitLine(std::vector<SizedDuration>{{100, 50}});
  EXPECT_EQ(line.latencyNs, 0);
  EXPECT_DOUBLE_EQ(line.nsPerUnit, 0.5);
}
