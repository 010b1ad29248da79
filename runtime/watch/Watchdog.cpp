//===- Watchdog.cpp - Ends a run whose collectives do not complete --------===//

#include "watch/Watchdog.h"

#include <csignal>
#include <cstdio>
#include <pthread.h>

using namespace fsdp::rt;

Watchdog::Watchdog(Communicator &communicator, const StepProgress &progress,
                   WatchdogOptions options, Report report)
    : communicator(communicator), progress(progress), options(options), report(std::move(report)),
      detector(progress, options.deadline), thread([this] { watch(); }) {
  pthread_setname_np(thread.native_handle(), "fsdp-watchdog");
}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  stop.notify_all();
  thread.join();
}

Status Watchdog::status() const {
  std::lock_guard lock(mutex);
  return failure;
}

void Watchdog::watch() {
  // Signals are blocked here, so that the thread that runs the step receives them.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::unique_lock lock(mutex);
  while (!stop.wait_for(lock, options.interval, [&] { return stopping; })) {
    lock.unlock();
    Status health = communicator.health();
    Status found = health.ok() ? lookForStall() : health.followedBy(underWay());
    // Taken before the abort releases the collectives.
    std::string dump = found.ok() ? "" : progress.dump();
    lock.lock();
    if (found.ok())
      continue;
    failure = found;
    lock.unlock();
    // If the communicator itself has failed, its reason is passed on without this rank's
    // collectives in flight, which each rank reports itself.
    communicator.abort(health.ok() ? found : health);
    if (report)
      report(found.message(), dump);
    return;
  }
}

static bool isBusy(const StepProgress::Numbers &numbers) {
  return numbers.started != numbers.completed;
}

Status Watchdog::lookForStall() {
  std::string stall = detector.look(StallDetector::Clock::now());
  return stall.empty() ? Status() : Status::error(stall);
}

std::string StallDetector::look(Clock::time_point now) {
  if (!progress.lostMarks().empty())
    return "";
  std::string message;
  for (unsigned lane = kControlLane + 1; lane < progress.numLanes(); ++lane)
    if (std::string found = look(lane, now); message.empty())
      message = std::move(found);
  return message;
}

std::string StallDetector::look(unsigned lane, Clock::time_point now) {
  Sight sight{progress.numbers(lane), progress.currentStep(), now};
  Sight &last = sights[lane];
  // Equal numbers in another step are other collectives.
  if (!isBusy(sight.numbers) || sight.numbers.started != last.numbers.started ||
      sight.numbers.completed != last.numbers.completed || sight.step != last.step) {
    last = sight;
    return "";
  }
  std::chrono::nanoseconds expected = progress.expected(lane, sight.numbers.started);
  std::chrono::nanoseconds allowed = deadline + kExpectedMultiple * expected;
  if (now - last.since < allowed)
    return "";
  auto milliseconds = [](std::chrono::nanoseconds duration) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.6g ms", static_cast<double>(duration.count()) / 1e6);
    return std::string(text);
  };
  std::string message = progress.describe(lane, sight.numbers.started) + " on the " +
                        progress.laneName(lane) + " has not completed within " +
                        milliseconds(allowed);
  if (expected.count() > 0)
    message += " (" + milliseconds(deadline) + " and " + std::to_string(kExpectedMultiple) +
               " times the predicted " + milliseconds(expected) + ")";
  return message;
}

std::string Watchdog::underWay() const {
  if (!progress.lostMarks().empty())
    return "; which collective was under way is unknown";
  std::string text;
  for (unsigned lane = kControlLane + 1; lane < progress.numLanes(); ++lane)
    if (StepProgress::Numbers numbers = progress.numbers(lane); isBusy(numbers))
      text += (text.empty() ? "; under way: " : " and ") + progress.describe(lane, numbers.started);
  return text.empty() ? "; no collective was under way" : text;
}
