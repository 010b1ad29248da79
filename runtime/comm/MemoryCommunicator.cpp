//===- MemoryCommunicator.cpp - Collectives through common memory ---------===//

#include "comm/MemoryCommunicator.h"
#include "DType.h"
#include "comm/CollectiveNames.h"
#include "comm/Reduction.h"
#include "comm/StreamingCopy.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::rt;

// Below this size it is faster if every rank reduces everything than if each reduces a part and the
// parts are gathered.
static constexpr size_t kReduceInPartsBytes = size_t(64) << 10;

MemoryCommunicator::MemoryCommunicator(unsigned rank, unsigned size, SharedRegion region,
                                       const CommunicatorOptions &options)
    : Communicator(rank, size, options.lanes), region(region), deadline(options.deadline),
      scratch(numLanes()) {
  for (unsigned lane = 0; lane < numLanes(); ++lane) {
    scratch[lane].ranks = ranksOf(lane);
    scratch[lane].inputs.resize(scratch[lane].ranks.size);
  }
}

//===----------------------------------------------------------------------===//
// Arena
//===----------------------------------------------------------------------===//

Result<std::byte *> MemoryCommunicator::makeArena(size_t bytes) {
  if (!arenas.empty())
    return Status::error("the arena was made before");
  Result<std::byte *> own = createArena(std::max<size_t>(bytes, 1));
  if (!own.ok())
    return failed("makeArena", own.status());
  region.rank(rank()).arenaBytes = bytes;
  if (Status status = barrier(kControlLane); !status.ok())
    return status;
  for (unsigned peer = 0; peer < size(); ++peer)
    if (uint64_t theirs = region.rank(peer).arenaBytes; theirs != bytes)
      return failed("makeArena",
                    Status::error("arenas differ: rank " + std::to_string(rank()) + " asks for " +
                                  std::to_string(bytes) + " bytes, rank " + std::to_string(peer) +
                                  " for " + std::to_string(theirs)));

  std::vector<std::byte *> mapped(size());
  mapped[rank()] = *own;
  for (unsigned peer = 0; peer < size(); ++peer) {
    if (peer == rank())
      continue;
    Result<std::byte *> theirs = mapArena(peer, std::max<size_t>(bytes, 1));
    if (!theirs.ok())
      return failed("makeArena", theirs.status());
    mapped[peer] = *theirs;
  }
  if (Status status = barrier(kControlLane); !status.ok())
    return status;
  arenasAreMapped();
  arenas = std::move(mapped);
  arenaBytes = bytes;
  return arenas[rank()];
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Status MemoryCommunicator::allGather(unsigned lane, const void *input, void *output, size_t bytes) {
  Result<Operation> operation = begin(lane, CollectiveKind::AllGather, bytes);
  if (!operation.ok())
    return operation.status();
  useArena(*operation, input, bytes);
  auto *in = static_cast<const std::byte *>(input);
  auto *out = static_cast<std::byte *>(output);
  if (scratch[lane].ranks.size == 1) {
    if (bytes && in != out)
      std::memcpy(out, in, bytes);
    return {};
  }
  // The peers read the input, not the output, so that this rank copies its block at the same time.
  return operation->descriptor.inArena ? gatherFromArenas(*operation, out, bytes)
                                       : gatherStaged(*operation, in, out, bytes);
}

Status MemoryCommunicator::gatherFromArenas(const Operation &operation, std::byte *output,
                                            size_t bytes) {
  const LaneRanks &ranks = scratch[operation.lane].ranks;
  uint32_t round = publish(operation);
  const std::byte *input = arenas[rank()] + operation.descriptor.offset;
  std::byte *own = output + ranks.index * bytes;
  if (bytes && own != input)
    streamingCopy(own, input, bytes);
  for (unsigned distance = 1; distance < ranks.size; ++distance) {
    unsigned index = (ranks.index + distance) % ranks.size, peer = ranks.at(index);
    if (Status status = awaitInput(operation, round, peer); !status.ok())
      return status;
    uint64_t offset = region.lane(operation.lane, peer).descriptors[round % 2].offset;
    if (bytes)
      streamingCopy(output + index * bytes, arenas[peer] + offset, bytes);
  }
  return finishReading(operation, round);
}

Status MemoryCommunicator::gatherStaged(const Operation &operation, const std::byte *input,
                                        std::byte *output, size_t bytes) {
  const LaneRanks &ranks = scratch[operation.lane].ranks;
  std::byte *own = output + ranks.index * bytes;
  size_t first = 0;
  do {
    size_t length = std::min(SharedRegion::kStagingBytes, bytes - first);
    uint32_t next = scratch[operation.lane].round + 1;
    if (length)
      std::memcpy(region.staging(operation.lane, rank(), next), input + first, length);
    uint32_t round = publish(operation);
    if (length && own != input)
      std::memcpy(own + first, input + first, length);
    for (unsigned distance = 1; distance < ranks.size; ++distance) {
      unsigned index = (ranks.index + distance) % ranks.size, peer = ranks.at(index);
      if (Status status = awaitInput(operation, round, peer); !status.ok())
        return status;
      if (length)
        std::memcpy(output + index * bytes + first, region.staging(operation.lane, peer, round),
                    length);
    }
    first += length;
  } while (first < bytes);
  return {};
}

Status MemoryCommunicator::reduceScatter(unsigned lane, const void *input, void *output,
                                         size_t count, fsdp_dtype dtype, ReduceOp op) {
  if (Status status = checkReduction(dtype, op); !status.ok())
    return status;
  Result<Operation> operation = begin(lane, CollectiveKind::ReduceScatter, count, dtype, op);
  if (!operation.ok())
    return operation.status();
  unsigned numInputs = scratch[lane].ranks.size;
  useArena(*operation, input, numInputs * count * elementBytes(dtype));
  auto *in = static_cast<const std::byte *>(input);
  auto *out = static_cast<std::byte *>(output);
  if (numInputs == 1) {
    reduceInOrder({&in, 1}, out, count, dtype, op);
    return {};
  }
  return operation->descriptor.inArena ? reduceFromArenas(*operation, out, count)
                                       : reduceStaged(*operation, in, out, count);
}

Status MemoryCommunicator::reduceFromArenas(const Operation &operation, std::byte *output,
                                            size_t count) {
  const CollectiveDescriptor &what = operation.descriptor;
  auto dtype = static_cast<fsdp_dtype>(what.dtype);
  size_t block = count * elementBytes(dtype);
  const LaneRanks &ranks = scratch[operation.lane].ranks;
  std::vector<const std::byte *> &inputs = scratch[operation.lane].inputs;
  uint32_t round = publish(operation);
  if (Status status = awaitInputs(operation, round); !status.ok())
    return status;
  for (unsigned i = 0; i < ranks.size; ++i) {
    uint64_t offset = region.lane(operation.lane, ranks.at(i)).descriptors[round % 2].offset;
    inputs[i] = arenas[ranks.at(i)] + offset + ranks.index * block;
  }
  reduceInOrder(inputs, output, count, dtype, what.op);
  return finishReading(operation, round);
}

Status MemoryCommunicator::reduceStaged(const Operation &operation, const std::byte *input,
                                        std::byte *output, size_t count) {
  const CollectiveDescriptor &what = operation.descriptor;
  auto dtype = static_cast<fsdp_dtype>(what.dtype);
  size_t element = elementBytes(dtype), block = count * element;
  const LaneRanks &ranks = scratch[operation.lane].ranks;
  // Portions are so large that one of every rank's block fits in the staging space.
  size_t stride = SharedRegion::kStagingBytes / ranks.size / 64 * 64, piece = stride / element;
  std::vector<const std::byte *> &inputs = scratch[operation.lane].inputs;
  size_t first = 0;
  do {
    size_t length = std::min(piece, count - first);
    uint32_t next = scratch[operation.lane].round + 1;
    std::byte *staging = region.staging(operation.lane, rank(), next);
    for (unsigned i = 0; i < ranks.size; ++i)
      if (i != ranks.index && length)
        std::memcpy(staging + i * stride, input + i * block + first * element, length * element);
    uint32_t round = publish(operation);
    if (Status status = awaitInputs(operation, round); !status.ok())
      return status;
    for (unsigned i = 0; i < ranks.size; ++i)
      inputs[i] = region.staging(operation.lane, ranks.at(i), round) + ranks.index * stride;
    inputs[ranks.index] = input + ranks.index * block + first * element;
    reduceInOrder(inputs, output + first * element, length, dtype, what.op);
    first += length;
  } while (first < count);
  return {};
}

Status MemoryCommunicator::allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                                     ReduceOp op) {
  if (Status status = checkReduction(dtype, op); !status.ok())
    return status;
  Result<Operation> operation = begin(lane, CollectiveKind::AllReduce, count, dtype, op);
  if (!operation.ok())
    return operation.status();
  if (scratch[lane].ranks.size == 1)
    return {};
  auto *bytes = static_cast<std::byte *>(data);
  if (count * elementBytes(dtype) < kReduceInPartsBytes)
    return reduceEverywhere(*operation, bytes, count);
  return reduceInParts(*operation, bytes, count);
}

Status MemoryCommunicator::reduceEverywhere(const Operation &operation, std::byte *data,
                                            size_t count) {
  const CollectiveDescriptor &what = operation.descriptor;
  auto dtype = static_cast<fsdp_dtype>(what.dtype);
  size_t element = elementBytes(dtype), piece = SharedRegion::kStagingBytes / element;
  std::vector<const std::byte *> &inputs = scratch[operation.lane].inputs;
  size_t first = 0;
  do {
    size_t length = std::min(piece, count - first);
    uint32_t next = scratch[operation.lane].round + 1;
    if (length)
      std::memcpy(region.staging(operation.lane, rank(), next), data + first * element,
                  length * element);
    uint32_t round = publish(operation);
    if (Status status = awaitInputs(operation, round); !status.ok())
      return status;
    for (unsigned i = 0; i < inputs.size(); ++i)
      inputs[i] = region.staging(operation.lane, scratch[operation.lane].ranks.at(i), round);
    reduceInOrder(inputs, data + first * element, length, dtype, what.op);
    first += length;
  } while (first < count);
  return {};
}

/// All-reduce in place: each rank reduces its part, then the parts are gathered.
Status MemoryCommunicator::reduceInParts(const Operation &operation, std::byte *data,
                                         size_t count) {
  size_t element = elementBytes(operation.descriptor.dtype);
  const LaneRanks &ranks = scratch[operation.lane].ranks;
  size_t part = count / ranks.size, rest = count % ranks.size;
  std::byte *own = data + ranks.index * part * element;
  Operation gather = operation;
  gather.descriptor.kind = CollectiveKind::AllReduce;
  Operation reduce = gather;
  useArena(reduce, data, ranks.size * part * element);
  useArena(gather, own, part * element);
  Status status = reduce.descriptor.inArena ? reduceFromArenas(reduce, own, part)
                                            : reduceStaged(reduce, data, own, part);
  if (!status.ok())
    return status;
  status = gather.descriptor.inArena ? gatherFromArenas(gather, data, part * element)
                                     : gatherStaged(gather, own, data, part * element);
  if (!status.ok() || rest == 0)
    return status;
  return reduceEverywhere(operation, data + ranks.size * part * element, rest);
}

Status MemoryCommunicator::broadcast(unsigned lane, void *data, size_t bytes, unsigned root) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  const LaneRanks &ranks = scratch[lane].ranks;
  if (Status status = checkRoot(root, ranks.size); !status.ok())
    return status;
  Result<Operation> operation =
      begin(lane, CollectiveKind::Broadcast, bytes, FSDP_U8, ReduceOp::Sum, root);
  if (!operation.ok())
    return operation.status();
  if (ranks.size == 1)
    return {};
  auto *target = static_cast<std::byte *>(data);
  size_t first = 0;
  do {
    size_t length = std::min(SharedRegion::kStagingBytes, bytes - first);
    uint32_t next = scratch[lane].round + 1;
    if (ranks.index == root && length)
      std::memcpy(region.staging(lane, rank(), next), target + first, length);
    uint32_t round = publish(*operation);
    // Every rank waits for all others, so that the halves of the staging space can alternate.
    if (Status status = awaitInputs(*operation, round); !status.ok())
      return status;
    if (ranks.index != root && length)
      std::memcpy(target + first, region.staging(lane, ranks.at(root), round), length);
    first += length;
  } while (first < bytes);
  return {};
}

Status MemoryCommunicator::barrier(unsigned lane) {
  Result<Operation> operation = begin(lane, CollectiveKind::Barrier, 0);
  if (!operation.ok())
    return operation.status();
  return awaitInputs(*operation, publish(*operation));
}
