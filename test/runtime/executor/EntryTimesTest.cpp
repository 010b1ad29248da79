//===- EntryTimesTest.cpp - When a step's entries ran ---------------------===//

#include "executor/EntryTimes.h"
#include "device/CpuDevice.h"

#include <gtest/gtest.h>

using namespace fsdp::rt;

// Times count from when the first entry began, and a later step replaces them.
TEST(EntryTimes, OfTheLastStep) {
  static int64_t now = 1000;
  CpuDevice device;
  std::unique_ptr<Stream> stream = device.makeComputeStream();
  EntryTimes times(3, +[] { return std::chrono::nanoseconds(now); });
  for (int64_t step : {1, 10}) {
    now += 500;
    times.begins(2, *stream);
    times.begins(0, *stream);
    now += 7 * step;
    times.ends(0, *stream);
    now += 4 * step;
    times.ends(2, *stream);
    ASSERT_TRUE(times.read().ok());
    EXPECT_FALSE(times.hasRun(1));
    ASSERT_TRUE(times.hasRun(0) && times.hasRun(2));
    EXPECT_EQ(times.beginNs(0), 0);
    EXPECT_EQ(times.endNs(0), 7 * step);
    EXPECT_EQ(times.beginNs(2), 0);
    EXPECT_EQ(times.endNs(2), 11 * step);
  }
}

// A CPU's events carry no times.
TEST(EntryTimes, NeedTimedEvents) {
  CpuDevice device;
  std::unique_ptr<Stream> stream = device.makeComputeStream();
  EntryTimes times(1, device);
  ASSERT_TRUE(times.read().ok());
  times.begins(0, *stream);
  EXPECT_EQ(times.read().message(), "events of this device carry no times");
}
