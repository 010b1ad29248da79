//===- SizedDurationTest.cpp - Medians, spreads and curves ------------------===//

#include "fsdp/CostModel/SizedDuration.h"

#include <gtest/gtest.h>

using namespace fsdp::cost;

// Deviations from 100: 0, 10, 10, 20, 900; their median is 10.
TEST(SizedDuration, MedianAndSpreadIgnoreOutliers) {
  SizedDuration duration = summarize(std::vector<double>{110, 100, 90, 1000, 80}, 7);
  EXPECT_EQ(duration.size, 7);
  EXPECT_EQ(duration.medianNs, 100);
  EXPECT_DOUBLE_EQ(duration.spread, 1.4826 * 10 / 100);
  EXPECT_EQ(duration.samples, 5);
}

TEST(SizedDuration, OneSampleHasNoSpread) {
  SizedDuration duration = summarize(std::vector<double>{42});
  EXPECT_EQ(duration.medianNs, 42);
  EXPECT_EQ(duration.spread, 0);
}

TEST(SizedDuration, CurvesAreLinearBetweenSizesAndProportionalOutside) {
  std::vector<SizedDuration> curve = {{10, 100}, {20, 300}};
  EXPECT_DOUBLE_EQ(interpolate(curve, 10), 100);
  EXPECT_DOUBLE_EQ(interpolate(curve, 15), 200);
  EXPECT_DOUBLE_EQ(interpolate(curve, 5), 50);
  EXPECT_DOUBLE_EQ(interpolate(curve, 40), 600);
}
