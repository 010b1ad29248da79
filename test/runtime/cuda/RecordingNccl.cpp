//===- RecordingNccl.cpp - Calls of NCCL, written down --------------------===//

#include "RecordingCalls.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

using namespace fsdp::rt;

static ncclResult_t nccl(int result) { return static_cast<ncclResult_t>(result); }

/// What steps reduce.
static fsdp_dtype dtypeOf(ncclDataType_t dtype) {
  switch (dtype) {
  case ncclBfloat16:
    return FSDP_BF16;
  case ncclFloat16:
    return FSDP_F16;
  case ncclFloat64:
    return FSDP_F64;
  case ncclInt64:
    return FSDP_I64;
  case ncclInt32:
    return FSDP_I32;
  case ncclUint8:
    return FSDP_U8;
  default:
    return FSDP_F32;
  }
}
static ReduceOp opOf(ncclRedOp_t op) {
  return op == ncclAvg ? ReduceOp::Average : op == ncclMax ? ReduceOp::Max : ReduceOp::Sum;
}
static double numberOf(const void *scalar, ncclDataType_t dtype) {
  switch (dtype) {
  case ncclBfloat16:
    return *static_cast<const c10::BFloat16 *>(scalar);
  case ncclFloat16:
    return *static_cast<const c10::Half *>(scalar);
  case ncclFloat64:
    return *static_cast<const double *>(scalar);
  default:
    return *static_cast<const float *>(scalar);
  }
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

ncclResult_t RecordingCalls::ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return nccl(call("ncclGetVersion"));
}
ncclResult_t RecordingCalls::ncclGetUniqueId(ncclUniqueId *id) {
  std::memset(id, 7, sizeof(*id));
  return nccl(call("ncclGetUniqueId"));
}
ncclResult_t RecordingCalls::ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id,
                                                    int rank, ncclConfig_t *config) {
  int result = call("ncclCommInitRankConfig", "ranks=" + std::to_string(ranks) +
                                                  " rank=" + std::to_string(rank) +
                                                  " id=" + std::to_string(id.internal[0]) +
                                                  " blocking=" + std::to_string(config->blocking));
  if (result == 0 || result == ncclInProgress)
    make(comm, 'c');
  return nccl(result);
}
ncclResult_t RecordingCalls::ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newComm,
                                           ncclConfig_t *config) {
  int result = call("ncclCommSplit", comm,
                    "color=" + std::to_string(color) + " key=" + std::to_string(key) +
                        " blocking=" + std::to_string(config->blocking) +
                        (config->CTAPolicy == NCCL_CTA_POLICY_ZERO ? " zero-CTA" : ""));
  if (result != 0 && result != ncclInProgress)
    return nccl(result);
  make(newComm, 'c');
  if (exchange) {
    std::optional<unsigned> lane = findLane(color, key);
    if (!lane)
      return ncclInvalidArgument;
    lanes[*newComm] = *lane;
  }
  return nccl(result);
}
std::optional<unsigned> RecordingCalls::findLane(int color, int key) {
  std::pair<int, int> own(color, key);
  std::vector<std::pair<int, int>> all(exchange->size());
  if (!exchange->allGather(kControlLane, &own, all.data(), sizeof(own)).ok())
    return {};
  std::vector<unsigned> members;
  for (unsigned rank = 0; rank < all.size(); ++rank)
    if (all[rank].first == color)
      members.push_back(rank);
  std::ranges::stable_sort(members, {}, [&](unsigned rank) { return all[rank].second; });
  for (unsigned lane = kControlLane + 1; lane < exchange->numLanes(); ++lane) {
    LaneRanks ranks = exchange->ranksOf(lane);
    std::vector<unsigned> meeting;
    for (unsigned i = 0; i < ranks.size; ++i)
      meeting.push_back(ranks.at(i));
    if (meeting == members)
      return lane;
  }
  return {};
}
ncclResult_t RecordingCalls::ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  int result = call("ncclCommGetAsyncError", comm);
  std::lock_guard lock(mutex);
  *error = inProgress ? ncclInProgress : asyncResult;
  inProgress -= inProgress ? 1 : 0;
  return nccl(result);
}
ncclResult_t RecordingCalls::ncclCommFinalize(ncclComm_t comm) {
  return nccl(call("ncclCommFinalize", comm));
}
ncclResult_t RecordingCalls::ncclCommDestroy(ncclComm_t comm) {
  return nccl(call("ncclCommDestroy", comm));
}
ncclResult_t RecordingCalls::ncclCommAbort(ncclComm_t comm) {
  {
    std::lock_guard lock(mutex);
    aborted = true;
  }
  abortCalled.notify_all();
  return nccl(call("ncclCommAbort", comm));
}
std::string RecordingCalls::describe(ncclResult_t result, ncclComm_t) {
  return "nccl error " + std::to_string(result);
}
ncclResult_t RecordingCalls::ncclMemAlloc(void **memory, size_t bytes) {
  return nccl(allocate("ncclMemAlloc", memory, bytes));
}
ncclResult_t RecordingCalls::ncclMemFree(void *memory) {
  return nccl(release("ncclMemFree", memory));
}
ncclResult_t RecordingCalls::ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes,
                                                    ncclWindow_t *window, int flags) {
  int result = call("ncclCommWindowRegister", comm, memory, int64_t(bytes), int64_t(flags));
  if (result == 0 && supportsWindows)
    make(window, 'w');
  return nccl(result);
}
ncclResult_t RecordingCalls::ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return nccl(call("ncclCommWindowDeregister", comm, window));
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

ncclResult_t RecordingCalls::ncclGroupStart() { return nccl(call("ncclGroupStart")); }
ncclResult_t RecordingCalls::ncclGroupEnd() { return nccl(call("ncclGroupEnd")); }
ncclResult_t RecordingCalls::ncclAllGather(const void *input, void *output, size_t count,
                                           ncclDataType_t dtype, ncclComm_t comm,
                                           cudaStream_t stream) {
  int result = call("ncclAllGather", input, output, int64_t(count), int64_t(dtype), comm, stream);
  if (result == 0)
    run("ncclAllGather", comm, stream,
        [=, this](unsigned lane) { (void)exchange->allGather(lane, input, output, count); });
  return nccl(result);
}
ncclResult_t RecordingCalls::ncclReduceScatter(const void *input, void *output, size_t count,
                                               ncclDataType_t dtype, ncclRedOp_t op,
                                               ncclComm_t comm, cudaStream_t stream) {
  int result = call("ncclReduceScatter", input, output, int64_t(count), int64_t(dtype), int64_t(op),
                    comm, stream);
  if (result == 0)
    run("ncclReduceScatter", comm, stream, [=, this](unsigned lane) {
      if (auto factor = factors.find(op); factor != factors.end())
        (void)exchange->reduceScatterScaled(lane, const_cast<void *>(input), output, count,
                                            dtypeOf(dtype), factor->second);
      else
        (void)exchange->reduceScatter(lane, input, output, count, dtypeOf(dtype), opOf(op));
    });
  return nccl(result);
}
ncclResult_t RecordingCalls::ncclAllReduce(const void *input, void *output, size_t count,
                                           ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream) {
  int result = call("ncclAllReduce", input, output, int64_t(count), int64_t(dtype), int64_t(op),
                    comm, stream);
  if (result == 0)
    run("ncclAllReduce", comm, stream, [=, this](unsigned lane) {
      (void)exchange->allReduce(lane, output, count, dtypeOf(dtype), opOf(op));
    });
  return nccl(result);
}
ncclResult_t RecordingCalls::ncclBroadcast(const void *input, void *output, size_t count,
                                           ncclDataType_t dtype, int root, ncclComm_t comm,
                                           cudaStream_t stream) {
  return nccl(call("ncclBroadcast", input, output, int64_t(count), int64_t(dtype), int64_t(root),
                   comm, stream));
}
ncclResult_t RecordingCalls::ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                                      ncclDataType_t dtype, ncclScalarResidence_t,
                                                      ncclComm_t comm) {
  size_t bytes = dtype == ncclFloat64 ? 8 : dtype == ncclFloat32 ? 4 : 2;
  uint64_t bits = 0;
  std::memcpy(&bits, scalar, bytes);
  char hex[20];
  std::snprintf(hex, sizeof(hex), "%llx", static_cast<unsigned long long>(bits));
  int result = call("ncclRedOpCreatePreMulSum", std::string(hex), int64_t(dtype), comm);
  if (result == 0) {
    *op = static_cast<ncclRedOp_t>(ncclNumOps + factors.size());
    factors[*op] = numberOf(scalar, dtype);
  }
  return nccl(result);
}
ncclResult_t RecordingCalls::ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return nccl(call("ncclRedOpDestroy", int64_t(op), comm));
}
