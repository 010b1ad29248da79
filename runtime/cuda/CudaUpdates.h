//===- CudaUpdates.h - The optimizer on a GPU -------------------*- C++ -*-===//
//
// Updates shards by the backend's kernels. The kernels read values that change from step to step
// from device memory, which the caller writes before each step.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_CUDAUPDATES_H
#define FSDP_RUNTIME_CUDA_CUDAUPDATES_H

#include "cuda/CudaDevice.h"
#include "executor/OperatorRuntime.h"
#include "executor/OptimizerSteps.h"

#include <map>

namespace fsdp::rt {

class CudaUpdates {
public:
  /// `scalars`: one entry for each optimizer of the plan, in device memory: before each step, what
  /// scalarsOf() returns. All arguments outlive the object.
  CudaUpdates(CudaDevice &device, CudaStream &compute, const OptimizerScalars *scalars)
      : device(device), compute(compute), scalars(scalars) {}

  /// As OperatorRuntime::addUpdate().
  Status add(const fsdp_optimizer &optimizer, uint32_t index, const ShardBuffers &shard,
             const std::string &name);
  /// As OperatorRuntime::addFrozen().
  void addFrozen(const ShardBuffers &shard) { frozen.push_back(shard); }

  /// As OperatorRuntime::writeGathered().
  Status writeGathered();
  /// The scalars of update number `step` by the plan's optimizer of this index.
  OptimizerScalars scalarsOf(uint32_t index, int64_t step, double learningRate);
  Status begin();
  /// As the functions of OperatorRuntime with these names.
  Status shardNorm(size_t index, fsdp_norm_type type, int64_t shiftBytes);
  Status partialNorm(fsdp_norm_type type, double *part);
  Status clip(fsdp_norm_type type, const double *total, float maxNorm, const float *lossScale);
  Status run(size_t index);
  /// Writes nothing if there are no updates.
  Status end(double *part);

private:
  struct Update {
    OptimizerUpdateArguments kernel;
    AverageArguments average;  // of 0 elements: there is none
    PartialNormArguments norm; // its partial results begin at firstPartial
    int64_t firstPartial;
    bool isNormAhead = false; // shardNorm() has launched it in the current step
  };

  template <typename Arguments> Status launch(const Arguments &arguments, const char *name);

  CudaDevice &device;
  CudaStream &compute;
  const OptimizerScalars *const scalars;
  std::map<uint32_t, OptimizerSteps> optimizers; // those of updates
  std::vector<Update> updates;
  std::vector<ShardBuffers> frozen;
  int64_t partials = 0;
  std::unique_ptr<Memory> parts;  // the partial norms
  /// The clip factor and the inverse of the loss scale, floats; null: no step has clipped.
  std::unique_ptr<Memory> factors;
  fsdp_norm_type normType = FSDP_NORM_2;
  bool isNormTaken = false; // the partial norms are those of the current step
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_CUDAUPDATES_H
