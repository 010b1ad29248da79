//===- CopyProfiler.cpp - What copies cost out of caches --------------------===//

#include "StepProfiler.h"

#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>

using namespace fsdp;
using namespace fsdp::profile;

static constexpr size_t kPoolBytes = size_t(256) << 20; // several times a last-level cache
static constexpr int64_t kSmallestBytes = 4 << 10, kLargestBytes = 16 << 20;

/// Copies from one place of a pool to another, which were touched long ago.
static std::vector<cost::SizedDuration> measureCopies(int samples, std::barrier<> &together) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::byte> pool(kPoolBytes);
  size_t place = 0;
  auto next = [&](int64_t bytes) {
    constexpr size_t kStride = 64 << 10;
    size_t from = place;
    place += (static_cast<size_t>(bytes) + kStride - 1) / kStride * kStride;
    if (place > pool.size()) {
      from = 0;
      place = static_cast<size_t>(bytes);
    }
    return pool.data() + from;
  };
  std::vector<cost::SizedDuration> copies;
  for (int64_t bytes = kSmallestBytes; bytes <= kLargestBytes; bytes *= 4) {
    std::vector<double> durationsNs;
    together.arrive_and_wait();
    for (int sample = 0; sample < samples; ++sample) {
      std::byte *from = next(bytes), *to = next(bytes);
      Clock::time_point begin = Clock::now();
      std::memcpy(to, from, static_cast<size_t>(bytes));
      durationsNs.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
    }
    copies.push_back(cost::summarize(durationsNs, bytes));
  }
  return copies;
}

std::vector<cost::SizedDuration> fsdp::profile::profileCopies(int64_t ranks, int samples) {
  std::barrier<> together(ranks);
  std::vector<cost::SizedDuration> first;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<cost::SizedDuration> copies = measureCopies(samples, together);
      if (rank == 0)
        first = std::move(copies);
    });
  for (std::thread &thread : threads)
    thread.join();
  return first;
}
