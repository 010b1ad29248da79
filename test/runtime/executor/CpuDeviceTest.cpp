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

class CpuDeviceTest : public testing::Test {
protected:
  // What work writes to outlives the stream that runs it.
  Log log;
  Gate gate;
  CpuDevice device;
  std::unique_ptr<Stream> compute = device.makeComputeStream(), stream = device.makeStream("s");
  std::unique_ptr<Event> event = device.makeEvent();
};
} // namespace

// The compute stream runs work at once, on the calling thread.
TEST_F(CpuDeviceTest, ComputeStreamIsTheCallingThread) {
  compute->enqueue(log.item(7));
  EXPECT_EQ(log.ran, std::vector<uint32_t>{7});
  EXPECT_EQ(log.threads[0], std::this_thread::get_id());
}

// Items of a stream run in the order in which they were enqueued, whoever runs them.
TEST_F(CpuDeviceTest, StreamIsInOrder) {
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
TEST_F(CpuDeviceTest, WorkerRunsBesideTheCaller) {
  stream->enqueue(gate.item());
  gate.entered.wait();
  gate.open.count_down();
  EXPECT_TRUE(stream->synchronize().ok());
}

// While the worker is busy elsewhere nobody helps; what has not been begun, the waiting thread
// runs.
TEST_F(CpuDeviceTest, WaitOnComputeHelps) {
  // Many rounds: in each either thread may get the work, and the order must hold.
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
TEST_F(CpuDeviceTest, DeferredWorkIsTheWaitersOwn) {
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
TEST_F(CpuDeviceTest, HelpEndsAtTheEvent) {
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
TEST_F(CpuDeviceTest, EventsAreReusable) {
  EXPECT_TRUE(compute->wait(*event).ok());
  for (uint32_t i = 0; i < 3; ++i) {
    stream->enqueue(log.item(i));
    stream->record(*event);
    EXPECT_TRUE(compute->wait(*event).ok());
    EXPECT_EQ(log.ran.size(), i + 1);
  }
}

// Work enqueued after a wait runs after the other stream's event.
TEST_F(CpuDeviceTest, StreamsWaitForEachOther) {
  auto first = device.makeStream("first");
  auto second = device.makeStream("second");
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
TEST_F(CpuDeviceTest, ComputeEventsAreComplete) {
  compute->record(*event);
  EXPECT_TRUE(stream->wait(*event).ok());
  EXPECT_TRUE(stream->synchronize().ok());
}

// The first error stops the stream and comes back from every later wait.
TEST_F(CpuDeviceTest, ErrorStopsTheStream) {
  stream->enqueue({failWork, nullptr, 1});
  stream->enqueue({failWork, nullptr, 2});
  stream->enqueue(log.item(3));
  stream->record(*event);
  EXPECT_EQ(compute->wait(*event).message(), "item 1 failed");
  EXPECT_EQ(stream->synchronize().message(), "item 1 failed");
  EXPECT_TRUE(log.ran.empty());
}

// A stream that waited for a failed one fails with the same message.
TEST_F(CpuDeviceTest, ErrorCrossesStreams) {
  auto first = device.makeStream("first");
  auto second = device.makeStream("second");
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
TEST_F(CpuDeviceTest, ExceptionBecomesAnError) {
  stream->enqueue(
      {[](void *, uint32_t) -> Status { throw std::runtime_error("thrown"); }, nullptr, 0});
  EXPECT_EQ(stream->synchronize().message(), "thrown");
}

// A full queue blocks the caller until there is room, and loses nothing.
TEST_F(CpuDeviceTest, FullQueueBlocks) {
  CpuDevice small({.queueCapacity = 2});
  stream = small.makeStream("s");
  stream->enqueue(gate.item());
  gate.entered.wait();
  stream->enqueue(log.item(0));
  std::thread opener([&] { gate.open.count_down(); });
  for (uint32_t i = 1; i < 50; ++i)
    stream->enqueue(log.item(i));
  opener.join();
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(log.ran.size(), 50u);
  stream.reset(); // before its device
}

// Destroying a stream ends its worker without running what is queued behind the running work.
TEST_F(CpuDeviceTest, DestructionSkipsQueuedWork) {
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
TEST_F(CpuDeviceTest, MemoryWorkIsInOrder) {
  for (Stream *each : {compute.get(), stream.get()}) {
    auto memory = device.allocateHost(3 * sizeof(uint32_t));
    ASSERT_TRUE(memory.ok());
    ASSERT_EQ((*memory)->size(), 3 * sizeof(uint32_t));
    auto *words = reinterpret_cast<ProgressWord *>((*memory)->data());
    EXPECT_EQ(words[1], 0u);
    auto event = device.makeEvent();
    EXPECT_TRUE(each->mark(words[0], 7).ok());
    each->copy(&words[1], &words[0], sizeof(uint32_t));
    each->copy(&words[2], &words[0], sizeof(uint32_t));
    each->zero(&words[0], sizeof(uint32_t));
    each->record(*event);
    EXPECT_TRUE(event->synchronize().ok());
    EXPECT_EQ(words[0], 0u);
    EXPECT_EQ(words[1], 7u);
    EXPECT_EQ(words[2], 7u);
  }
}

// After an error a stream writes no memory either, and an event tells of it.
TEST_F(CpuDeviceTest, MemoryWorkStopsAtAnError) {
  for (Stream *each : {compute.get(), stream.get()}) {
    ProgressWord word{1};
    auto event = device.makeEvent();
    each->enqueue({failWork, nullptr, 3});
    EXPECT_TRUE(each->mark(word, 2).ok());
    each->zero(&word, sizeof(word));
    each->record(*event);
    (void)event->synchronize();
    EXPECT_EQ(each->synchronize().message(), "item 3 failed");
    EXPECT_EQ(word, 1u);
  }
}

TEST_F(CpuDeviceTest, NamesWhatItCannotDo) {
  EXPECT_FALSE(device.capture(*compute, [] { return Status(); }).ok());
  EXPECT_EQ(device.allocate(size_t(1) << 60).status().message(),
            "no memory for 1152921504606846976 bytes");
}
