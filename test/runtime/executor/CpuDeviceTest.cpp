//===- CpuDeviceTest.cpp - Streams and events of a CPU ---------------------===//

#include "device/CpuDevice.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

using namespace fsdp::rt;

namespace {
/// Notes which items ran, in order, and on which threads.
struct Log {
  std::vector<uint32_t> ran;
  std::vector<std::thread::id> threads;

  static Status note(void *context, uint32_t index) {
    auto *log = static_cast<Log *>(context);
    log->ran.push_back(index);
    log->threads.push_back(std::this_thread::get_id());
    return Status();
  }
  Work item(uint32_t index) { return {note, this, index}; }
};

/// Holds a stream's worker until released, so that a test decides who runs what.
struct Gate {
  std::latch entered{1}, open{1};

  static Status pass(void *context, uint32_t) {
    auto *gate = static_cast<Gate *>(context);
    gate->entered.count_down();
    gate->open.wait();
    return Status();
  }
  Work item() { return {pass, this, 0}; }
};

Status failWork(void *, uint32_t index) {
  return Status::error("item " + std::to_string(index) + " failed");
}
} // namespace

// The compute stream runs work at once, on the calling thread.
TEST(CpuDeviceTest, ComputeStreamIsTheCallingThread) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  Log log;
  compute->enqueue(log.item(7));
  EXPECT_EQ(log.ran, std::vector<uint32_t>{7});
  EXPECT_EQ(log.threads[0], std::this_thread::get_id());
}

// Items of a stream run in the order in which they were enqueued, whoever runs them.
TEST(CpuDeviceTest, StreamIsInOrder) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  auto stream = device.makeStream("s");
  auto event = device.makeEvent();
  Log log;
  std::vector<uint32_t> expected;
  for (uint32_t i = 0; i < 1000; ++i) {
    stream->enqueue(log.item(i));
    expected.push_back(i);
    if (i % 7 == 0) {
      stream->record(*event);
      EXPECT_TRUE(compute->wait(*event).ok());
      EXPECT_EQ(log.ran.size(), i + 1);
    }
  }
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(log.ran, expected);
}

// Work runs on the worker although nobody waits for it.
TEST(CpuDeviceTest, WorkerRunsBesideTheCaller) {
  CpuDevice device;
  auto stream = device.makeStream("s");
  Gate gate;
  stream->enqueue(gate.item());
  gate.entered.wait();
  gate.open.count_down();
  EXPECT_TRUE(stream->synchronize().ok());
}

// While the worker is busy elsewhere nobody helps; what has not been begun, the waiting thread
// runs.
TEST(CpuDeviceTest, WaitOnComputeHelps) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  auto stream = device.makeStream("s");
  auto event = device.makeEvent();
  // Many rounds: in each either thread may get the work, and the order must hold.
  Log log;
  for (uint32_t i = 0; i < 2000; ++i) {
    stream->enqueue(log.item(i));
    stream->record(*event);
    ASSERT_TRUE(compute->wait(*event).ok());
    ASSERT_EQ(log.ran.back(), i);
  }
  size_t helped = 0;
  for (std::thread::id id : log.threads)
    helped += id == std::this_thread::get_id();
  EXPECT_GT(helped, 0u);
}

// Deferred work wakes nobody: it runs on the thread that waits for it or synchronizes.
TEST(CpuDeviceTest, DeferredWorkIsTheWaitersOwn) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  auto stream = device.makeStream("s");
  auto event = device.makeEvent();
  Log log;
  Gate gate;
  // Once it has run the gate and nothing else is queued, the worker sleeps.
  stream->enqueue(gate.item());
  gate.entered.wait();
  gate.open.count_down();
  EXPECT_TRUE(stream->synchronize().ok());
  for (uint32_t i = 0; i < 10; ++i) {
    Work work = log.item(i);
    work.deferred = true;
    stream->enqueue(work);
    stream->record(*event);
    ASSERT_TRUE((i % 2 ? compute->wait(*event) : stream->synchronize()).ok());
    ASSERT_EQ(log.ran.size(), i + 1);
    EXPECT_EQ(log.threads.back(), std::this_thread::get_id());
  }
}

// A helper stops at the event: later work is the worker's.
TEST(CpuDeviceTest, HelpEndsAtTheEvent) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  auto stream = device.makeStream("s");
  auto event = device.makeEvent();
  Log log;
  Gate gate;
  stream->enqueue(log.item(0));
  stream->record(*event);
  stream->enqueue(gate.item());
  // Would hang if the waiting thread took the gate, which only it can open.
  EXPECT_TRUE(compute->wait(*event).ok());
  gate.open.count_down();
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(log.ran, std::vector<uint32_t>{0});
}

// An event that was never recorded is complete; recording it again moves it.
TEST(CpuDeviceTest, EventsAreReusable) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  auto stream = device.makeStream("s");
  auto event = device.makeEvent();
  EXPECT_TRUE(compute->wait(*event).ok());
  Log log;
  for (uint32_t i = 0; i < 3; ++i) {
    stream->enqueue(log.item(i));
    stream->record(*event);
    EXPECT_TRUE(compute->wait(*event).ok());
    EXPECT_EQ(log.ran.size(), i + 1);
  }
}

// Work enqueued after a wait runs after the other stream's event.
TEST(CpuDeviceTest, StreamsWaitForEachOther) {
  CpuDevice device;
  auto first = device.makeStream("first");
  auto second = device.makeStream("second");
  auto event = device.makeEvent();
  Log log;
  Gate gate;
  first->enqueue(gate.item());
  first->enqueue(log.item(1));
  first->record(*event);
  EXPECT_TRUE(second->wait(*event).ok());
  second->enqueue(log.item(2));
  gate.entered.wait();
  gate.open.count_down();
  EXPECT_TRUE(second->synchronize().ok());
  EXPECT_EQ(log.ran, (std::vector<uint32_t>{1, 2}));
}

// What follows an event of the compute stream needs no wait: it has happened.
TEST(CpuDeviceTest, ComputeEventsAreComplete) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  auto stream = device.makeStream("s");
  auto event = device.makeEvent();
  compute->record(*event);
  EXPECT_TRUE(stream->wait(*event).ok());
  EXPECT_TRUE(stream->synchronize().ok());
}

// The first error stops the stream and comes back from every later wait.
TEST(CpuDeviceTest, ErrorStopsTheStream) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  auto stream = device.makeStream("s");
  auto event = device.makeEvent();
  Log log;
  stream->enqueue({failWork, nullptr, 1});
  stream->enqueue({failWork, nullptr, 2});
  stream->enqueue(log.item(3));
  stream->record(*event);
  EXPECT_EQ(compute->wait(*event).message(), "item 1 failed");
  EXPECT_EQ(stream->synchronize().message(), "item 1 failed");
  EXPECT_TRUE(log.ran.empty());
}

// A stream that waited for a failed one fails with the same message.
TEST(CpuDeviceTest, ErrorCrossesStreams) {
  CpuDevice device;
  auto first = device.makeStream("first");
  auto second = device.makeStream("second");
  auto event = device.makeEvent();
  Gate gate;
  Log log;
  first->enqueue(gate.item());
  first->enqueue({failWork, nullptr, 5});
  first->record(*event);
  EXPECT_TRUE(second->wait(*event).ok());
  second->enqueue(log.item(0));
  gate.open.count_down();
  EXPECT_EQ(second->synchronize().message(), "item 5 failed");
  EXPECT_TRUE(log.ran.empty());
}

// An exception is an error like any other.
TEST(CpuDeviceTest, ExceptionBecomesAnError) {
  CpuDevice device;
  auto stream = device.makeStream("s");
  stream->enqueue(
      {[](void *, uint32_t) -> Status { throw std::runtime_error("thrown"); }, nullptr, 0});
  EXPECT_EQ(stream->synchronize().message(), "thrown");
}

// A full queue blocks the caller until there is room, and loses nothing.
TEST(CpuDeviceTest, FullQueueBlocks) {
  CpuDevice device({.queueCapacity = 2});
  auto stream = device.makeStream("s");
  Log log;
  Gate gate;
  stream->enqueue(gate.item());
  gate.entered.wait();
  stream->enqueue(log.item(0));
  std::thread opener([&] { gate.open.count_down(); });
  for (uint32_t i = 1; i < 50; ++i)
    stream->enqueue(log.item(i));
  opener.join();
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(log.ran.size(), 50u);
}

// Destroying a stream ends its worker without running what is queued behind the running work.
TEST(CpuDeviceTest, DestructionSkipsQueuedWork) {
  CpuDevice device;
  Log log;
  Gate gate;
  std::thread opener;
  {
    auto stream = device.makeStream("s");
    stream->enqueue(gate.item());
    gate.entered.wait();
    for (uint32_t i = 0; i < 10; ++i)
      stream->enqueue({failWork, nullptr, i});
    opener = std::thread([&] { gate.open.count_down(); });
  }
  opener.join();
}

// Copies, zeroing and marks run in the order of their stream, on every kind of stream.
TEST(CpuDeviceTest, MemoryWorkIsInOrder) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  auto worker = device.makeStream("s");
  for (Stream *stream : {compute.get(), worker.get()}) {
    auto memory = device.allocateHost(3 * sizeof(uint32_t));
    ASSERT_TRUE(memory.ok());
    ASSERT_EQ((*memory)->size(), 3 * sizeof(uint32_t));
    auto *words = reinterpret_cast<ProgressWord *>((*memory)->data());
    EXPECT_EQ(words[1], 0u);
    auto event = device.makeEvent();
    stream->mark(words[0], 7);
    stream->copy(&words[1], &words[0], sizeof(uint32_t));
    stream->copy(&words[2], &words[0], sizeof(uint32_t));
    stream->zero(&words[0], sizeof(uint32_t));
    stream->record(*event);
    EXPECT_TRUE(event->synchronize().ok());
    EXPECT_EQ(words[0], 0u);
    EXPECT_EQ(words[1], 7u);
    EXPECT_EQ(words[2], 7u);
  }
}

// After an error a stream writes no memory either, and an event tells of it.
TEST(CpuDeviceTest, MemoryWorkStopsAtAnError) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  auto worker = device.makeStream("s");
  for (Stream *stream : {compute.get(), worker.get()}) {
    ProgressWord word{1};
    auto event = device.makeEvent();
    stream->enqueue({failWork, nullptr, 3});
    stream->mark(word, 2);
    stream->zero(&word, sizeof(word));
    stream->record(*event);
    (void)event->synchronize();
    EXPECT_EQ(stream->synchronize().message(), "item 3 failed");
    EXPECT_EQ(word, 1u);
  }
}

TEST(CpuDeviceTest, NamesWhatItCannotDo) {
  CpuDevice device;
  auto compute = device.makeComputeStream();
  EXPECT_FALSE(device.capture(*compute, [] { return Status(); }).ok());
  EXPECT_EQ(device.allocate(size_t(1) << 60).status().message(),
            "no memory for 1152921504606846976 bytes");
}
