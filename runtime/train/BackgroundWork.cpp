//===- BackgroundWork.cpp - A job on a thread of its own ------------------===//

#include "train/BackgroundWork.h"

#include <string>
#include <system_error>
#include <utility>

using namespace fsdp::rt;

void BackgroundWork::finish(Status result) {
  std::lock_guard lock(mutex);
  current = result.ok() ? State::Done : State::Failed;
  status = std::move(result);
  changed.notify_all();
}

void BackgroundWork::start(Work work) {
  current = State::Working;
  try {
    thread = std::thread([this, work = std::move(work)] {
      try {
        finish(work(stop));
      } catch (const std::exception &error) {
        finish(Status::error(error.what()));
      }
    });
  } catch (const std::system_error &error) {
    finish(Status::error(std::string("no thread for work beside the steps: ") + error.what()));
  }
}

BackgroundWork::State BackgroundWork::state() const {
  std::lock_guard lock(mutex);
  return current;
}

BackgroundWork::State BackgroundWork::wait(std::chrono::duration<double> patience) const {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, patience, [this] { return current != State::Working; });
  return current;
}

Status BackgroundWork::take() {
  if (thread.joinable())
    thread.join();
  std::lock_guard lock(mutex);
  current = State::Idle;
  return std::exchange(status, Status());
}

void BackgroundWork::cancel() {
  stop = true;
  (void)take();
  stop = false;
}
