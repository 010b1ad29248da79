//===- CpuOperatorRuntime.h - Operators on a CPU -----------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CPUOPERATORRUNTIME_H
#define FSDP_RUNTIME_CPUOPERATORRUNTIME_H

#include "executor/CpuLaunches.h"
#include "executor/OperatorRuntime.h"
#include "executor/Random.h"

#include <optional>

namespace fsdp::rt {

/// Everything runs at once on the calling thread.
class CpuOperatorRuntime final : public OperatorRuntime {
public:
  c10::Device tensorDevice() const override { return c10::Device(c10::kCPU); }
  bool isHost() const override { return true; }
  Result<std::unique_ptr<Memory>> allocateScratch(size_t bytes) override;

  Status prepare(const OperatorContext &context) override;
  Status addUpdate(const fsdp_optimizer &optimizer, uint32_t index, const ShardBuffers &shard,
                   const std::string &name) override;
  Status addLaunch(const PlanView &view, const fsdp_entry &entry,
                   std::vector<void *> tensors) override {
    return launches.add(view, entry, std::move(tensors));
  }
  void addFrozen(const ShardBuffers &shard) override { frozen.push_back(shard); }
  Status writeGathered() override;

  void setInputs(const StepInputs &next) override { inputs = next; }
  Status begin() override;
  void beginDraw(int64_t position) override {
    draw.emplace(inputs.seed, inputs.step, rank, position);
  }
  void endDraw() override { draw.reset(); }
  Status launch(size_t index) override {
    launches.run(index);
    return {};
  }
  Status shardNorm(size_t index, fsdp_norm_type type, int64_t shiftBytes) override;
  Status partialNorm(fsdp_norm_type type, double *part) override;
  Status clip(fsdp_norm_type type, const double *total, float maxNorm,
              const float *lossScale) override;
  void leaveOutUpdates() override { updatesNothing = true; }
  Status update(size_t index) override;
  Status end(double *part) override;

private:
  unsigned rank = 0;
  StepInputs inputs;
  std::vector<std::unique_ptr<ShardUpdate>> updates;
  std::vector<uint32_t> optimizerOf; // by update
  std::vector<bool> countsInNorm;    // likewise
  std::vector<std::optional<double>> shardNorms; // likewise, if computed ahead
  std::vector<ShardBuffers> frozen;
  CpuLaunches launches;
  double normPart = 0;      // of the step so far; if isNormTaken, of all gradients
  bool isNormTaken = false; // before the updates
  bool updatesNothing = false;
  GradientFactors factors; // of the step
  std::optional<RandomDraw> draw;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CPUOPERATORRUNTIME_H
