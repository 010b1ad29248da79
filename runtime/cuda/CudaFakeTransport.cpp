//===- CudaFakeTransport.cpp - Traffic of ranks that are not there --------===//

#include "cuda/CudaFakeTransport.h"
#include "comm/CollectiveNames.h"

using namespace fsdp::rt;

static Status withoutStream(unsigned lane) {
  return Status::error(std::string("the ") + laneName(lane) + " has no stream");
}

Status CudaFakeTransport::copy(unsigned lane, void *to, const void *from, size_t bytes) {
  if (!streams[lane])
    return withoutStream(lane);
  streams[lane]->copy(to, from, bytes);
  return streams[lane]->error();
}

Status CudaFakeTransport::delay(unsigned lane, uint64_t nanoseconds) {
  if (!streams[lane])
    return withoutStream(lane);
  CudaCalls &calls = device.cuda();
  if (!streams[lane]->error().ok())
    return streams[lane]->error();
  return streams[lane]->note(checkCuda(
      calls, calls.launchDelay(nanoseconds, streams[lane]->native()), "the delay kernel"));
}

bool CudaFakeTransport::useStream(unsigned lane, Stream &stream) {
  if (lane >= kControlLane)
    return false;
  streams[lane] = &static_cast<CudaStream &>(stream);
  return true;
}
