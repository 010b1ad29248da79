//===- HostCopySchedule.cpp - Schedule of host copies ---------------------===//

#include "HostCopySchedule.h"

#include "fsdp/Analysis/HostPlaces.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace fsdp;

/// The bytes of all parts of a fetch, or of a chunk.
static int64_t getFetchedBytes(const ScheduledHostCopy &copy, const StepMemory &memory) {
  if (copy.isOfChunk())
    return getStoredBytes(cast<StoreStartOp>(copy.store), memory.groups);
  int64_t bytes = 0;
  for (size_t range : memory.ranges.lookup(copy.fetch))
    bytes += memory.ranges.getRanges()[range].bytes;
  return bytes;
}

/// The duration one way. Each part is a copy of its own.
static double getCopyNs(const ScheduledHostCopy &copy, const StepMemory &memory,
                        const cost::CostModel &costs) {
  if (copy.isOfChunk())
    return costs.getHostCopyCost(getFetchedBytes(copy, memory)).durationNs;
  double durationNs = 0;
  for (size_t range : memory.ranges.lookup(copy.fetch))
    durationNs += costs.getHostCopyCost(memory.ranges.getRanges()[range].bytes).durationNs;
  return durationNs;
}

bool fsdp::isFetched(const LiveRange &range) {
  auto owner = dyn_cast<StepOpInterface>(range.owner);
  return owner && owner.getRole() == StepRole::FetchStart;
}

void fsdp::addHostRanges(ScheduleProblem &step, const StepMemory &memory) {
  DenseSet<size_t> own; // ranges
  for (const ScheduledHostCopy &copy : step.hostCopies)
    if (copy.storedRange)
      own.insert(*copy.storedRange);
  llvm::erase_if(step.ranges, [&](const OperationRange &range) {
    return isFetched(memory.ranges.getRanges()[range.range]) || own.contains(range.range);
  });
  for (const ScheduledHostCopy &copy : step.hostCopies) {
    if (copy.isOfChunk())
      continue; // the chunk has a range of its own
    if (copy.storedRange)
      step.ranges.push_back(
          {copy.madeAt, std::max(copy.lastStoredReader, copy.storeWaited - 1), *copy.storedRange});
    const uint32_t last = copy.update ? copy.storeWaited - 1 : copy.lastReader;
    for (size_t range : memory.ranges.lookup(copy.fetch))
      if (copy.fetchLaunch <= last) // otherwise nothing reads the fetched copy
        step.ranges.push_back({copy.fetchLaunch, last, range});
  }
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

/// By operation: the most time that it may take to make chunks.
static std::vector<double> findChunkTimes(const schedule::Problem &problem) {
  std::vector<double> timesNs(problem.operations.size());
  for (const schedule::Use &use : problem.uses)
    if (ArrayRef<schedule::Chunk> chunks = problem.groups[use.group].chunks; !chunks.empty())
      timesNs[use.last] += chunks.front().copyNs;
  return timesNs;
}

/// By position: the earliest time at which the gathers for which computation has waited have run,
/// one after another, in any plan: those of the uses that are the first of their groups. Operations
/// that take no time are passed at once, so their positions have the same waits.
static std::vector<double> findGathered(const schedule::Problem &problem) {
  std::vector<double> endNs(problem.operations.size() + 1);
  const std::vector<int32_t> previous = problem.previousUses();
  double laneNs = 0;
  for (uint32_t i = 0; i < previous.size(); ++i)
    if (previous[i] < 0) { // merged gathers share a latency, so the bytes alone count
      laneNs += problem.meshOfUse(i).leastGatherCost().nsPerByte *
                static_cast<double>(problem.groupOfUse(i).gatheredBytes);
      endNs[problem.uses[i].first] = laneNs;
    }
  for (size_t i = 1; i < endNs.size(); ++i)
    endNs[i] = std::max(endNs[i], endNs[i - 1]);
  const std::vector<double> chunkNs = findChunkTimes(problem);
  for (size_t i = problem.operations.size(); i-- > 0;)
    if (problem.operations[i].durationNs + chunkNs[i] == 0)
      endNs[i] = std::max(endNs[i], endNs[i + 1]);
  return endNs;
}

namespace {

/// Moves fetches earlier and waits for stores later, as far as bounds and bytes allow.
class Spreader {
public:
  Spreader(ScheduleProblem &step, ArrayRef<CopyBounds> bounds, const StepMemory &memory,
           const cost::CostModel &costs, int64_t limitBytes)
      : step(step), bounds(bounds), memory(memory), costs(costs),
        operations(step.problem.operations), liveBytes(step.problem.unavoidableBytes()),
        limitBytes(limitBytes), earliestNs(operations.size() + 1), latestNs(earliestNs) {
    const std::vector<double> gatheredNs = findGathered(step.problem);
    const std::vector<double> chunkNs = findChunkTimes(step.problem);
    for (size_t i = 0; i < operations.size(); ++i) {
      const double durationNs = operations[i].durationNs, mostNs = durationNs + chunkNs[i];
      const double awaitedNs = mostNs > 0 ? gatheredNs[i] : 0;
      earliestNs[i + 1] = std::max(earliestNs[i], awaitedNs) + durationNs;
      latestNs[i + 1] = std::max(latestNs[i], awaitedNs) + mostNs;
    }
  }
  void run() {
    spreadStores();
    spreadFetches();
    for (auto [copy, bound] : llvm::zip_equal(step.hostCopies, bounds))
      if (copy.update)
        spreadState(copy, bound);
  }

private:
  bool take(uint32_t operation, int64_t bytes) {
    if (bytes > limitBytes - liveBytes[operation])
      return false;
    liveBytes[operation] += bytes;
    return true;
  }
  /// The copies of values (not of optimizer state), in the order of `isBefore`.
  SmallVector<size_t> sortValues(
      function_ref<bool(const ScheduledHostCopy &a, const ScheduledHostCopy &b)> isBefore) const {
    SmallVector<size_t> order;
    for (auto [index, copy] : llvm::enumerate(step.hostCopies))
      if (!copy.update)
        order.push_back(index);
    llvm::stable_sort(order, [&](size_t a, size_t b) {
      return isBefore(step.hostCopies[a], step.hostCopies[b]);
    });
    return order;
  }
  /// The copies of values in the order in which they are stored, with chunks among them.
  struct Store {
    uint32_t launch;
    std::optional<size_t> copy; // nullopt: of a chunk
    uint32_t use;               // that leaves the chunk
  };
  std::vector<Store> sortStores() const;
  void spreadStores();
  void storeChunk(uint32_t use, double endNs);
  void spreadFetches();
  void spreadState(ScheduledHostCopy &copy, CopyBounds bound);

  ScheduleProblem &step;
  ArrayRef<CopyBounds> bounds;
  const StepMemory &memory;
  const cost::CostModel &costs;
  ArrayRef<schedule::Operation> operations;
  std::vector<int64_t> liveBytes;
  const int64_t limitBytes;
  /// By position: when computation gets there if it waits for nothing but the first gathers; if it
  /// makes no chunks before, and if it makes all of them.
  std::vector<double> earliestNs, latestNs;
};

} // namespace

/// The chunk that waits on the host, if the group has one.
static const schedule::Chunk *findChunkOnHost(const schedule::Group &group) {
  auto found = llvm::find_if(group.chunks, [](const schedule::Chunk &c) { return c.isOnHost; });
  return found == group.chunks.end() ? nullptr : &*found;
}

std::vector<Spreader::Store> Spreader::sortStores() const {
  std::vector<Store> stores;
  for (auto [index, copy] : llvm::enumerate(step.hostCopies))
    if (!copy.update)
      stores.push_back({copy.storeLaunch, index, 0});
  const std::vector<int32_t> nextUses = step.problem.nextUses();
  for (auto [index, use] : llvm::enumerate(step.problem.uses))
    if (nextUses[index] >= 0 && findChunkOnHost(step.problem.groups[use.group]))
      stores.push_back({use.last + 1, std::nullopt, static_cast<uint32_t>(index)});
  std::ranges::stable_sort(stores, {}, &Store::launch);
  return stores;
}

void Spreader::storeChunk(uint32_t index, double endNs) {
  schedule::Use &use = step.problem.uses[index];
  use.storedBy = use.last;
  while (use.storedBy + 1 < operations.size() && earliestNs[use.storedBy + 1] < endNs)
    ++use.storedBy;
}

/// Each store is waited for when it is done. The link runs the stores one after another.
void Spreader::spreadStores() {
  double linkNs = 0;
  for (const Store &store : sortStores()) {
    linkNs = std::max(linkNs, latestNs[store.launch]);
    if (!store.copy) {
      const schedule::Use &use = step.problem.uses[store.use];
      const int64_t bytes = findChunkOnHost(step.problem.groups[use.group])->bytes;
      storeChunk(store.use, linkNs += costs.getHostCopyCost(bytes).durationNs);
      continue;
    }
    const size_t index = *store.copy;
    ScheduledHostCopy &copy = step.hostCopies[index];
    linkNs += getCopyNs(copy, memory, costs);
    const int64_t bytes = copy.storedRange ? memory.ranges.getRanges()[*copy.storedRange].bytes : 0;
    while (copy.storeWaited < bounds[index].latestStore && earliestNs[copy.storeWaited] < linkNs &&
           (copy.storeWaited <= copy.lastStoredReader || take(copy.storeWaited, bytes)))
      ++copy.storeWaited;
  }
}

/// From the last fetch to the first: each starts in time to be done at its wait and to leave the
/// link free for later fetches.
void Spreader::spreadFetches() {
  double linkNs = earliestNs.back();
  for (size_t index :
       sortValues([](const auto &a, const auto &b) { return a.fetchWaited > b.fetchWaited; })) {
    ScheduledHostCopy &copy = step.hostCopies[index];
    linkNs = std::min(linkNs, earliestNs[copy.fetchWaited]) - getCopyNs(copy, memory, costs);
    const uint32_t earliest = std::max(bounds[index].earliestFetch, copy.storeWaited);
    const int64_t bytes = getFetchedBytes(copy, memory);
    while (copy.fetchLaunch > earliest && earliestNs[copy.fetchLaunch] > linkNs &&
           take(copy.fetchLaunch - 1, bytes))
      --copy.fetchLaunch;
  }
}

/// Counts the copy as if it were alone on the link.
void Spreader::spreadState(ScheduledHostCopy &copy, CopyBounds bound) {
  const int64_t bytes = getFetchedBytes(copy, memory);
  const double copyNs = getCopyNs(copy, memory, costs);
  for (double hiddenNs = 0; hiddenNs < copyNs && copy.fetchLaunch > bound.earliestFetch &&
                            take(copy.fetchLaunch - 1, bytes);)
    hiddenNs += operations[--copy.fetchLaunch].durationNs;
  for (double hiddenNs = 0;
       hiddenNs < copyNs && copy.storeWaited < bound.latestStore && take(copy.storeWaited, bytes);)
    hiddenNs += operations[copy.storeWaited++].durationNs;
}

void fsdp::spreadHostCopies(ScheduleProblem &step, ArrayRef<CopyBounds> bounds,
                            const StepMemory &memory, const cost::CostModel &costs,
                            ProblemBuilder &builder) {
  if (step.hostCopies.empty() && !llvm::any_of(step.problem.groups, findChunkOnHost))
    return;
  int64_t limitBytes = INT64_MAX;
  if (step.problem.memoryCapBytes)
    limitBytes = std::max(*step.problem.memoryCapBytes, step.problem.minimumPeak().bytes);
  const std::vector<ScheduledHostCopy> together = step.hostCopies;
  // A copy may fit at operations but not between them, where gradients are reduced.
  constexpr int kTries = 3;
  int64_t excessBytes = 0;
  for (int tries = 0; tries < kTries; ++tries) {
    Spreader(step, bounds, memory, costs, limitBytes - excessBytes).run();
    addHostRanges(step, memory);
    builder.sumBytes();
    const int64_t peakBytes = step.problem.minimumPeak().bytes;
    if (peakBytes <= limitBytes)
      return;
    excessBytes += peakBytes - limitBytes;
    step.hostCopies = together;
    addHostRanges(step, memory);
    builder.sumBytes();
  }
}

//===----------------------------------------------------------------------===//
// Durations
//===----------------------------------------------------------------------===//

/// Fetches that start at one position are in the order of their waits.
std::vector<HostCopyEvent> fsdp::getEvents(ArrayRef<ScheduledHostCopy> copies) {
  std::vector<HostCopyEvent> events;
  for (auto [index, copy] : llvm::enumerate(copies)) {
    events.push_back({copy.storeLaunch, HostCopyEventKind::StoreStart, index});
    events.push_back({copy.storeWaited, HostCopyEventKind::StoreWait, index});
    if (copy.isOfChunk())
      continue;
    events.push_back({copy.fetchLaunch, HostCopyEventKind::FetchStart, index});
    events.push_back({copy.fetchWaited, HostCopyEventKind::FetchWait, index});
  }
  std::ranges::stable_sort(events, {}, [&](const HostCopyEvent &event) {
    const bool isFetch = event.kind == HostCopyEventKind::FetchStart;
    return std::tuple(event.position, event.kind, isFetch ? copies[event.copy].fetchWaited : 0);
  });
  return events;
}

/// The waits of computation for copies, in the order of the step.
static std::vector<HostCopyWait> findWaits(ArrayRef<ScheduledHostCopy> copies,
                                           const schedule::Problem &problem) {
  ArrayRef<schedule::Operation> operations = problem.operations;
  const std::vector<double> gatheredNs = findGathered(problem);
  std::vector<HostCopyWait> waits;
  std::vector<HostCopyEvent> events = getEvents(copies);
  std::vector<double> fetchedNs(copies.size()), storedNs(copies.size());
  double nowNs = 0, fetchLinkNs = 0, storeLinkNs = 0; // the times when each link is free
  auto next = events.begin();
  for (uint32_t position = 0; position <= operations.size(); ++position) {
    for (; next != events.end() && next->position == position; ++next) {
      const size_t copy = next->copy;
      const double copyNs = copies[copy].copyNs;
      auto waitUntil = [&](double endNs, bool isStore) {
        const double otherwiseNs = std::max(nowNs, gatheredNs[position]);
        if (endNs <= otherwiseNs)
          return;
        waits.push_back({position, static_cast<uint32_t>(copy), isStore, endNs - otherwiseNs});
        nowNs = endNs;
      };
      switch (next->kind) {
      case HostCopyEventKind::StoreStart:
        storedNs[copy] = storeLinkNs = std::max(nowNs, storeLinkNs) + copyNs;
        break;
      case HostCopyEventKind::StoreWait:
        waitUntil(storedNs[copy], /*isStore=*/true);
        break;
      case HostCopyEventKind::FetchStart:
        fetchedNs[copy] = fetchLinkNs = std::max(nowNs, fetchLinkNs) + copyNs;
        break;
      case HostCopyEventKind::FetchWait:
        waitUntil(fetchedNs[copy], /*isStore=*/false);
        break;
      }
    }
    if (position < operations.size() && operations[position].durationNs > 0)
      nowNs = std::max(nowNs, gatheredNs[position]) + operations[position].durationNs;
  }
  return waits;
}

void fsdp::chargeHostCopies(ScheduleProblem &step, const StepMemory &memory,
                            const cost::CostModel &costs) {
  for (ScheduledHostCopy &copy : step.hostCopies) {
    copy.bytes = getFetchedBytes(copy, memory);
    copy.copyNs = getCopyNs(copy, memory, costs);
  }
  step.hostCopyWaits = findWaits(step.hostCopies, step.problem);
  std::vector<schedule::Operation> &operations = step.problem.operations;
  for (const HostCopyWait &wait : step.hostCopyWaits) {
    operations[step.findOperation(wait)].durationNs += wait.ns;
    step.hostCopies[wait.copy].exposedNs += wait.ns;
    step.exposedCopyNs += wait.ns;
  }
}
