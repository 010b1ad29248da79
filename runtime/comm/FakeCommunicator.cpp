//===- FakeCommunicator.cpp - Collectives without peers -------------------===//

#include "comm/FakeCommunicator.h"
#include "DType.h"
#include "comm/CollectiveNames.h"
#include "comm/Reduction.h"
#include "device/CpuDevice.h"

#include <chrono>
#include <cstring>
#include <thread>

using namespace fsdp::rt;

namespace {
class CpuFakeTransport final : public FakeTransport {
public:
  void prepare(unsigned numLanes) override { started.resize(numLanes); }
  Result<std::unique_ptr<Memory>> allocate(size_t bytes) override { return device.allocate(bytes); }
  Status copy(unsigned, void *to, const void *from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  Status startTimer(unsigned lane) override {
    started[lane] = Clock::now();
    return {};
  }
  Status awaitTimer(unsigned lane, uint64_t nanoseconds) override {
    std::this_thread::sleep_until(started[lane] + std::chrono::nanoseconds(nanoseconds));
    return {};
  }

private:
  using Clock = std::chrono::steady_clock;

  CpuDevice device;
  std::vector<Clock::time_point> started; // by lane
};
} // namespace

std::unique_ptr<FakeTransport> fsdp::rt::makeCpuFakeTransport() {
  return std::make_unique<CpuFakeTransport>();
}

Result<std::unique_ptr<Communicator>>
FakeCommunicator::create(FakeOptions options, std::unique_ptr<FakeTransport> transport) {
  std::unique_ptr<FakeCommunicator> communicator(
      new FakeCommunicator(options, std::move(transport)));
  communicator->transport->prepare(communicator->numLanes());
  for (unsigned lane = kControlLane + 1; lane < communicator->numLanes(); ++lane) {
    if (communicator->ranksOf(lane).size == 1)
      continue;
    Result<std::unique_ptr<Memory>> memory =
        communicator->transport->allocate(options.largestBlockBytes);
    if (!memory.ok())
      return memory.status();
    communicator->arrivals[lane] = std::move(*memory);
  }
  return std::unique_ptr<Communicator>(std::move(communicator));
}

Result<std::byte *> FakeCommunicator::makeArena(size_t bytes) {
  if (arena)
    return Status::error("the arena was made before");
  Result<std::unique_ptr<Memory>> memory = transport->allocate(bytes);
  if (!memory.ok())
    return memory.status();
  arena = std::move(*memory);
  return arena->data();
}

Status FakeCommunicator::check(unsigned lane, const CollectiveDescriptor &what) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  if (Status status = health(); !status.ok())
    return status.of(describeCollective(what) + " on the " + laneName(lane));
  return {};
}

Status FakeCommunicator::copy(unsigned lane, void *to, const void *from, size_t bytes) {
  if (bytes == 0 || to == from)
    return {};
  if (lane != kControlLane)
    return transport->copy(lane, to, from, bytes);
  std::memcpy(to, from, bytes);
  return {};
}

template <typename Copies>
Status FakeCommunicator::transfer(unsigned lane, size_t arriving, Copies &&copies) {
  if (options.bandwidthBytesPerSec == 0 || lane == kControlLane)
    return copies();
  if (Status status = transport->startTimer(lane); !status.ok())
    return status;
  if (Status status = copies(); !status.ok())
    return status;
  double nanoseconds =
      options.latencyNs + static_cast<double>(arriving) / options.bandwidthBytesPerSec * 1e9;
  return transport->awaitTimer(lane, static_cast<uint64_t>(nanoseconds));
}

Status FakeCommunicator::allGather(unsigned lane, const void *input, void *output, size_t bytes) {
  CollectiveDescriptor what = describeTransfer(CollectiveKind::AllGather, bytes);
  if (Status status = check(lane, what); !status.ok())
    return status;
  unsigned ranks = ranksOf(lane).size;
  auto *out = static_cast<std::byte *>(output);
  return transfer(lane, (ranks - 1) * bytes, [&]() -> Status {
    for (unsigned peer = 0; peer < ranks; ++peer)
      if (Status status = copy(lane, out + peer * bytes, input, bytes); !status.ok())
        return status;
    return {};
  });
}

Status FakeCommunicator::reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                                       fsdp_dtype dtype, ReduceOp op) {
  CollectiveDescriptor what = describeReduction(CollectiveKind::ReduceScatter, count, dtype, op);
  if (Status status = checkReduction(dtype, op); !status.ok())
    return status;
  if (Status status = check(lane, what); !status.ok())
    return status;
  unsigned ranks = ranksOf(lane).size;
  size_t bytes = count * elementBytes(dtype);
  bool arrives = ranks > 1 && lane != kControlLane;
  if (arrives && bytes > arrivals[lane]->size())
    return Status::error(describeCollective(what) + ": blocks of " + std::to_string(bytes) +
                         " bytes, but there is room for " + std::to_string(arrivals[lane]->size()));
  return transfer(lane, (ranks - 1) * bytes, [&]() -> Status {
    for (unsigned peer = 1; arrives && peer < ranks; ++peer)
      if (Status status = copy(lane, arrivals[lane]->data(),
                               static_cast<const std::byte *>(input) + peer * bytes, bytes);
          !status.ok())
        return status;
    return copy(lane, output, input, bytes);
  });
}

Status FakeCommunicator::reduceScatterScaled(unsigned, void *, void *, size_t, fsdp_dtype, double) {
  return Status::error("the fake communicator has no sums of scaled gradients (premul_sum)");
}

Status FakeCommunicator::divide(unsigned, void *, size_t, fsdp_dtype, double) {
  return Status::error("the fake communicator divides no gradients: compile without "
                       "gradient_divide_factor and force_sum_reduction_for_comms");
}

Status FakeCommunicator::allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                                   ReduceOp op) {
  CollectiveDescriptor what = describeReduction(CollectiveKind::AllReduce, count, dtype, op);
  if (Status status = checkReduction(dtype, op); !status.ok())
    return status;
  if (Status status = check(lane, what); !status.ok())
    return status;
  unsigned ranks = ranksOf(lane).size;
  if (ranks > 1 && op == ReduceOp::Sum && lane == kControlLane)
    return Status::error(describeCollective(what) + " on the " + laneName(lane) +
                         ": the fake communicator has it for averages and maxima only");
  if (ranks == 1 || lane == kControlLane)
    return {};
  // Costs a reduce-scatter and an all-gather, each of one part of the data per rank.
  size_t part = count * elementBytes(dtype) / ranks;
  if (part > arrivals[lane]->size())
    return Status::error(describeCollective(what) + ": parts of " + std::to_string(part) +
                         " bytes, but there is room for " + std::to_string(arrivals[lane]->size()));
  unsigned transfers = 2 * (ranks - 1);
  return transfer(lane, transfers * part, [&]() -> Status {
    for (unsigned i = 0; part > 0 && i < transfers; ++i)
      if (Status status = copy(lane, arrivals[lane]->data(), data, part); !status.ok())
        return status;
    return {};
  });
}

Status FakeCommunicator::broadcast(unsigned lane, void *, size_t bytes, unsigned root) {
  CollectiveDescriptor what = describeTransfer(CollectiveKind::Broadcast, bytes, root);
  if (Status status = checkRoot(root, ranksOf(lane).size); !status.ok())
    return status;
  return check(lane, what);
}

Status FakeCommunicator::barrier(unsigned lane) {
  CollectiveDescriptor what = describeTransfer(CollectiveKind::Barrier, 0);
  return check(lane, what);
}

Status FakeCommunicator::health() {
  std::lock_guard lock(mutex);
  return failure;
}

void FakeCommunicator::abort(const Status &reason) {
  std::lock_guard lock(mutex);
  if (failure.ok())
    failure = abortStatus(reason);
}
