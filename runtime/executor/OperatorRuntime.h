//===- OperatorRuntime.h - What operators need of a device -------*- C++ -*-===//
//
// What a device gives the executor beside streams, events and memory: where tensors are, how their
// allocations are placed, random numbers and the optimizer's updates. One per executor, made by
// makeOperatorRuntime(); belongs to the thread that runs the step.
//
// Of a step, setInputs() is called before anything is issued; begin(), the draws, launch(),
// partialNorm(), clip(), update() and end() are part of what a graph captures and replays: what
// they issue reads everything that changes from step to step from where setInputs() has put it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OPERATORRUNTIME_H
#define FSDP_RUNTIME_OPERATORRUNTIME_H

#include "device/Device.h"
#include "executor/Executor.h"
#include "executor/OptimizerUpdate.h"
#include "plan/PlanView.h"

#include <c10/core/Device.h>

#include <span>

namespace fsdp::rt {

/// What operators of an executor share.
struct OperatorContext {
  Stream &compute; // outlives the runtime
  unsigned rank = 0;
  unsigned slots = 1;             // steps that the host may have issued and not yet waited for, + 1
  std::span<const int64_t> draws; // positions of the step's random draws, ascending
  unsigned optimizers = 1;        // of the plan: groups, and what belongs to none
};

class OperatorRuntime {
public:
  virtual ~OperatorRuntime() = default;

  /// Where a step's tensors are.
  virtual c10::Device tensorDevice() const = 0;
  /// True if the host computes and reaches the step's memory: kernels of its own can replace
  /// operators, inputs are written in place, and operators may use helper threads.
  virtual bool isHost() const = 0;
  /// Memory for temporaries inside operators, at least 64-byte aligned.
  virtual Result<std::unique_ptr<Memory>> allocateScratch(size_t bytes) = 0;

  /// Once, first: also makes torch allocate where OperatorAllocations says. May throw what torch
  /// throws.
  virtual Status prepare(const OperatorContext &context) = 0;
  /// Update number n (from 0, in order of these calls) is the one of `shard`, of group `name`, by
  /// the plan's optimizer of this index.
  virtual Status addUpdate(const fsdp_optimizer &optimizer, uint32_t index,
                           const ShardBuffers &shard, const std::string &name) = 0;
  /// Launch number n (from 0, in order of these calls) runs the kernel of `entry`, an FSDP_KERNEL
  /// of `view`, on `tensors`: where its inputs' and outputs' first elements are, the outputs behind
  /// the inputs. `view` outlives the runtime.
  virtual Status addLaunch(const PlanView &view, const fsdp_entry &entry,
                           std::vector<void *> tensors) = 0;
  /// The elements of `shard` have a copy that is gathered, and no update.
  virtual void addFrozen(const ShardBuffers &shard) = 0;
  /// Once, before the first step, when the shards are loaded: writes the copies that are gathered.
  virtual Status writeGathered() = 0;
  /// After the first step, when nothing runs: gives back what measuring it took. May throw.
  virtual void releaseUnused() {}

  virtual void setInputs(const StepInputs &inputs) = 0;
  virtual Status begin() = 0;
  /// From here to endDraw() the calling thread's operator draws the numbers that seed, step, rank
  /// and `position` determine. May throw.
  virtual void beginDraw(int64_t position) = 0;
  virtual void endDraw() = 0;
  virtual Status launch(size_t index) = 0;
  /// Computes ahead what partialNorm() will need of the gradients of update `index`, which lie
  /// `shiftBytes` behind where that reads them.
  virtual Status shardNorm(size_t index, fsdp_norm_type type, int64_t shiftBytes) = 0;
  /// Puts the part that all updates' gradients have in the norm (plan/NormType.h) to `part`, memory
  /// of the device; without those that do not count in it (ShardBuffers).
  virtual Status partialNorm(fsdp_norm_type type, double *part) = 0;
  /// The updates of the step behind it multiply their gradients by clipFactor(type, *total,
  /// maxNorm), see OptimizerUpdate.h. `total`: memory of the device.
  virtual Status clip(fsdp_norm_type type, const double *total, float maxNorm) = 0;
  virtual Status update(size_t index) = 0;
  /// Puts the part that all updates' gradients, not clipped, have in the norm to `part`, memory of
  /// the device: that of partialNorm(), or in a step without it of norm 2.
  virtual Status end(double *part) = 0;
};

/// A device whose operators need more than those of the host.
class OperatorDevice {
public:
  virtual ~OperatorDevice() = default;
  virtual std::unique_ptr<OperatorRuntime> makeOperatorRuntime() = 0;
};

/// The device's own if it is an OperatorDevice; else that of the host, where everything runs at
/// once on the calling thread.
std::unique_ptr<OperatorRuntime> makeOperatorRuntime(Device &device);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OPERATORRUNTIME_H
