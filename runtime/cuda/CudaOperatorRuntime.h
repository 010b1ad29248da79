//===- CudaOperatorRuntime.h - Operators on a GPU ---------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CUDA_CUDAOPERATORRUNTIME_H
#define FSDP_RUNTIME_CUDA_CUDAOPERATORRUNTIME_H

#include "cuda/CudaLaunches.h"
#include "cuda/CudaUpdates.h"
#include "executor/Staging.h"

#include <optional>

namespace fsdp::rt {

/// Operators run through torch on the compute stream, which is torch's current one. Values that
/// change from step to step (the optimizers' scalars, seeds of the draws) are copied to device
/// memory before the step.
class CudaOperatorRuntime final : public OperatorRuntime {
public:
  /// The device outlives the object.
  explicit CudaOperatorRuntime(CudaDevice &device)
      : device(device), calls(device.cuda()), launches(calls) {}

  c10::Device tensorDevice() const override { return device.tensorDevice(); }
  bool isHost() const override { return false; }
  Result<std::unique_ptr<Memory>> allocateScratch(size_t bytes) override {
    return device.allocate(bytes);
  }

  Status prepare(const OperatorContext &context) override;
  Status addUpdate(const fsdp_optimizer &optimizer, uint32_t index, const ShardBuffers &shard,
                   const std::string &name) override {
    return updates->add(optimizer, index, shard, name);
  }
  Status addLaunch(const PlanView &view, const fsdp_entry &entry,
                   std::vector<void *> tensors) override {
    return launches.add(view, entry, std::move(tensors));
  }
  void addFrozen(const ShardBuffers &shard) override { updates->addFrozen(shard); }
  Status writeGathered() override { return updates->writeGathered(); }

  void releaseUnused() override { calls.releaseTorchMemory(); }
  void setInputs(const StepInputs &inputs) override;
  Status begin() override { return updates->begin(); }
  void beginDraw(int64_t position) override;
  void endDraw() override { calls.endTorchDraw(device.ordinal()); }
  Status launch(size_t index) override { return launches.run(index, *compute); }
  Status shardNorm(size_t index, fsdp_norm_type type, int64_t shiftBytes) override {
    return updates->shardNorm(index, type, shiftBytes);
  }
  Status partialNorm(fsdp_norm_type type, double *part) override {
    return updates->partialNorm(type, part);
  }
  Status clip(fsdp_norm_type type, const double *total, float maxNorm,
              const float *lossScale) override {
    return updates->clip(type, total, maxNorm, lossScale);
  }
  Status update(size_t index) override { return updates->run(index); }
  Status end(double *part) override { return updates->end(part); }

private:
  /// Bytes of the words before the seeds.
  size_t fixedBytes() const;

  CudaDevice &device;
  CudaCalls &calls;
  CudaStream *compute = nullptr;
  unsigned rank = 0;
  StepInputs inputs;
  std::vector<int64_t> draws;    // positions, ascending
  unsigned optimizers = 1;       // of the plan
  std::unique_ptr<Memory> words; // a 0, OptimizerScalars by optimizer, a seed per draw
  std::unique_ptr<Staging> staging;
  CudaLaunches launches;
  std::optional<CudaUpdates> updates;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CUDA_CUDAOPERATORRUNTIME_H
