//===- CopyProfiler.cpp - Measures copies of uncached memory --------------===//

#include "CopyProfiler.h"

#include "AheadTimes.h"

#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>

using namespace fsdp;
using namespace fsdp::profile;

static constexpr int64_t kSmallestBytes = 4 << 10, kLargestBytes = 16 << 20;

namespace {
/// Memory of several times a last-level cache, from which successive copies take different buffers.
class Pool {
public:
  Pool(std::byte *memory, size_t bytes) : memory(memory), size(bytes) {}
  /// The least recently used memory.
  std::byte *next(int64_t bytes) {
    constexpr size_t kStride = 64 << 10;
    size_t from = place;
    place += (static_cast<size_t>(bytes) + kStride - 1) / kStride * kStride;
    if (place > size) {
      from = 0;
      place = static_cast<size_t>(bytes);
    }
    return memory + from;
  }

private:
  std::byte *memory;
  size_t size, place = 0;
};
} // namespace

static std::vector<cost::SizedDuration> measureCopies(int samples, std::barrier<> &together) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::byte> memory(size_t(256) << 20);
  Pool pool(memory.data(), memory.size());
  std::vector<cost::SizedDuration> copies;
  for (int64_t bytes = kSmallestBytes; bytes <= kLargestBytes; bytes *= 4) {
    std::vector<double> durationsNs;
    together.arrive_and_wait();
    for (int sample = 0; sample < samples; ++sample) {
      std::byte *from = pool.next(bytes), *to = pool.next(bytes);
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

rt::Result<std::vector<cost::SizedDuration>> fsdp::profile::profileCopies(rt::Device &device,
                                                                          int samples) {
  rt::Result<std::unique_ptr<rt::Memory>> memory = device.allocate(size_t(512) << 20);
  if (!memory.ok())
    return rt::Status::error("copies: " + memory.status().message());
  Pool pool((*memory)->data(), (*memory)->size());
  std::unique_ptr<rt::Stream> stream = device.makeStream("fsdp-copy");
  std::vector<cost::SizedDuration> copies;
  for (int64_t bytes = kSmallestBytes; bytes <= kLargestBytes; bytes *= 4) {
    rt::EntryTimes times(static_cast<size_t>(samples), device);
    AheadTimes ahead(times);
    // The first round measures the host's time.
    for (int round = 0; round < 2; ++round) {
      ahead.beginRound();
      for (uint32_t sample = 0; sample < static_cast<uint32_t>(samples); ++sample) {
        std::byte *from = pool.next(bytes), *to = pool.next(bytes);
        ahead.begins(sample, *stream);
        stream->copy(to, from, static_cast<size_t>(bytes));
        ahead.ends(sample, *stream);
      }
      if (rt::Status status = times.read(); !status.ok())
        return status;
      ahead.delayChunks();
    }
    copies.push_back(cost::summarize(times.durationsNs(), bytes));
  }
  return copies;
}
