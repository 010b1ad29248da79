//===- NcclSetup.cpp - Connects the ranks over NCCL, makes their arenas ---===//

#include "comm/CollectiveNames.h"
#include "comm/Store.h"
#include "cuda/NcclCommunicator.h"

#include <algorithm>
#include <thread>

using namespace fsdp::rt;

static constexpr std::chrono::milliseconds kPollInterval{1};

namespace {
/// Rank 0's message to the other ranks.
struct Identity {
  uint64_t valid;
  ncclUniqueId id;
};

/// Each rank's message about its arena.
struct ArenaReport {
  uint64_t bytes, fromNccl;
};
} // namespace

static bool gathersByCopyEngine(const std::vector<LaneShape> &lanes) {
  return std::ranges::any_of(lanes, &LaneShape::byCopyEngine);
}

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

Result<std::unique_ptr<NcclCommunicator>>
NcclCommunicator::connect(CudaDevice &device, std::unique_ptr<Communicator> control,
                          NcclOptions options) {
  std::unique_ptr<NcclCommunicator> communicator(
      new NcclCommunicator(device, std::move(control), options));
  if (Status status = communicator->initialize(); !status.ok()) {
    // So that the other ranks do not wait for their timeout.
    communicator->abort(status);
    return status;
  }
  return communicator;
}

Status NcclCommunicator::initialize() {
  if (gathersByCopyEngine(lanes()) && !options.oneHost)
    return Status::error("the step is compiled to gather by copy engines, which NCCL does between "
                         "devices of one host only, but the ranks run on several: compile it with "
                         "--transport kernels");
  if (Status status = connectRanks(); !status.ok())
    return status;
  for (unsigned lane = kControlLane + 1; lane < numLanes(); ++lane)
    if (Status status = split(lane); !status.ok())
      return status;
  return {};
}

Status NcclCommunicator::connectRanks() {
  Identity identity{};
  ncclResult_t result = ncclSuccess;
  if (rank() == 0) {
    result = calls.ncclGetUniqueId(&identity.id);
    identity.valid = result == ncclSuccess ? 1 : 0;
  }
  Status status = control->broadcast(kControlLane, &identity, sizeof(identity), 0);
  if (result != ncclSuccess)
    return ncclError("ncclGetUniqueId", result, nullptr);
  if (!status.ok())
    return status;
  if (!identity.valid)
    return Status::error("NCCL cannot start on rank 0");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = "fsdpc";
  result = calls.ncclCommInitRankConfig(&root, static_cast<int>(size()), identity.id,
                                        static_cast<int>(rank()), &config);
  std::string what = "NCCL cannot connect the " + std::to_string(size()) + " ranks";
  if (result != ncclSuccess && result != ncclInProgress)
    return ncclError(what, result, root);
  return awaitReady(root, what);
}

Status NcclCommunicator::split(unsigned lane) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  const std::string name = "fsdpc-" + lanes()[lane].name;
  config.commName = name.c_str(); // NCCL copies it
  if (lanes()[lane].byCopyEngine)
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  std::string what = "NCCL cannot make the communicator of the " + laneName(lane);
  LaneRanks ranks = ranksOf(lane);
  ncclResult_t result =
      calls.ncclCommSplit(root, static_cast<int>(ranks.first), static_cast<int>(ranks.index),
                          &states[lane].comm, &config);
  if (result != ncclSuccess && result != ncclInProgress)
    return ncclError(what, result, root);
  // The handle is set when the communicator that was split is ready again.
  if (Status status = awaitReady(root, what); !status.ok())
    return status;
  if (!states[lane].comm)
    return Status::error(what + ": it gave none");
  return awaitReady(states[lane].comm, what);
}

Status NcclCommunicator::awaitReady(ncclComm_t comm, const std::string &what) {
  auto deadline = std::chrono::steady_clock::now() + options.communication.connectTimeout;
  for (;;) {
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = calls.ncclCommGetAsyncError(comm, &state);
    if (result != ncclSuccess)
      return ncclError(what, result, comm);
    if (state == ncclSuccess)
      return {};
    if (state != ncclInProgress)
      return ncclError(what, state, comm);
    if (Status status = control->health(); !status.ok())
      return status.within(what + ": ");
    if (std::chrono::steady_clock::now() >= deadline)
      return Status::error(what + " " + Store::within(options.communication.connectTimeout));
    std::this_thread::sleep_for(kPollInterval);
  }
}

NcclCommunicator::~NcclCommunicator() {
  for (std::thread &abort : aborts)
    abort.join();
  // After an abort NCCL has freed its communicators, and only memory is left to free.
  bool alive = failureReason().ok();
  if (alive)
    deregisterArena();
  for (LaneState &lane : states) {
    if (!alive || !lane.comm)
      continue;
    for (const auto &[scale, op] : lane.scalings)
      (void)calls.ncclRedOpDestroy(op, lane.comm);
    // Flushes the enqueued work, on all ranks.
    (void)calls.ncclCommFinalize(lane.comm);
    (void)calls.ncclCommDestroy(lane.comm);
  }
  if (alive && root) {
    ncclResult_t result = calls.ncclCommFinalize(root);
    if (result == ncclSuccess || result == ncclInProgress)
      (void)awaitReady(root, "").ok();
    (void)calls.ncclCommDestroy(root);
  }
  if (arena && arenaFromNccl)
    (void)calls.ncclMemFree(arena);
  else if (arena)
    (void)calls.free(arena);
}

//===----------------------------------------------------------------------===//
// The arena
//===----------------------------------------------------------------------===//

/// NCCL takes whole pages of this size for a window.
static size_t windowBytes(size_t bytes) {
  constexpr size_t kPage = NCCL_WIN_REQUIRED_ALIGNMENT;
  return (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
}

Status NcclCommunicator::allocateArena(size_t bytes, bool &fromNccl) {
  void *memory = nullptr;
  ncclResult_t result = calls.ncclMemAlloc(&memory, windowBytes(bytes));
  fromNccl = result == ncclSuccess;
  if (!fromNccl) {
    note = "plain device memory: ncclMemAlloc: " + calls.describe(result, nullptr);
    Status status = checkCuda(calls, calls.malloc(&memory, windowBytes(bytes)),
                              "no device memory for the arena: cudaMalloc of " +
                                  std::to_string(windowBytes(bytes)) + " bytes");
    if (!status.ok())
      return status;
  }
  arena = static_cast<std::byte *>(memory);
  arenaFromNccl = fromNccl;
  arenaBytes = bytes;
  return device.clear(memory, windowBytes(bytes));
}

Result<std::byte *> NcclCommunicator::makeArena(size_t bytes) {
  if (arena)
    return Status::error("the arena was made before");
  bool fromNccl = false;
  if (Status status = allocateArena(bytes, fromNccl); !status.ok()) {
    abort(status);
    return status;
  }
  ArenaReport own{bytes, fromNccl ? 1u : 0u};
  std::vector<ArenaReport> reports(size());
  Status status = control->allGather(kControlLane, &own, reports.data(), sizeof(own));
  if (!status.ok())
    return status;
  bool allFromNccl = true;
  for (unsigned peer = 0; peer < size(); ++peer) {
    if (reports[peer].bytes != own.bytes)
      return Status::error("arenas differ: rank " + std::to_string(rank()) + " asks for " +
                           std::to_string(bytes) + " bytes, rank " + std::to_string(peer) +
                           " for " + std::to_string(reports[peer].bytes));
    if (!reports[peer].fromNccl && allFromNccl && fromNccl)
      note = "no symmetric windows: rank " + std::to_string(peer) + " has no memory of NCCL's";
    allFromNccl = allFromNccl && reports[peer].fromNccl;
  }
  if (size() == 1)
    note = "one rank: no windows are needed";
  else if (allFromNccl)
    if (status = registerArena(); !status.ok())
      return status;
  bool isRegistered =
      std::ranges::any_of(states, [](const LaneState &state) { return state.window != nullptr; });
  if (gathersByCopyEngine(lanes()) && size() > 1 && !isRegistered) {
    status = Status::error("the step is compiled to gather by copy engines, which NCCL does in "
                           "symmetric windows only, but there are none (" +
                           note + "): compile it with --transport kernels");
    abort(status);
    return status;
  }
  return arena;
}

Status NcclCommunicator::registerArena() {
  // All ranks register on all lanes, and then tell each other whether all have succeeded.
  ncclResult_t failed = ncclSuccess;
  for (unsigned lane = kControlLane + 1; lane < numLanes(); ++lane) {
    ncclResult_t result =
        calls.ncclCommWindowRegister(states[lane].comm, arena, windowBytes(arenaBytes),
                                     &states[lane].window, NCCL_WIN_COLL_SYMMETRIC);
    if (result != ncclSuccess && failed == ncclSuccess) {
      failed = result;
      note = "no symmetric windows: " + calls.describe(result, states[lane].comm);
    }
  }
  // Success without a window means that NCCL does not support windows between these devices.
  bool hasAll = std::all_of(states.begin() + kControlLane + 1, states.end(),
                            [](const LaneState &state) { return state.window != nullptr; });
  if (failed == ncclSuccess && !hasAll)
    note = "no symmetric windows: NCCL does not support them between these devices";
  uint8_t own = hasAll ? 1 : 0;
  std::vector<uint8_t> all(size());
  if (Status status = control->allGather(kControlLane, &own, all.data(), 1); !status.ok())
    return status;
  auto without = std::find(all.begin(), all.end(), uint8_t(0));
  if (without == all.end()) {
    note = "ncclMemAlloc, symmetric windows";
    return {};
  }
  if (own)
    note = "no symmetric windows: rank " + std::to_string(without - all.begin()) + " has none";
  deregisterArena();
  return {};
}

void NcclCommunicator::deregisterArena() {
  for (LaneState &lane : states)
    if (lane.window) {
      (void)calls.ncclCommWindowDeregister(lane.comm, lane.window);
      lane.window = nullptr;
    }
}
