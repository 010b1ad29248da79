//===- OperatorRuntime.h - A device's services for operators -- -*- C++ -*-===//
//
// The services of a device for the executor, beside streams, events and memory: the device of
// tensors, the placement of allocations, random numbers and the optimizer's updates. One per
// executor, made by makeOperatorRuntime(); used by the thread that runs the step.
//
// In a step, setInputs() is called before anything is issued. A graph captures and replays begin(),
// the draws, launch(), partialNorm(), clip(), update() and end(). The work that these issue reads
// all values that change from step to step from the memory that setInputs() writes.
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

/// Parameters that the operators of an executor share.
struct OperatorContext {
  Stream &compute; // outlives the runtime
  unsigned rank = 0;
  // 1 + the number of steps that the host may have issued and not yet waited for.
  unsigned slots = 1;
  std::span<const int64_t> draws; // positions of the step's random draws, ascending
  // Of the plan: one per optimizer group, and one for parameters of no group.
  unsigned optimizers = 1;
};

class OperatorRuntime {
public:
  virtual ~OperatorRuntime() = default;

  /// The device of a step's tensors.
  virtual c10::Device tensorDevice() const = 0;
  /// True if the host computes and accesses the step's memory: the runtime's kernels can replace
  /// operators, inputs are written in place, and operators may use helper threads.
  virtual bool isHost() const = 0;
  /// Memory for temporaries inside operators, at least 64-byte aligned.
  virtual Result<std::unique_ptr<Memory>> allocateScratch(size_t bytes) = 0;

  /// To be called once, before all others. Also makes torch's allocations go through
  /// OperatorAllocations. May throw torch's exceptions.
  virtual Status prepare(const OperatorContext &context) = 0;
  /// Adds update number n (from 0, in order of these calls): of `shard`, of group `name`, by the
  /// plan's optimizer of this index.
  virtual Status addUpdate(const fsdp_optimizer &optimizer, uint32_t index,
                           const ShardBuffers &shard, const std::string &name) = 0;
  /// Adds launch number n (from 0, in order of these calls): of the kernel of `entry`, an
  /// FSDP_KERNEL of `view`. `tensors`: the addresses of the first elements of its inputs, then of
  /// its outputs. `view` outlives the runtime.
  virtual Status addLaunch(const PlanView &view, const fsdp_entry &entry,
                           std::vector<void *> tensors) = 0;
  /// Adds a shard without an update whose copy is gathered.
  virtual void addFrozen(const ShardBuffers &shard) = 0;
  /// Writes the copies for gathers. To be called once, after the shards are loaded and before the
  /// first step.
  virtual Status writeGathered() = 0;
  /// Frees memory that only the measurement of the first step needed. To be called after the first
  /// step, when nothing runs. May throw.
  virtual void releaseUnused() {}

  virtual void setInputs(const StepInputs &inputs) = 0;
  virtual Status begin() = 0;
  /// Until endDraw(), the calling thread's operator draws the random numbers determined by seed,
  /// step, rank and `position`. May throw.
  virtual void beginDraw(int64_t position) = 0;
  virtual void endDraw() = 0;
  virtual Status launch(size_t index) = 0;
  /// Computes ahead the part in the norm of the gradients of update `index`, which are `shiftBytes`
  /// after the address from which the update reads them.
  virtual Status shardNorm(size_t index, fsdp_norm_type type, int64_t shiftBytes) = 0;
  /// Writes the part of all updates' gradients in the norm (plan/NormType.h) to `part`, in device
  /// memory, without gradients that do not count (ShardBuffers).
  virtual Status partialNorm(fsdp_norm_type type, double *part) = 0;
  /// Makes the following updates of the step multiply their gradients by clipFactor(type, *total,
  /// maxNorm), see OptimizerUpdate.h; with a maxNorm of 0, by 1. `total` is in device memory, and
  /// so is `lossScale`. If that is not null, gradients and norm are multiplied by its inverse
  /// before, and the updates do nothing if the total is not finite.
  virtual Status clip(fsdp_norm_type type, const double *total, float maxNorm,
                      const float *lossScale) = 0;
  /// If isHost(): makes the following updates of the step do nothing.
  virtual void leaveOutUpdates() {}
  virtual Status update(size_t index) = 0;
  /// Writes the part of all updates' gradients, before clipping, in the norm to `part`, in device
  /// memory: the norm of partialNorm(), or norm 2 in a step without it.
  virtual Status end(double *part) = 0;
};

/// A device with an operator runtime of its own.
class OperatorDevice {
public:
  virtual ~OperatorDevice() = default;
  virtual std::unique_ptr<OperatorRuntime> makeOperatorRuntime() = 0;
};

/// The device's own runtime if it is an OperatorDevice; else the host's, where everything runs at
/// once on the calling thread.
std::unique_ptr<OperatorRuntime> makeOperatorRuntime(Device &device);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_OPERATORRUNTIME_H
