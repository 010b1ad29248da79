//===- CpuDevice.cpp - Streams of a CPU ------------------------------------===//

#include "device/CpuDevice.h"

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

using namespace fsdp::rt;

namespace {
class WorkerStream;

/// Used by the thread that runs the step; workers get copies.
struct CpuEvent final : Event {
  WorkerStream *stream = nullptr; // null: complete
  uint64_t position = 0;          // items of `stream` that precede the event

  Status synchronize() override;
};

/// A copy, zeroing or mark, as an item of a stream.
struct MemoryWork {
  void *to = nullptr;
  const void *from = nullptr; // null: zero
  size_t bytes = 0;
  ProgressWord *word = nullptr;
  uint32_t value = 0;

  void run() const {
    if (bytes && from)
      std::memcpy(to, from, bytes);
    else if (bytes)
      std::memset(to, 0, bytes);
    if (word)
      word->store(value, std::memory_order_release);
  }
};

class CpuMemory final : public Memory {
public:
  CpuMemory(std::byte *address, size_t bytes) : Memory(address, bytes) {}
  ~CpuMemory() override { std::free(data()); }
};

class WorkerStream final : public Stream {
public:
  WorkerStream(const char *name, size_t capacity)
      : ring(capacity), worker([this] { runWorker(); }) {
    pthread_setname_np(worker.native_handle(), name);
  }
  ~WorkerStream() override {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    added.notify_all();
    worker.join();
  }

  void enqueue(Work work) override { push({.work = work}); }
  void copy(void *to, const void *from, size_t bytes) override {
    push({.memory = {.to = to, .from = from, .bytes = bytes}});
  }
  void zero(void *to, size_t bytes) override { push({.memory = {.to = to, .bytes = bytes}}); }
  Status mark(ProgressWord &word, uint32_t value) override {
    push({.memory = {.word = &word, .value = value}});
    return {};
  }
  void record(Event &event) override {
    auto &cpuEvent = static_cast<CpuEvent &>(event);
    cpuEvent.stream = this;
    cpuEvent.position = pushed;
  }
  Status wait(Event &event) override;
  Status synchronize() override { return waitFor(pushed, true); }

  bool isComplete(uint64_t position) const {
    return completed.load(std::memory_order_acquire) >= position;
  }
  /// Blocks until `position` items have run. Returns the stream's first error. With `help` the
  /// calling thread runs items itself if no other thread does.
  Status waitFor(uint64_t position, bool help);

private:
  /// One of: work, a wait for `position` items of `awaited`, or work on memory.
  struct Item {
    Work work = {};
    WorkerStream *awaited = nullptr;
    uint64_t position = 0;
    MemoryWork memory = {};
  };

  void push(Item item);
  void runWorker();
  /// Runs the oldest item. The caller holds the lock, which is released while the item runs.
  void runOne(std::unique_lock<std::mutex> &lock);
  static Status execute(const Item &item);

  mutable std::mutex mutex;
  std::condition_variable added; // the worker has something to run, or the stream stops
  std::condition_variable ran;   // an item has run
  std::vector<Item> ring;
  uint64_t pushed = 0;                // items ever added
  std::atomic<uint64_t> completed{0}; // items that have run; changes under the lock
  bool running = false;               // a thread is executing an item
  bool stopping = false;
  Status firstError;
  std::thread worker; // last member: it uses the others
};

/// The calling thread as a stream: work runs when it is enqueued, so every event is complete at
/// once.
class ComputeStream final : public Stream {
public:
  void enqueue(Work work) override {
    if (firstError.ok())
      firstError = work.run(work.context, work.index);
  }
  void record(Event &event) override { static_cast<CpuEvent &>(event).stream = nullptr; }
  Status wait(Event &event) override {
    auto &cpuEvent = static_cast<CpuEvent &>(event);
    return cpuEvent.synchronize();
  }
  Status synchronize() override { return firstError; }
  void copy(void *to, const void *from, size_t bytes) override {
    run({.to = to, .from = from, .bytes = bytes});
  }
  void zero(void *to, size_t bytes) override { run({.to = to, .bytes = bytes}); }
  Status mark(ProgressWord &word, uint32_t value) override {
    run({.word = &word, .value = value});
    return {};
  }

private:
  void run(const MemoryWork &work) const {
    if (firstError.ok())
      work.run();
  }

  Status firstError;
};
} // namespace

Status CpuEvent::synchronize() { return stream ? stream->waitFor(position, true) : Status(); }

void WorkerStream::push(Item item) {
  {
    std::unique_lock lock(mutex);
    ran.wait(lock, [&] { return pushed - completed.load() < ring.size(); });
    ring[pushed % ring.size()] = item;
    ++pushed;
  }
  if (!item.work.deferred)
    added.notify_one();
}

Status WorkerStream::execute(const Item &item) {
  if (item.awaited)
    return item.awaited->waitFor(item.position, false);
  if (!item.work.run) {
    item.memory.run();
    return Status();
  }
  try {
    return item.work.run(item.work.context, item.work.index);
  } catch (const std::exception &error) {
    return Status::error(error.what());
  }
}

void WorkerStream::runOne(std::unique_lock<std::mutex> &lock) {
  Item item = ring[completed.load() % ring.size()];
  running = true;
  Status status;
  if (firstError.ok()) {
    lock.unlock();
    status = execute(item);
    lock.lock();
  }
  if (firstError.ok())
    firstError = status;
  running = false;
  completed.fetch_add(1, std::memory_order_release);
  ran.notify_all();
  // The worker runs the items that a helper leaves; it may have gone back to sleep meanwhile.
  if (completed.load() < pushed)
    added.notify_one();
}

void WorkerStream::runWorker() {
  // Signals are blocked here, so that the thread that runs the step receives them.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::unique_lock lock(mutex);
  while (true) {
    added.wait(lock, [&] { return stopping || (!running && completed.load() < pushed); });
    if (stopping)
      return;
    runOne(lock);
  }
}

Status WorkerStream::waitFor(uint64_t position, bool help) {
  std::unique_lock lock(mutex);
  // The worker may not have been woken for deferred work.
  if (!help)
    added.notify_one();
  while (completed.load() < position) {
    if (help && !running)
      runOne(lock);
    else
      ran.wait(lock);
  }
  return firstError;
}

Status WorkerStream::wait(Event &event) {
  auto &cpuEvent = static_cast<CpuEvent &>(event);
  if (cpuEvent.stream == this)
    return Status(); // a stream is ordered already
  if (cpuEvent.stream && !cpuEvent.stream->isComplete(cpuEvent.position))
    push({.awaited = cpuEvent.stream, .position = cpuEvent.position});
  return Status();
}

std::unique_ptr<Stream> CpuDevice::makeComputeStream() { return std::make_unique<ComputeStream>(); }

std::unique_ptr<Stream> CpuDevice::makeStream(const char *name) {
  return std::make_unique<WorkerStream>(name, options.queueCapacity);
}

std::unique_ptr<Event> CpuDevice::makeEvent() { return std::make_unique<CpuEvent>(); }

Result<std::unique_ptr<Memory>> CpuDevice::allocate(size_t bytes) {
  // Aligned to pages, since writes that bypass the page cache need whole pages.
  constexpr size_t kAlignment = 4096;
  size_t rounded = (bytes / kAlignment + 1) * kAlignment;
  void *address = std::aligned_alloc(kAlignment, rounded);
  if (!address)
    return Status::error("no memory for " + std::to_string(bytes) + " bytes");
  std::memset(address, 0, rounded);
  return std::unique_ptr<Memory>(
      std::make_unique<CpuMemory>(static_cast<std::byte *>(address), bytes));
}

Result<std::unique_ptr<Graph>> CpuDevice::capture(Stream &, const std::function<Status()> &) {
  return Status::error("a CPU runs a step's work as it is issued: there is no graph to capture");
}
