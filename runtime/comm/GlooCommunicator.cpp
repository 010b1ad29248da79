//===- GlooCommunicator.cpp - Ranks on any hosts, over c10d's gloo --------===//

#include "DType.h"
#include "comm/Alarm.h"
#include "comm/Backends.h"
#include "comm/CollectiveNames.h"
#include "comm/Exceptions.h"
#include "comm/MappedMemory.h"
#include "comm/NetworkDevice.h"
#include "comm/Reduction.h"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

using namespace fsdp::rt;

namespace {

class GlooGroup final : public c10d::ProcessGroupGloo {
public:
  using ProcessGroupGloo::ProcessGroupGloo;
  /// Closes the connections, so that peers that wait for this rank fail.
  void closeConnections() {
    for (auto &context : contexts_)
      context->closeConnections();
  }
};

/// The state of a lane. Closing a connection wakes the peer that waits on it, but not a waiting
/// thread of this rank. So a lane is closed only while it is idle: at once, or by its own thread
/// when that returns from a collective, because a peer has closed the connection or at the
/// deadline. The thread that changes a lane from Idle to Closed closes its connections. No thread
/// waits for another thread's lane.
enum class GlooLane { Idle, Busy, Closed };

class GlooCommunicator final : public Communicator {
public:
  GlooCommunicator(const LaunchEnvironment &environment, const CommunicatorOptions &options,
                   std::unique_ptr<Store> store)
      : Communicator(environment.rank, environment.worldSize, options.lanes),
        store(std::move(store)), firstServesStore(!environment.agentStore),
        deadline(options.deadline), groups(numLanes()), states(numLanes()),
        alarm(*this->store, rank(), size(), numLanes(), firstServesStore && rank() == 0) {}

  /// An error if another rank asks for different lanes, since the ranks would wait for each other
  /// in vain.
  Status checkPeersLanes();
  /// Connects a lane's group. Throws c10d's exceptions.
  void connect(unsigned lane, const std::string &address, const char *interface,
               const CommunicatorOptions &options);

  Result<std::byte *> makeArena(size_t bytes) override;
  Status allGather(unsigned lane, const void *input, void *output, size_t bytes) override;
  Status reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                       fsdp_dtype dtype, ReduceOp op) override;
  Status allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype, ReduceOp op) override;
  Status broadcast(unsigned lane, void *data, size_t bytes, unsigned root) override;
  Status barrier(unsigned lane) override;
  void abort(const Status &reason) override;
  Status health() override;

private:
  /// Begins a collective on the lane's group.
  template <typename Start> c10::intrusive_ptr<c10d::Work> begin(unsigned lane, Start &&start);
  /// Runs a collective on the lane's group: `start(group)` returns its c10d work.
  template <typename Start>
  Status run(unsigned lane, const CollectiveDescriptor &what, Start &&start);
  using Clock = std::chrono::steady_clock;

  /// The cause of gloo's `error` in a collective that began at `begin`: another rank's reason, or
  /// the lost rank.
  Status causeOf(unsigned lane, const std::string &error, Clock::time_point begin);
  /// Fails all lanes with `cause`, and tells the peers.
  void failEverywhere(const Status &cause);
  /// The reason of the communicator's failure, if it has failed.
  Status failureReason();
  /// Marks the lane idle, and closes it if the communicator has failed. Returns the reason.
  Status leaveLane(unsigned lane);
  /// Closes the lane unless it is busy or closed.
  void close(unsigned lane);
  /// Fails all lanes with `reason`, unless that has happened before.
  void fail(const Status &reason);

  static at::Tensor tensor(const void *data, size_t count, fsdp_dtype dtype) {
    return at::from_blob(const_cast<void *>(data), {static_cast<int64_t>(count)},
                         static_cast<at::ScalarType>(dtype));
  }

  std::unique_ptr<Store> store;
  const bool firstServesStore; // false: the store's server is a process beside the ranks
  const std::chrono::milliseconds deadline;
  std::atomic<unsigned> numLost{0};                  // ranks that do not answer
  std::vector<c10::intrusive_ptr<GlooGroup>> groups; // by lane; null: not connected yet
  std::vector<std::atomic<GlooLane>> states;         // by lane
  MappedMemory arena;
  std::mutex failureMutex; // held only for assignments
  Status failure;          // guarded by `failureMutex`
  Alarm alarm;             // last member: the rank stops answering before its connections end
};

} // namespace

/// Patience for the ranks' answers, and for telling the store a reason. The store may be as dead as
/// the peer, so the sum is less than a second.
static constexpr std::chrono::milliseconds kAnswerPatience{300}, kTellPatience{100};

Result<std::byte *> GlooCommunicator::makeArena(size_t bytes) {
  if (arena.begin())
    return Status::error("the arena was made before");
  Result<MappedMemory> memory = MappedMemory::anonymous(std::max<size_t>(bytes, 1));
  if (!memory.ok()) {
    abort(memory.status());
    return memory.status();
  }
  // Sizes must be equal, as in backends that share arenas.
  std::vector<uint64_t> sizes(size());
  uint64_t own = bytes;
  if (Status status = allGather(kControlLane, &own, sizes.data(), sizeof(own)); !status.ok())
    return status;
  for (unsigned peer = 0; peer < size(); ++peer)
    if (sizes[peer] != own)
      return Status::error("arenas differ: rank " + std::to_string(rank()) + " asks for " +
                           std::to_string(own) + " bytes, rank " + std::to_string(peer) + " for " +
                           std::to_string(sizes[peer]));
  arena = std::move(*memory);
  return arena.begin();
}

/// Begins a collective under a mutex: c10d records each collective in a process-wide log, and adds
/// a group's first collective to an unguarded map, so two threads that begin at the same time would
/// crash.
template <typename Start>
c10::intrusive_ptr<c10d::Work> GlooCommunicator::begin(unsigned lane, Start &&start) {
  static std::mutex logMutex;
  std::lock_guard lock(logMutex);
  return start(*groups[lane]);
}

template <typename Start>
Status GlooCommunicator::run(unsigned lane, const CollectiveDescriptor &what, Start &&start) {
  if (Status status = checkLane(lane); !status.ok())
    return status;
  std::string name = describeCollective(what) + " on the " + laneName(lane);
  auto named = [&](const Status &status) { return status.of(name); };
  if (!groups[lane])
    return Status::error(name + ": it is not connected");
  GlooLane idle = GlooLane::Idle;
  if (!states[lane].compare_exchange_strong(idle, GlooLane::Busy))
    return named(failureReason());
  if (!failureReason().ok())
    return named(leaveLane(lane));
  std::string error;
  alarm.begins(lane);
  const Clock::time_point from = Clock::now();
  try {
    begin(lane, start)->wait();
  } catch (const std::exception &exception) {
    error = firstLine(exception);
  }
  if (error.empty()) {
    (void)leaveLane(lane);
    return {};
  }
  if (failureReason().ok())
    failEverywhere(causeOf(lane, error, from));
  return named(leaveLane(lane));
}

Status GlooCommunicator::causeOf(unsigned lane, const std::string &error, Clock::time_point begin) {
  const Clock::duration waited = Clock::now() - begin;
  RollCall roll = alarm.call(kAnswerPatience);
  // The peer that failed first told its reason before it closed its connections.
  if (Status told = alarm.heard(); !told.ok())
    return told;
  const std::string wait = waited >= deadline ? describeWait(rank(), waited, deadline) : "";
  if (!roll.storeAnswers)
    return firstServesStore && rank() != 0
               ? Status::aborted(
                     0, "rank 0 is lost: the rendezvous that it serves does not answer" + wait)
               : Status::error(error + ", and the rendezvous does not answer" + wait);
  std::vector<unsigned> silent, behind;
  for (unsigned peer = 0; peer < size(); ++peer)
    if (peer != rank() && !roll.begun[peer])
      silent.push_back(peer);
  const LaneRanks ranks = ranksOf(lane);
  for (unsigned i = 0; i < ranks.size; ++i)
    if (auto &begun = roll.begun[ranks.at(i)];
        begun && lane < begun->size() && (*begun)[lane] < alarm.begun(lane))
      behind.push_back(ranks.at(i));
  if (!silent.empty()) {
    numLost = static_cast<unsigned>(silent.size());
    return Status::aborted(silent.front(),
                           listRanks(silent) +
                               (silent.size() == 1 ? " is lost: it does not answer"
                                                   : " are lost: they do not answer") +
                               wait);
  }
  if (!behind.empty() && !wait.empty())
    return Status::aborted(behind.front(), listRanks(behind) + " did not take part" + wait);
  return Status::error(error + wait);
}

Status GlooCommunicator::failureReason() {
  std::lock_guard<std::mutex> lock(failureMutex);
  return failure;
}

Status GlooCommunicator::leaveLane(unsigned lane) {
  states[lane] = GlooLane::Idle;
  // A failure while the lane was busy has left it open.
  Status reason = failureReason();
  if (!reason.ok())
    close(lane);
  return reason;
}

void GlooCommunicator::close(unsigned lane) {
  GlooLane idle = GlooLane::Idle;
  if (!states[lane].compare_exchange_strong(idle, GlooLane::Closed) || !groups[lane])
    return;
  try {
    groups[lane]->closeConnections();
  } catch (const std::exception &) {
    // A connection that cannot be closed is closed already.
  }
}

Status GlooCommunicator::health() {
  Status reason = failureReason();
  return reason.ok() ? alarm.heard() : reason;
}

void GlooCommunicator::abort(const Status &reason) { failEverywhere(abortStatus(reason)); }

void GlooCommunicator::failEverywhere(const Status &cause) {
  // If the store is gone, the peers still see the connections end.
  const Status own = abortStatus(cause);
  if (failureReason().ok())
    alarm.tell(own, kTellPatience, size() - numLost);
  // A reason that another rank has told before stays the reason.
  const Status first = alarm.heard();
  fail(first.ok() || first.message() == own.message() ? cause : first);
}

void GlooCommunicator::fail(const Status &reason) {
  {
    std::lock_guard<std::mutex> lock(failureMutex);
    if (failure.ok())
      failure = reason;
  }
  for (unsigned lane = 0; lane < numLanes(); ++lane)
    close(lane);
}

Status GlooCommunicator::allGather(unsigned lane, const void *input, void *output, size_t bytes) {
  CollectiveDescriptor what = describeTransfer(CollectiveKind::AllGather, bytes);
  at::Tensor in = tensor(input, bytes, FSDP_U8);
  at::Tensor out = tensor(output, ranksOf(lane).size * bytes, FSDP_U8);
  return run(lane, what, [&](GlooGroup &group) -> c10::intrusive_ptr<c10d::Work> {
    return bytes ? group._allgather_base(out, in) : group.barrier();
  });
}

Status GlooCommunicator::reduceScatter(unsigned lane, const void *input, void *output, size_t count,
                                       fsdp_dtype dtype, ReduceOp op) {
  if (Status status = checkReduction(dtype, op); !status.ok())
    return status;
  CollectiveDescriptor what = describeReduction(CollectiveKind::ReduceScatter, count, dtype, op);
  unsigned ranks = ranksOf(lane).size;
  at::Tensor in = tensor(input, ranks * count, dtype), out = tensor(output, count, dtype);
  c10d::ReduceScatterOptions options;
  options.reduceOp = op == ReduceOp::Max ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
  Status status = run(lane, what, [&](GlooGroup &group) -> c10::intrusive_ptr<c10d::Work> {
    return count ? group._reduce_scatter_base(out, in, options) : group.barrier();
  });
  if (status.ok() && op == ReduceOp::Average)
    divideInPlace(static_cast<std::byte *>(output), count, dtype, ranks);
  return status;
}

Status GlooCommunicator::allReduce(unsigned lane, void *data, size_t count, fsdp_dtype dtype,
                                   ReduceOp op) {
  if (Status status = checkReduction(dtype, op); !status.ok())
    return status;
  CollectiveDescriptor what = describeReduction(CollectiveKind::AllReduce, count, dtype, op);
  std::vector<at::Tensor> tensors{tensor(data, count, dtype)};
  c10d::AllreduceOptions options;
  options.reduceOp = op == ReduceOp::Max ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
  Status status = run(lane, what, [&](GlooGroup &group) -> c10::intrusive_ptr<c10d::Work> {
    return count ? group.allreduce(tensors, options) : group.barrier();
  });
  if (status.ok() && op == ReduceOp::Average)
    divideInPlace(static_cast<std::byte *>(data), count, dtype, ranksOf(lane).size);
  return status;
}

Status GlooCommunicator::broadcast(unsigned lane, void *data, size_t bytes, unsigned root) {
  if (Status status = checkRoot(root, ranksOf(lane).size); !status.ok())
    return status;
  CollectiveDescriptor what = describeTransfer(CollectiveKind::Broadcast, bytes, root);
  std::vector<at::Tensor> tensors{tensor(data, bytes, FSDP_U8)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return run(lane, what, [&](GlooGroup &group) -> c10::intrusive_ptr<c10d::Work> {
    return bytes ? group.broadcast(tensors, options) : group.barrier();
  });
}

Status GlooCommunicator::barrier(unsigned lane) {
  CollectiveDescriptor what = describeTransfer(CollectiveKind::Barrier, 0);
  return run(lane, what, [](GlooGroup &group) { return group.barrier(); });
}

Status GlooCommunicator::checkPeersLanes() {
  uint64_t own = fingerprintOf(lanes());
  std::vector<uint64_t> all(size());
  if (Status status = allGather(kControlLane, &own, all.data(), sizeof(own)); !status.ok())
    return status;
  for (unsigned peer = 0; peer < size(); ++peer)
    if (all[peer] != own)
      return otherLanes(rank(), peer);
  return {};
}

void GlooCommunicator::connect(unsigned lane, const std::string &address, const char *interface,
                               const CommunicatorOptions &options) {
  auto settings = c10d::ProcessGroupGloo::Options::create(options.connectTimeout);
  settings->devices.push_back(address.empty()
                                  ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                  : c10d::ProcessGroupGloo::createDeviceForHostname(address));
  LaneRanks ranks = ranksOf(lane);
  auto prefixed = c10::make_intrusive<c10d::PrefixStore>(
      "gloo/" + std::to_string(lane) + "/" + std::to_string(ranks.first),
      c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store->native()));
  groups[lane] = c10::make_intrusive<GlooGroup>(prefixed, static_cast<int>(ranks.index),
                                                static_cast<int>(ranks.size), settings);
  groups[lane]->setTimeout(options.deadline);
}

Result<std::unique_ptr<Communicator>> fsdp::rt::connectGloo(const LaunchEnvironment &environment,
                                                            std::unique_ptr<Store> store,
                                                            const CommunicatorOptions &options) {
  const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
  std::string address;
  if (!interface || !*interface) {
    Result<std::string> found =
        localAddressTowards(environment.masterAddress, environment.masterPort);
    if (!found.ok())
      return found.status();
    address = *found;
  }
  try {
    auto communicator = std::make_unique<GlooCommunicator>(environment, options, std::move(store));
    communicator->connect(kControlLane, address, interface, options);
    if (Status status = communicator->checkPeersLanes(); !status.ok())
      return status;
    for (unsigned lane = kControlLane + 1; lane < communicator->numLanes(); ++lane)
      communicator->connect(lane, address, interface, options);
    return std::unique_ptr<Communicator>(std::move(communicator));
  } catch (const std::exception &exception) {
    return Status::error(
        "gloo cannot connect " + std::to_string(environment.worldSize) + " ranks over " +
        (address.empty() ? "GLOO_SOCKET_IFNAME=" + std::string(interface) : address) + ": " +
        firstLine(exception));
  }
}
