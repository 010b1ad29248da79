//===- StopSignals.cpp - SIGINT and SIGTERM ask for a clean stop ----------===//

#include "train/StopSignals.h"

#include <atomic>

using namespace fsdp::rt;

static std::atomic<bool> stopRequested{false}, interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "used in a signal handler");

static void requestStop(int signal) {
  stopRequested.store(true);
  if (signal == SIGINT && interrupted.exchange(true)) {
    // The signal is delivered with its default action when this handler returns.
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

StopSignals::StopSignals() {
  stopRequested = interrupted = false;
  struct sigaction action = {};
  action.sa_handler = requestStop;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &oldInterrupt);
  sigaction(SIGTERM, &action, &oldTerminate);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &oldInterrupt, nullptr);
  sigaction(SIGTERM, &oldTerminate, nullptr);
}

bool StopSignals::requested() { return stopRequested.load(std::memory_order_relaxed); }
