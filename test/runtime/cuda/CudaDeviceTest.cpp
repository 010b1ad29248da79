//===- CudaDeviceTest.cpp - The calls behind streams, events and memory ---===//

#include "cuda/CudaDevice.h"
#include "RecordingCalls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

using namespace fsdp::rt;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class CudaDeviceTest : public testing::Test {
protected:
  void SetUp() override {
    auto opened = CudaDevice::open(calls, {});
    ASSERT_TRUE(opened.ok());
    device = std::move(*opened);
    calls.take();
  }

  RecordingCalls calls;
  std::unique_ptr<CudaDevice> device;
};

struct Note {
  std::vector<uint32_t> ran;
  static Status run(void *note, uint32_t index) {
    static_cast<Note *>(note)->ran.push_back(index);
    return {};
  }
  static Status fail(void *, uint32_t index) {
    return Status::error("item " + std::to_string(index) + " failed");
  }
};

} // namespace

// A rank opens the device of its number, and asks nothing else of it.
TEST(CudaDeviceOpen, Calls) {
  RecordingCalls calls;
  ASSERT_TRUE(CudaDevice::open(calls, {.ordinal = 3}).ok());
  EXPECT_THAT(calls.take(), ElementsAre("cudaGetDeviceCount", "cudaSetDevice 3",
                                        "cudaDeviceGetStreamPriorityRange", "initializeTorch 3"));
}

TEST(CudaDeviceOpen, NamesWhatIsMissing) {
  RecordingCalls calls;
  EXPECT_EQ(CudaDevice::open(calls, {.ordinal = 4}).status().message(),
            "this rank needs CUDA device 4, but there are 4 on this host");
  calls.fail("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  EXPECT_EQ(CudaDevice::open(calls, {}).status().message(),
            "no CUDA device can be used: cuda error 35");
  calls.deviceCount = 0;
  EXPECT_EQ(CudaDevice::open(calls, {}).status().message(), "there is no CUDA device on this host");
  calls.deviceCount = 1;
  calls.fail("cudaSetDevice", cudaErrorDevicesUnavailable);
  EXPECT_EQ(CudaDevice::open(calls, {}).status().message(),
            "cudaSetDevice of CUDA device 0: cuda error 46");
  calls.fail("cudaDeviceGetStreamPriorityRange", cudaErrorUnknown);
  EXPECT_FALSE(CudaDevice::open(calls, {}).ok());
  calls.fail("initializeTorch", 1);
  EXPECT_EQ(CudaDevice::open(calls, {}).status().message(), "no torch");
}

// The compute stream is torch's while it lives; other streams have the highest priority. None of
// them synchronizes with the legacy default stream (flag 1).
TEST_F(CudaDeviceTest, Streams) {
  auto compute = device->makeComputeStream();
  auto gather = device->makeStream("fsdp-gather");
  compute.reset();
  gather.reset();
  EXPECT_THAT(calls.take(), ElementsAre("cudaStreamCreateWithPriority 1 0", "setTorchStream s1",
                                        "cudaStreamCreateWithPriority 1 -5", "setTorchStream null",
                                        "cudaStreamDestroy s1", "cudaStreamDestroy s2"));
}

// Order between streams is by events; a stream does not wait for itself, nor for an event that was
// never recorded.
TEST_F(CudaDeviceTest, Events) {
  auto first = device->makeStream("a"), second = device->makeStream("b");
  auto event = device->makeEvent(), never = device->makeEvent();
  calls.take();
  first->record(*event);
  EXPECT_TRUE(second->wait(*event).ok());
  EXPECT_TRUE(first->wait(*event).ok());
  EXPECT_TRUE(second->wait(*never).ok());
  EXPECT_TRUE(never->synchronize().ok());
  EXPECT_TRUE(event->synchronize().ok());
  EXPECT_TRUE(second->synchronize().ok());
  EXPECT_THAT(calls.take(), ElementsAre("cudaEventRecord e1 s1", "cudaStreamWaitEvent s2 e1",
                                        "cudaEventSynchronize e1", "cudaStreamSynchronize s2"));
}

// Events take no times (flag 2), but for traces.
TEST_F(CudaDeviceTest, TimedEvents) {
  device->makeEvent();
  EXPECT_THAT(calls.take(), ElementsAre("cudaEventCreateWithFlags 2", "cudaEventDestroy e1"));
  auto timed = CudaDevice::open(calls, {.timedEvents = true});
  calls.take();
  auto stream = (*timed)->makeStream("a");
  auto begin = (*timed)->makeEvent(), end = (*timed)->makeEvent();
  stream->record(*begin);
  ASSERT_TRUE(stream->delay(std::chrono::microseconds(1498)).ok());
  stream->record(*end);
  auto milliseconds = end->millisecondsSince(*begin);
  ASSERT_TRUE(milliseconds.ok());
  EXPECT_EQ(*milliseconds, 1.5f);
  EXPECT_THAT(calls.take(),
              ElementsAre("cudaStreamCreateWithPriority 1 -5", "cudaEventCreateWithFlags 0",
                          "cudaEventCreateWithFlags 0", "cudaEventRecord e2 s1", "delay 1498000 s1",
                          "cudaEventRecord e3 s1", "cudaEventElapsedTime e2 e3"));
  calls.fail("delay", cudaErrorLaunchFailure);
  EXPECT_EQ(stream->delay(std::chrono::microseconds(1)).message(),
            "the kernel delay: cuda error 719");
}

TEST_F(CudaDeviceTest, Name) {
  EXPECT_EQ(*CudaDevice::nameOf(calls, 1), "NVIDIA H100 80GB HBM3");
  EXPECT_THAT(calls.take(), ElementsAre("cudaGetDeviceProperties 1"));
  calls.fail("cudaGetDeviceProperties", cudaErrorInvalidDevice);
  EXPECT_EQ(CudaDevice::nameOf(calls, 7).status().message(),
            "cudaGetDeviceProperties of CUDA device 7: cuda error 101");
}

// Work runs at once, on the calling thread.
TEST_F(CudaDeviceTest, WorkRunsAtOnce) {
  auto stream = device->makeStream("a");
  Note note;
  stream->enqueue({Note::run, &note, 5});
  EXPECT_THAT(note.ran, ElementsAre(5u));
}

TEST_F(CudaDeviceTest, MemoryWork) {
  auto stream = device->makeStream("a");
  auto host = device->allocateHost(64);
  auto memory = device->allocate(256);
  ASSERT_TRUE(host.ok() && memory.ok());
  calls.take();
  auto *words = reinterpret_cast<ProgressWord *>((*host)->data());
  EXPECT_EQ(words[0], 0u);
  EXPECT_TRUE(stream->mark(words[1], 9).ok());
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(words[1], 9u);
  stream->copy((*memory)->data() + 128, (*host)->data(), 64);
  stream->zero((*memory)->data(), 256);
  stream->copy((*memory)->data(), (*host)->data(), 0);
  stream->zero((*memory)->data(), 0);
  memory->reset();
  host->reset();
  EXPECT_THAT(calls.take(),
              ElementsAre("cuStreamWriteValue32 s1 m1+4 9", "cudaStreamSynchronize s1",
                          "cudaMemcpyAsync m2+128 m1 64 s1", "cudaMemsetAsync m2 0 256 s1",
                          "cudaFree m2", "cudaFreeHost m1"));
}

// Memory is zeroed before it is handed out, on a stream of its own: no other stream stands still.
TEST_F(CudaDeviceTest, AllocationClears) {
  auto memory = device->allocate(100);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ((*memory)->data()[99], std::byte(0));
  EXPECT_THAT(calls.take(), ElementsAre("cudaMalloc 100", "cudaStreamCreateWithPriority 1 0",
                                        "cudaMemsetAsync m1 0 100 s1", "cudaStreamSynchronize s1",
                                        "cudaStreamDestroy s1"));
}

// A failed allocation is an error that names the bytes, and leaves nothing allocated.
TEST_F(CudaDeviceTest, FailedAllocations) {
  calls.fail("cudaMalloc", cudaErrorMemoryAllocation);
  EXPECT_EQ(device->allocate(4096).status().message(), "cudaMalloc of 4096 bytes: cuda error 2");
  calls.fail("cudaHostAlloc", cudaErrorMemoryAllocation);
  EXPECT_EQ(device->allocateHost(4096).status().message(),
            "cudaHostAlloc of 4096 bytes: cuda error 2");
  calls.take();
  calls.fail("cudaMemsetAsync", cudaErrorInvalidValue);
  EXPECT_EQ(device->allocate(4096).status().message(), "cudaMemsetAsync: cuda error 1");
  EXPECT_THAT(calls.take(), testing::Contains("cudaFree m1"));
}

// After a failed call a stream does nothing more, and everybody who waits for it learns why.
TEST_F(CudaDeviceTest, ErrorsStay) {
  const std::pair<const char *, std::function<void(Stream &, Event &, ProgressWord &)>> steps[] = {
      {"cudaEventRecord", [](Stream &s, Event &e, ProgressWord &) { s.record(e); }},
      {"cudaMemcpyAsync", [](Stream &s, Event &, ProgressWord &w) { s.copy(&w, &w, 4); }},
      {"cudaMemsetAsync", [](Stream &s, Event &, ProgressWord &w) { s.zero(&w, 4); }},
  };
  for (const auto &[function, fails] : steps) {
    auto stream = device->makeStream("a"), other = device->makeStream("b");
    auto event = device->makeEvent();
    ProgressWord word{0};
    calls.fail(function, cudaErrorLaunchFailure);
    fails(*stream, *event, word);
    calls.take();
    Note note;
    stream->enqueue({Note::run, &note, 1});
    stream->copy(&word, &word, 4);
    stream->record(*event);
    EXPECT_THAT(calls.take(), ElementsAre()) << function;
    EXPECT_THAT(note.ran, ElementsAre());
    std::string message = std::string(function) + ": cuda error 719";
    EXPECT_EQ(other->wait(*event).message(), message);
    EXPECT_EQ(event->synchronize().message(), message);
    EXPECT_EQ(stream->synchronize().message(), message);
    EXPECT_TRUE(other->synchronize().ok());
  }
}

// A mark that cannot be written is told at once, and the stream goes on.
TEST_F(CudaDeviceTest, FailedMarksDoNotStay) {
  auto stream = device->makeStream("a");
  ProgressWord word{0};
  calls.fail("cuStreamWriteValue32", cudaErrorNotSupported);
  EXPECT_EQ(stream->mark(word, 1).message(), "cuStreamWriteValue32: cuda error 801");
  EXPECT_TRUE(stream->mark(word, 2).ok());
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(word, 2u);
}

// Errors of work, of waiting and of synchronizing stay too.
TEST_F(CudaDeviceTest, MoreErrorsStay) {
  auto stream = device->makeStream("a");
  stream->enqueue({Note::fail, nullptr, 4});
  EXPECT_EQ(stream->synchronize().message(), "item 4 failed");

  auto other = device->makeStream("b"), third = device->makeStream("c");
  auto event = device->makeEvent();
  other->record(*event);
  calls.fail("cudaStreamWaitEvent", cudaErrorInvalidResourceHandle);
  EXPECT_EQ(third->wait(*event).message(), "cudaStreamWaitEvent: cuda error 400");
  EXPECT_FALSE(third->synchronize().ok());

  calls.fail("cudaStreamSynchronize", cudaErrorIllegalAddress);
  EXPECT_EQ(other->synchronize().message(), "cudaStreamSynchronize: cuda error 700");
  EXPECT_FALSE(other->synchronize().ok());
}

// A stream or event that could not be made says so when it is used.
TEST_F(CudaDeviceTest, WhatCouldNotBeMade) {
  calls.fail("cudaStreamCreateWithPriority", cudaErrorMemoryAllocation);
  auto stream = device->makeStream("a");
  EXPECT_EQ(stream->synchronize().message(), "cudaStreamCreateWithPriority: cuda error 2");
  calls.fail("setTorchStream", 1);
  EXPECT_EQ(device->makeComputeStream()->synchronize().message(), "no torch stream");
  calls.fail("cudaEventCreateWithFlags", cudaErrorMemoryAllocation);
  auto event = device->makeEvent();
  auto good = device->makeStream("b");
  good->record(*event);
  EXPECT_EQ(good->synchronize().message(), "cudaEventCreateWithFlags: cuda error 2");
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

// A capture is of the origin, thread-local (mode 1), and ends before it is instantiated; a launch
// is one call.
TEST_F(CudaDeviceTest, Capture) {
  auto compute = device->makeComputeStream(), side = device->makeStream("a");
  auto fork = device->makeEvent(), join = device->makeEvent();
  auto memory = device->allocate(8);
  calls.take();
  auto graph = device->capture(*compute, [&] {
    compute->record(*fork);
    Status status = side->wait(*fork);
    side->zero((*memory)->data(), 8);
    side->record(*join);
    return status.ok() ? compute->wait(*join) : status;
  });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_TRUE((*graph)->launch(*compute).ok());
  EXPECT_TRUE((*graph)->launch(*compute).ok());
  graph->reset();
  EXPECT_THAT(calls.take(), ElementsAre("cudaStreamBeginCapture s1 1", "cudaEventRecord e1 s1",
                                        "cudaStreamWaitEvent s2 e1", "cudaMemsetAsync m1 0 8 s2",
                                        "cudaEventRecord e2 s2", "cudaStreamWaitEvent s1 e2",
                                        "cudaStreamEndCapture s1", "cudaGraphInstantiate g1 8",
                                        "cudaGraphDestroy g1", "cudaGraphLaunch x1 s1",
                                        "cudaGraphLaunch x1 s1", "cudaGraphExecDestroy x1"));
}

// Whatever fails during a capture, the capture ends and nothing is left.
TEST_F(CudaDeviceTest, FailedCaptures) {
  auto compute = device->makeComputeStream();
  calls.take();
  auto issue = [] { return Status(); };
  EXPECT_EQ(
      device->capture(*compute, [] { return Status::error("no graph of mm"); }).status().message(),
      "no graph of mm");
  EXPECT_THAT(calls.take(), ElementsAre("cudaStreamBeginCapture s1 1", "cudaStreamEndCapture s1",
                                        "cudaGraphDestroy g1"));
  EXPECT_EQ(device->capture(*compute, []() -> Status { throw std::runtime_error("mm throws"); })
                .status()
                .message(),
            "mm throws");
  calls.take();
  calls.fail("cudaStreamBeginCapture", cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(device->capture(*compute, issue).status().message(),
            "cudaStreamBeginCapture: cuda error 900");
  EXPECT_THAT(calls.take(), ElementsAre("cudaStreamBeginCapture s1 1"));
  calls.fail("cudaStreamEndCapture", cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(device->capture(*compute, issue).status().message(),
            "cudaStreamEndCapture: cuda error 904");
  calls.take();
  calls.fail("cudaGraphInstantiate", cudaErrorMemoryAllocation);
  EXPECT_EQ(device->capture(*compute, issue).status().message(),
            "cudaGraphInstantiate: cuda error 2");
  EXPECT_THAT(calls.take(), testing::Contains(testing::StartsWith("cudaGraphDestroy")));
}

// An error of the captured stream fails the capture although nobody looked at it.
TEST_F(CudaDeviceTest, CaptureFindsTheStreamsError) {
  auto compute = device->makeComputeStream();
  calls.fail("cudaMemsetAsync", cudaErrorStreamCaptureUnsupported);
  char byte;
  auto graph = device->capture(*compute, [&] {
    compute->zero(&byte, 1);
    return Status();
  });
  EXPECT_EQ(graph.status().message(), "cudaMemsetAsync: cuda error 900");
}

TEST_F(CudaDeviceTest, FailedLaunch) {
  auto compute = device->makeComputeStream();
  auto graph = device->capture(*compute, [] { return Status(); });
  ASSERT_TRUE(graph.ok());
  calls.fail("cudaGraphLaunch", cudaErrorLaunchFailure);
  EXPECT_EQ((*graph)->launch(*compute).message(), "cudaGraphLaunch: cuda error 719");
  EXPECT_EQ((*graph)->launch(*compute).message(), "cudaGraphLaunch: cuda error 719");
  EXPECT_EQ(compute->synchronize().message(), "cudaGraphLaunch: cuda error 719");
}
