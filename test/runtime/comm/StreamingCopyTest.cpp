//===- StreamingCopyTest.cpp - Large copies copy every byte ----------------===//

#include "comm/StreamingCopy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

using namespace fsdp::rt;

// Every byte arrives and none beside them is touched, below and above the size from which caches
// are passed by, for addresses that share no alignment.
TEST(StreamingCopyTest, CopiesEveryByte) {
  constexpr size_t kMost = kStreamingCopyBytes + 300, kMargin = 128;
  constexpr unsigned char kGuard = 0xa5;
  std::vector<unsigned char> from(kMost + kMargin), to(kMost + 2 * kMargin);
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<unsigned char>(i * 31 + i / 251);
  for (size_t bytes : {size_t(0), size_t(1), kStreamingCopyBytes - 1, kStreamingCopyBytes,
                       kStreamingCopyBytes + 1, kStreamingCopyBytes + 63, kMost})
    for (size_t sourceOffset : {0, 1, 60})
      for (size_t offset : {0, 4, 63, 64}) {
        std::fill(to.begin(), to.end(), kGuard);
        unsigned char *destination = to.data() + kMargin + offset;
        streamingCopy(destination, from.data() + sourceOffset, bytes);
        EXPECT_TRUE(std::equal(destination, destination + bytes, from.data() + sourceOffset))
            << bytes << " bytes from " << sourceOffset << " to " << offset;
        auto isGuard = [](unsigned char byte) { return byte == kGuard; };
        EXPECT_TRUE(std::all_of(to.data(), destination, isGuard));
        EXPECT_TRUE(std::all_of(destination + bytes, to.data() + to.size(), isGuard));
      }
}
