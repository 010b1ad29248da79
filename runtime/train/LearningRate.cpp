//===- LearningRate.cpp - The learning rate of each step ------------------===//

#include "train/LearningRate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

using namespace fsdp::rt;

double LearningRateSchedule::at(int64_t step) const {
  if (step <= warmupSteps)
    return peak * static_cast<double>(step) / static_cast<double>(warmupSteps);
  int64_t top = std::max<int64_t>(warmupSteps, 1);
  if (shape == LearningRateShape::Constant || step <= top)
    return peak;
  double progress = static_cast<double>(step - top) / static_cast<double>(steps - top);
  double left = shape == LearningRateShape::Linear
                    ? 1 - progress
                    : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return minimum + (peak - minimum) * left;
}
