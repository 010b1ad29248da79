//===- RepetitionWatch.cpp - Ends a measurement that hangs ------------------===//

#include "RepetitionWatch.h"

using namespace fsdp;
using namespace fsdp::profile;

static constexpr std::chrono::milliseconds kInterval{100};

RepetitionWatch::RepetitionWatch(rt::Communicator &communicator, const rt::ProgressWord &completed,
                                 std::chrono::milliseconds deadline)
    : communicator(communicator), completed(completed), deadline(deadline),
      lastProgress(std::chrono::steady_clock::now()), thread([this] { watch(); }) {}

RepetitionWatch::~RepetitionWatch() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  stop.notify_all();
  thread.join();
}

rt::Status RepetitionWatch::status() const {
  std::lock_guard lock(mutex);
  return failure;
}

std::string RepetitionWatch::look() {
  if (rt::Status health = communicator.health(); !health.ok())
    return health.message();
  auto now = std::chrono::steady_clock::now();
  uint32_t done = completed.load(std::memory_order_acquire);
  if (done != lastCompleted || done == issued.load()) {
    lastCompleted = done;
    lastProgress = now;
  }
  if (now - lastProgress < deadline)
    return "";
  return "a measured collective has not completed within " + std::to_string(deadline.count()) +
         " ms";
}

void RepetitionWatch::watch() {
  std::unique_lock lock(mutex);
  while (!stop.wait_for(lock, std::min(kInterval, deadline / 4), [&] { return stopping; })) {
    lock.unlock();
    std::string message = look();
    lock.lock();
    if (message.empty())
      continue;
    // Set before the abort, since the threads that it wakes read the failure.
    failure = rt::Status::error(message);
    const rt::Status told = failure;
    lock.unlock();
    communicator.abort(told);
    return;
  }
}
