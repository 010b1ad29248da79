//===- BoundedCalls.cpp - Calls that may hang, with a time limit ----------===//

#include "comm/BoundedCalls.h"

#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <pthread.h>

using namespace fsdp::rt;

/// Time that the destructor waits for a running call.
static constexpr std::chrono::milliseconds kPatienceAtEnd{100};

struct BoundedCalls::Queue {
  std::mutex mutex; // never held while a call runs
  std::condition_variable changed;
  std::deque<std::function<void()>> calls;
  bool stopping = false, ended = false;

  void run() {
    // Signals are blocked here, so that the thread that runs the step receives them.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || !calls.empty(); });
      if (stopping)
        break;
      std::function<void()> call = std::move(calls.front());
      calls.pop_front();
      lock.unlock();
      call();
      call = nullptr;
      lock.lock();
    }
    ended = true;
    changed.notify_all();
  }
};

BoundedCalls::BoundedCalls()
    : queue(std::make_shared<Queue>()), thread([queue = queue] { queue->run(); }) {
  pthread_setname_np(thread.native_handle(), "fsdp-store");
}

BoundedCalls::~BoundedCalls() {
  bool ended = false;
  {
    std::unique_lock lock(queue->mutex);
    queue->stopping = true;
    queue->changed.notify_all();
    ended = queue->changed.wait_for(lock, kPatienceAtEnd, [&] { return queue->ended; });
  }
  if (ended)
    thread.join();
  else
    thread.detach();
}

void BoundedCalls::post(std::function<void()> call) {
  std::lock_guard lock(queue->mutex);
  queue->calls.push_back(std::move(call));
  queue->changed.notify_all();
}
