//===- CudaPlacementAllocator.cpp - Planned addresses on a GPU ------------===//

#include "cuda/CudaPlacementAllocator.h"
#include "executor/OperatorAllocations.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <mutex>

using namespace fsdp::rt;
using namespace c10::cuda::CUDACachingAllocator;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::MempoolId_t;

// Torch's own allocator. It is global since deleters have no context.
static CUDAAllocator *native = nullptr;

/// Allocates `bytes` at the running operator's planned address, else by torch's own allocator.
static void *allocateBytes(size_t bytes) {
  OperatorAllocations *call = bytes ? OperatorAllocations::current() : nullptr;
  void *address = call ? call->place(bytes) : nullptr;
  if (address || !bytes)
    return address;
  address = native->raw_alloc(bytes);
  if (call)
    call->noteFallback(address, bytes);
  return address;
}

static void release(void *address) {
  if (!address)
    return;
  if (OperatorAllocations *call = OperatorAllocations::current())
    call->noteFreed(address);
  if (!isPlacedMemory(address))
    native->raw_delete(address);
}

namespace {
/// Serves allocations of operators at planned addresses, and passes all others on.
class CudaPlacementAllocator final : public CUDAAllocator {
public:
  DataPtr allocate(size_t bytes) override {
    c10::Device device(c10::kCUDA, c10::cuda::current_device());
    void *address = allocateBytes(bytes);
    return {address, address, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    native->copy_data(to, from, bytes);
  }

  // Used for workspaces of libraries and of thrust.
  void *raw_alloc(size_t bytes) override { return allocateBytes(bytes); }
  void *raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    void *address = native->raw_alloc_with_stream(bytes, stream);
    // Planned addresses belong to the compute stream, so this allocation is a fallback; a graph
    // must not keep it either.
    if (OperatorAllocations *call = address ? OperatorAllocations::current() : nullptr)
      call->noteFallback(address, bytes);
    return address;
  }
  void raw_delete(void *address) override { release(address); }
  void *getBaseAllocation(void *address, size_t *bytes) override {
    return native->getBaseAllocation(address, bytes);
  }
  // The native allocator knows its blocks by its own deleter.
  using CUDAAllocator::recordStream;
  void recordStream(const DataPtr &pointer, c10::cuda::CUDAStream stream) override {
    if (!pointer.get() || isPlacedMemory(pointer.get()))
      return;
    if (pointer.get_deleter() != &release)
      return native->recordStream(pointer, stream);
    DataPtr block(pointer.get(), pointer.get(), native->raw_deleter(), pointer.device());
    native->recordStream(block, stream);
    block.release_context();
  }

  void init(int devices) override { native->init(devices); }
  bool initialized() override { return native->initialized(); }
  double getMemoryFraction(DeviceIndex device) override {
    return native->getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    native->setMemoryFraction(fraction, device);
  }
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
    return native->getExpandableSegmentSizes(device);
  }
  void enable(bool value) override { native->enable(value); }
  bool isEnabled() const override { return native->isEnabled(); }
  void emptyCache(MempoolId_t pool) override { native->emptyCache(pool); }
  void cacheInfo(DeviceIndex device, size_t *largest) override {
    native->cacheInfo(device, largest);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    return native->getDeviceStats(device);
  }
  void resetAccumulatedStats(DeviceIndex device) override { native->resetAccumulatedStats(device); }
  void resetPeakStats(DeviceIndex device) override { native->resetPeakStats(device); }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override {
    return native->getMemoryInfo(device);
  }
  SnapshotInfo snapshot(MempoolId_t pool, bool traces) override {
    return native->snapshot(pool, traces);
  }

  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    native->beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    native->endAllocateToPool(device, pool);
  }
  void releasePool(DeviceIndex device, MempoolId_t pool) override {
    native->releasePool(device, pool);
  }
  int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override {
    return native->getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(DeviceIndex device, MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    native->createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) override {
    native->setUseOnOOM(device, pool, use);
  }
  void setNoSplit(DeviceIndex device, MempoolId_t pool) override {
    native->setNoSplit(device, pool);
  }
  bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t pool,
                                const std::unordered_set<void *> &expected) override {
    return native->checkPoolLiveAllocations(device, pool, expected);
  }
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device, MempoolId_t id) override {
    return native->getCheckpointState(device, id);
  }
  CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                         std::shared_ptr<AllocatorState> state) override {
    return native->setCheckpointPoolState(device, std::move(state));
  }

  ShareableHandle shareIpcHandle(void *address) override { return native->shareIpcHandle(address); }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return native->getIpcDevPtr(std::move(handle));
  }
  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override {
    native->enablePeerAccess(device, peer);
  }
  cudaError_t memcpyAsync(void *to, int toDevice, const void *from, int fromDevice, size_t bytes,
                          cudaStream_t stream, bool peerToPeer) override {
    return native->memcpyAsync(to, toDevice, from, fromDevice, bytes, stream, peerToPeer);
  }

  bool isHistoryEnabled() override { return native->isHistoryEnabled(); }
  void recordHistory(bool enabled, CreateContextFn recorder, size_t entries, RecordContext when,
                     bool clear, const std::vector<std::string> &skip) override {
    native->recordHistory(enabled, recorder, entries, when, clear, skip);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &data) override {
    native->recordAnnotation(data);
  }
  void pushCompileContext(std::string &data) override { native->pushCompileContext(data); }
  void popCompileContext() override { native->popCompileContext(); }
  void setUserMetadata(const std::string &data) override { native->setUserMetadata(data); }
  std::string getUserMetadata() override { return native->getUserMetadata(); }
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
    native->attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    native->attachAllocatorTraceTracker(std::move(tracker));
  }
  std::string name() override { return native->name(); }
};
} // namespace

void fsdp::rt::installCudaPlacementAllocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    native = c10::cuda::CUDACachingAllocator::get();
    // Never destroyed, since torch frees memory until the process ends.
    static auto *const placement = new CudaPlacementAllocator;
    c10::cuda::CUDACachingAllocator::allocator.store(placement);
    constexpr uint8_t kPriority = 10; // above torch's own
    c10::SetAllocator(c10::kCUDA, placement, kPriority);
  });
}
