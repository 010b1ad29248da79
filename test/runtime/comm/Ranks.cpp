//===- Ranks.cpp - Runs a function on every rank of a communicator --------===//

#include "Ranks.h"

#include <gtest/gtest.h>

#include <thread>

using namespace fsdp::rt;

static void onThreads(unsigned size, const std::function<void(Communicator &)> &body,
                      CommunicatorOptions options) {
  auto communicators = makeLocalCommunicators(size, options);
  ASSERT_EQ(communicators.size(), size);
  std::vector<std::thread> threads;
  for (auto &communicator : communicators)
    threads.emplace_back([&body, own = std::move(communicator)] { body(*own); });
  for (std::thread &thread : threads)
    thread.join();
}

void fsdp::rt::onRanks(const Ranks &ranks, const std::function<void(Communicator &)> &body,
                       CommunicatorOptions options) {
  onThreads(ranks.size, body, options);
}
