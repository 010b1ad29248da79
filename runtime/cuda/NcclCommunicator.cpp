//===- NcclCommunicator.cpp - Collectives of GPUs over NCCL ---------------===//

#include "cuda/NcclCommunicator.h"
#include "DType.h"
#include "comm/CollectiveNames.h"
#include "comm/Reduction.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <utility>

using namespace fsdp::rt;

// Time that an abort gives a pending NCCL call to return by itself.
static constexpr std::chrono::milliseconds kCallGrace{1000};

/// NCCL's type for reductions of `dtype`, which checkReduction() has accepted.
static ncclDataType_t ncclType(fsdp_dtype dtype) {
  switch (dtype) {
  case FSDP_U8:
    return ncclUint8;
  case FSDP_I8:
    return ncclInt8;
  case FSDP_I32:
    return ncclInt32;
  case FSDP_I64:
    return ncclInt64;
  case FSDP_F16:
    return ncclFloat16;
  case FSDP_F64:
    return ncclFloat64;
  case FSDP_BF16:
    return ncclBfloat16;
  default:
    return ncclFloat32;
  }
}

/// For one rank the average is taken as a sum, which is a copy: NCCL 2.28 multiplies for an
/// average, and leaves out the last of an odd number of fp64 elements.
static ncclRedOp_t ncclOp(ReduceOp op, unsigned ranks) {
  switch (op) {
  case ReduceOp::Average:
    return ranks == 1 ? ncclSum : ncclAvg;
  case ReduceOp::Max:
    return ncclMax;
  default:
    return ncclSum;
  }
}

Status NcclCommunicator::ncclError(const std::string &what, ncclResult_t result, ncclComm_t comm) {
  return Status::error(what + ": " + calls.describe(result, comm));
}

bool NcclCommunicator::useStream(unsigned lane, Stream &stream) {
  if (lane == kControlLane || lane >= numLanes())
    return false;
  states[lane].stream = &static_cast<CudaStream &>(stream);
  return true;
}

template <typename Start>
Status NcclCommunicator::enqueue(unsigned lane, const CollectiveDescriptor &what, Start &&start) {
  auto name = [&] { return describeCollective(what) + " on the " + laneName(lane); };
  LaneState &own = states[lane];
  Status error;
  {
    std::lock_guard lock(own.mutex);
    if (Status reason = failureReason(); !reason.ok()) {
      leaveGroup(own);
      return reason.within(name() + ": ");
    }
    if (!own.stream)
      return Status::error(name() + ": the lane has no stream");
    if (what.count == 0)
      return {};
    ncclResult_t result = start(own.comm, own.stream->native());
    if (result == ncclSuccess)
      return {};
    leaveGroup(own);
    error = ncclError(name(), result, own.comm);
  }
  abort(error);
  return error;
}

void NcclCommunicator::leaveGroup(LaneState &lane) {
  if (std::exchange(lane.grouped, false))
    (void)calls.ncclGroupEnd();
}

Status NcclCommunicator::beginGroup(unsigned lane) {
  if (Status status = checkLane(lane); !status.ok() || lane == kControlLane)
    return status;
  LaneState &own = states[lane];
  std::lock_guard lock(own.mutex);
  if (Status reason = failureReason(); !reason.ok())
    return reason;
  ncclResult_t result = calls.ncclGroupStart();
  if (result != ncclSuccess)
    return ncclError("ncclGroupStart", result, own.comm);
  own.grouped = true;
  return {};
}

Status NcclCommunicator::endGroup(unsigned lane) {
  if (Status status = checkLane(lane); !status.ok() || lane == kControlLane)
    return status;
  Status error;
  {
    LaneState &own = states[lane];
    std::lock_guard lock(own.mutex);
    if (!std::exchange(own.grouped, false))
      return {};
    ncclResult_t result = calls.ncclGroupEnd();
    if (result == ncclSuccess)
      return {};
    error = ncclError("a group of collectives on the " + laneName(lane), result, own.comm);
  }
  abort(error);
  return error;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Status NcclCommunicator::allGather(unsigned lane, const void *input, void *output, size_t bytes) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  if (lane == kControlLane)
    return control->allGather(lane, input, output, bytes);
  CollectiveDescriptor what = describeTransfer(CollectiveKind::AllGather, bytes);
  return enqueue(lane, what, [&](ncclComm_t comm, cudaStream_t stream) {
    return calls.ncclAllGather(input, output, bytes, ncclUint8, comm, stream);
  });
}

Status NcclCommunicator::reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                                       fsdp_dtype dtype, ReduceOp op) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  if (lane == kControlLane)
    return control->reduceScatter(lane, input, output, count, dtype, op);
  if (Status status = checkReduction(dtype, op); !status.ok())
    return status;
  return enqueue(lane, describeReduction(CollectiveKind::ReduceScatter, count, dtype, op),
                 [&](ncclComm_t comm, cudaStream_t stream) {
                   return calls.ncclReduceScatter(input, output, count, ncclType(dtype),
                                                  ncclOp(op, ranksOf(lane).size), comm, stream);
                 });
}

ncclResult_t NcclCommunicator::scaling(LaneState &lane, ncclDataType_t dtype, double factor,
                                       ncclRedOp_t *op) {
  auto [found, isNew] = lane.scalings.try_emplace({dtype, factor});
  if (isNew) {
    union {
      double f64;
      float f32;
      c10::Half f16;
      c10::BFloat16 bf16;
    } scalar = {factor};
    if (dtype == ncclFloat32)
      scalar.f32 = static_cast<float>(factor);
    else if (dtype == ncclFloat16)
      scalar.f16 = c10::Half(static_cast<float>(factor));
    else if (dtype == ncclBfloat16)
      scalar.bf16 = c10::BFloat16(static_cast<float>(factor));
    ncclResult_t result = calls.ncclRedOpCreatePreMulSum(&found->second, &scalar, dtype,
                                                         ncclScalarHostImmediate, lane.comm);
    if (result != ncclSuccess) {
      lane.scalings.erase(found);
      return result;
    }
  }
  *op = found->second;
  return ncclSuccess;
}

Status NcclCommunicator::divide(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                                double divisor) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  if (lane == kControlLane)
    return control->divide(lane, data, count, dtype, divisor);
  if (!states[lane].stream)
    return Status::error("a division on the " + laneName(lane) + ": the lane has no stream");
  AccumulateArguments scaling{.to = data,
                              .toDtype = dtype,
                              .toScale = 0,
                              .from = data,
                              .fromDtype = dtype,
                              .fromScale = 1 / static_cast<float>(divisor),
                              .elements = static_cast<int64_t>(count)};
  return checkCuda(calls, calls.launchKernel(scaling, states[lane].stream->native()),
                   std::string("the division of gradients of ") + dtypeName(dtype));
}

Status NcclCommunicator::reduceScatterScaled(unsigned lane, void *input, void *output, size_t count,
                                             fsdp_dtype dtype, double factor) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  // Scaled sums exist for the types that have averages.
  if (Status status = checkReduction(dtype, ReduceOp::Average); !status.ok())
    return status;
  if (lane == kControlLane)
    return Status::error("no scaled sum on the control lane");
  return enqueue(lane,
                 describeReduction(CollectiveKind::ReduceScatter, count, dtype, ReduceOp::Sum),
                 [&](ncclComm_t comm, cudaStream_t stream) {
                   ncclRedOp_t op = ncclSum;
                   ncclResult_t made = scaling(states[lane], ncclType(dtype), factor, &op);
                   return made != ncclSuccess
                              ? made
                              : calls.ncclReduceScatter(input, output, count, ncclType(dtype), op,
                                                        comm, stream);
                 });
}

Status NcclCommunicator::allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                                   ReduceOp op) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  if (lane == kControlLane)
    return control->allReduce(lane, data, count, dtype, op);
  if (Status status = checkReduction(dtype, op); !status.ok())
    return status;
  return enqueue(lane, describeReduction(CollectiveKind::AllReduce, count, dtype, op),
                 [&](ncclComm_t comm, cudaStream_t stream) {
                   return calls.ncclAllReduce(data, data, count, ncclType(dtype),
                                              ncclOp(op, ranksOf(lane).size), comm, stream);
                 });
}

Status NcclCommunicator::broadcast(unsigned lane, void *data, size_t bytes, unsigned root) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  if (lane == kControlLane)
    return control->broadcast(lane, data, bytes, root);
  if (Status status = checkRoot(root, ranksOf(lane).size); !status.ok())
    return status;
  CollectiveDescriptor what = describeTransfer(CollectiveKind::Broadcast, bytes, root);
  return enqueue(lane, what, [&](ncclComm_t comm, cudaStream_t stream) {
    return calls.ncclBroadcast(data, data, bytes, ncclUint8, static_cast<int>(root), comm, stream);
  });
}

Status NcclCommunicator::barrier(unsigned lane) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  if (states[lane].stream)
    if (Status status = states[lane].stream->synchronize(); !status.ok())
      return status;
  return control->barrier(lane);
}

//===----------------------------------------------------------------------===//
// Failure
//===----------------------------------------------------------------------===//

Status NcclCommunicator::failureReason() {
  std::lock_guard lock(failureMutex);
  return failure;
}

Status NcclCommunicator::health() {
  if (Status reason = failureReason(); !reason.ok())
    return reason;
  if (Status status = control->health(); !status.ok())
    return status;
  for (unsigned lane = kControlLane + 1; lane < numLanes(); ++lane) {
    LaneState &own = states[lane];
    // A lane whose mutex is held is inside NCCL, and reports its error itself.
    std::unique_lock lock(own.mutex, std::try_to_lock);
    if (!lock.owns_lock() || !own.comm)
      continue;
    ncclResult_t state = ncclSuccess, result = calls.ncclCommGetAsyncError(own.comm, &state);
    if (result == ncclSuccess)
      result = state;
    if (result != ncclSuccess && result != ncclInProgress)
      return ncclError("NCCL on the " + laneName(lane), result, own.comm);
  }
  return {};
}

/// A lock that holds the mutex if it was free within `time`. (ThreadSanitizer does not support
/// timed mutexes.)
static std::unique_lock<std::mutex> lockFor(std::mutex &mutex, std::chrono::milliseconds time) {
  auto deadline = std::chrono::steady_clock::now() + time;
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock.owns_lock() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)lock.try_lock();
  }
  return lock;
}

void NcclCommunicator::abort(const Status &reason) {
  {
    std::lock_guard lock(failureMutex);
    if (!failure.ok())
      return;
    failure = abortStatus(reason);
  }
  control->abort(reason);
  for (LaneState &lane : states) {
    // A call that waits inside NCCL for a peer returns only after the abort.
    std::unique_lock lock = lockFor(lane.mutex, kCallGrace);
    if (lane.comm && inGraph)
      aborts.emplace_back([this, comm = lane.comm] { (void)calls.ncclCommAbort(comm); });
    else if (lane.comm)
      (void)calls.ncclCommAbort(lane.comm);
    lane.comm = nullptr;
    lane.window = nullptr;
  }
  if (root)
    (void)calls.ncclCommAbort(root);
  root = nullptr;
}
