//===- StagedCommunicator.cpp - A device's collectives, on host memory ----===//

#include "StagedCommunicator.h"
#include "DType.h"

using namespace fsdp::rt;

StagedCommunicator::StagedCommunicator(std::unique_ptr<Device> device,
                                       std::unique_ptr<Communicator> inner)
    : Communicator(*inner), device(std::move(device)), inner(std::move(inner)), streams(numLanes()),
      followsStream(numLanes()) {
  for (unsigned lane = kControlLane + 1; lane < numLanes(); ++lane) {
    streams[lane] = this->device->makeStream("test");
    followsStream[lane] = this->inner->useStream(lane, *streams[lane]);
  }
}

Result<std::byte *> StagedCommunicator::makeArena(size_t bytes) {
  Result<std::byte *> made = inner->makeArena(bytes);
  if (!made.ok())
    return made;
  deviceArena = *made;
  Result<std::unique_ptr<Memory>> image = device->allocateHost(bytes);
  if (!image.ok())
    return image.status();
  arena = std::move(*image);
  // The image shows what the device's arena holds, which must be zeros.
  streams[kGatherLane]->copy(arena->data(), deviceArena, bytes);
  if (Status status = streams[kGatherLane]->synchronize(); !status.ok())
    return status;
  return arena->data();
}

/// True if [data, data + bytes) lies in [begin, begin + size).
static bool isWithin(const void *data, size_t bytes, const void *begin, size_t size) {
  const auto *first = static_cast<const std::byte *>(data);
  const auto *start = static_cast<const std::byte *>(begin);
  return start && first >= start && first + bytes <= start + size;
}

Result<StagedCommunicator::Staged> StagedCommunicator::stage(const void *data, size_t bytes) {
  Staged staged;
  if (arena && isWithin(data, bytes, arena->data(), arena->size())) {
    staged.address = deviceArena + (static_cast<const std::byte *>(data) - arena->data());
    return staged;
  }
  Result<std::unique_ptr<Memory>> memory = device->allocate(bytes);
  if (!memory.ok())
    return memory.status();
  staged.memory = std::move(*memory);
  staged.address = staged.memory->data();
  return staged;
}

template <typename Collective>
Status StagedCommunicator::run(unsigned lane, void *whole, size_t wholeBytes, void *part,
                               size_t partBytes, void *result, size_t resultBytes,
                               Collective &&collective) {
  if (lane >= numLanes() || !streams[lane])
    return collective(whole, part);
  Stream &stream = *streams[lane];
  Result<Staged> all = stage(whole, wholeBytes);
  if (!all.ok())
    return all.status();
  Staged one;
  if (isWithin(part, partBytes, whole, wholeBytes)) {
    one.address = all->address + (static_cast<std::byte *>(part) - static_cast<std::byte *>(whole));
  } else {
    Result<Staged> own = stage(part, partBytes);
    if (!own.ok())
      return own.status();
    one = std::move(*own);
    stream.copy(one.address, part, partBytes);
  }
  stream.copy(all->address, whole, wholeBytes);
  // A communicator that blocks reads at once.
  if (!followsStream[lane])
    if (Status status = stream.synchronize(); !status.ok())
      return status;
  if (Status status = collective(all->address, one.address); !status.ok())
    return status;
  stream.copy(result, result == part ? one.address : all->address, resultBytes);
  return stream.synchronize();
}

Status StagedCommunicator::allGather(unsigned lane, const void *input, void *output, size_t bytes) {
  size_t all = ranksOf(lane).size * bytes;
  return run(lane, output, all, const_cast<void *>(input), bytes, output, all,
             [&](void *whole, void *part) { return inner->allGather(lane, part, whole, bytes); });
}

Status StagedCommunicator::reduceScatter(unsigned lane, const void *input, void *output,
                                         size_t count, fsdp_dtype dtype, ReduceOp op) {
  size_t bytes = count * elementBytes(dtype);
  size_t all = ranksOf(lane).size * bytes;
  return run(lane, const_cast<void *>(input), all, output, bytes, output, bytes,
             [&](void *whole, void *part) {
               return inner->reduceScatter(lane, whole, part, count, dtype, op);
             });
}

Status StagedCommunicator::reduceScatterScaled(unsigned lane, void *input, void *output,
                                               size_t count, fsdp_dtype dtype, double factor) {
  size_t bytes = count * elementBytes(dtype);
  return run(lane, input, ranksOf(lane).size * bytes, output, bytes, output, bytes,
             [&](void *whole, void *part) {
               return inner->reduceScatterScaled(lane, whole, part, count, dtype, factor);
             });
}

Status StagedCommunicator::divide(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                                  double divisor) {
  size_t bytes = count * elementBytes(dtype);
  return run(lane, data, bytes, data, bytes, data, bytes, [&](void *whole, void *) {
    return inner->divide(lane, whole, count, dtype, divisor);
  });
}

Status StagedCommunicator::allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                                     ReduceOp op) {
  size_t bytes = count * elementBytes(dtype);
  return run(lane, data, bytes, data, bytes, data, bytes,
             [&](void *whole, void *) { return inner->allReduce(lane, whole, count, dtype, op); });
}

Status StagedCommunicator::broadcast(unsigned lane, void *data, size_t bytes, unsigned root) {
  return run(lane, data, bytes, data, bytes, data, bytes,
             [&](void *whole, void *) { return inner->broadcast(lane, whole, bytes, root); });
}
