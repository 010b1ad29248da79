//===- CudaFakeTransport.cpp - Fake collectives on a GPU ------------------===//

#include "cuda/CudaFakeTransport.h"

using namespace fsdp::rt;

static Status withoutStream(unsigned lane) {
  return Status::error("lane " + std::to_string(lane) + " has no stream");
}

Status CudaFakeTransport::copy(unsigned lane, void *to, const void *from, size_t bytes) {
  if (!streams[lane])
    return withoutStream(lane);
  streams[lane]->copy(to, from, bytes);
  return streams[lane]->error();
}

template <typename Launch>
Status CudaFakeTransport::launch(unsigned lane, const char *name, Launch &&start) {
  CudaStream *stream = streams[lane];
  if (!stream)
    return withoutStream(lane);
  if (!stream->error().ok())
    return stream->error();
  return stream->note(checkCuda(device.cuda(), start(stream->native()), name));
}

// Each lane has its own timer.
Status CudaFakeTransport::startTimer(unsigned lane) {
  return launch(lane, "the kernel startTimer",
                [&](cudaStream_t stream) { return device.cuda().launchStartTimer(lane, stream); });
}

Status CudaFakeTransport::awaitTimer(unsigned lane, uint64_t nanoseconds) {
  return launch(lane, "the kernel awaitTimer", [&](cudaStream_t stream) {
    return device.cuda().launchAwaitTimer(lane, nanoseconds, stream);
  });
}

bool CudaFakeTransport::useStream(unsigned lane, Stream &stream) {
  if (lane == kControlLane || lane >= streams.size())
    return false;
  streams[lane] = &static_cast<CudaStream &>(stream);
  return true;
}
