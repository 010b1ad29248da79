//===- RecordingNccl.cpp - Calls of NCCL, written down --------------------===//

#include "RecordingCalls.h"
#include "comm/StandardLanes.h"

#include <cstdio>
#include <cstring>

using namespace fsdp::rt;

static ncclResult_t nccl(int result) { return static_cast<ncclResult_t>(result); }

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
  if (result == 0 || result == ncclInProgress)
    make(newComm, 'c');
  return nccl(result);
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
ncclResult_t RecordingCalls::ncclGroupStart() { return nccl(call("ncclGroupStart")); }
ncclResult_t RecordingCalls::ncclGroupEnd() { return nccl(call("ncclGroupEnd")); }
ncclResult_t RecordingCalls::ncclAllGather(const void *input, void *output, size_t count,
                                           ncclDataType_t dtype, ncclComm_t comm,
                                           cudaStream_t stream) {
  int result = call("ncclAllGather", input, output, int64_t(count), int64_t(dtype), comm, stream);
  if (result == 0)
    run("ncclAllGather", stream,
        [=](Communicator &peers) { (void)peers.allGather(kGatherLane, input, output, count); });
  return nccl(result);
}
ncclResult_t RecordingCalls::ncclReduceScatter(const void *input, void *output, size_t count,
                                               ncclDataType_t dtype, ncclRedOp_t op,
                                               ncclComm_t comm, cudaStream_t stream) {
  int result = call("ncclReduceScatter", input, output, int64_t(count), int64_t(dtype), int64_t(op),
                    comm, stream);
  // Averages of f32 and bf16 are what steps have.
  fsdp_dtype own = dtype == ncclBfloat16 ? FSDP_BF16 : FSDP_F32;
  if (result == 0)
    run("ncclReduceScatter", stream, [=](Communicator &peers) {
      (void)peers.reduceScatter(kGatherLane, input, output, count, own, ReduceOp::Average);
    });
  return nccl(result);
}
ncclResult_t RecordingCalls::ncclAllReduce(const void *input, void *output, size_t count,
                                           ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream) {
  int result = call("ncclAllReduce", input, output, int64_t(count), int64_t(dtype), int64_t(op),
                    comm, stream);
  // The gradients' norm is a sum of doubles; norm inf is the largest, as integers.
  bool isSum = dtype == ncclFloat64 && op == ncclSum, isMax = dtype == ncclInt64 && op == ncclMax;
  if (result == 0 && (isSum || isMax))
    run("ncclAllReduce", stream, [=](Communicator &peers) {
      (void)peers.allReduce(kGatherLane, output, count, isSum ? FSDP_F64 : FSDP_I64,
                            isSum ? ReduceOp::Sum : ReduceOp::Max);
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
  if (result == 0)
    *op = static_cast<ncclRedOp_t>(scaledOps++);
  return nccl(result);
}
ncclResult_t RecordingCalls::ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return nccl(call("ncclRedOpDestroy", int64_t(op), comm));
}
