//===- LearningRate.h - The learning rate of each step -----------*- C++ -*-===//

#ifndef FSDP_RUNTIME_LEARNINGRATE_H
#define FSDP_RUNTIME_LEARNINGRATE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace fsdp::rt {

enum class LearningRateShape { Constant, Linear, Cosine, WarmupStableDecay };

/// "cosine", and back.
const char *shapeName(LearningRateShape shape);
std::optional<LearningRateShape> shapeNamed(std::string_view name);

/// Warm-up: step t <= warmupSteps has peak * t / warmupSteps. From step max(warmupSteps, 1), which
/// has `peak`, the rate falls along the shape and reaches `minimum` at step `steps`. Constant does
/// not fall; WarmupStableDecay is constant until step steps - decaySteps and then falls linearly.
struct LearningRateSchedule {
  LearningRateShape shape = LearningRateShape::Constant;
  double peak = 0, minimum = 0;
  int64_t warmupSteps = 0, steps = 1;
  int64_t decaySteps = 0;

  /// The rate of step `step`, from 1 to `steps`.
  double at(int64_t step) const;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_LEARNINGRATE_H
