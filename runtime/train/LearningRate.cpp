//===- LearningRate.cpp - The learning rate of each step ------------------===//

#include "train/LearningRate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

using namespace fsdp::rt;

static constexpr std::pair<LearningRateShape, const char *> kNames[] = {
    {LearningRateShape::Constant, "constant"},
    {LearningRateShape::Linear, "linear"},
    {LearningRateShape::Cosine, "cosine"},
    {LearningRateShape::WarmupStableDecay, "wsd"}};

const char *fsdp::rt::shapeName(LearningRateShape shape) {
  return std::ranges::find(kNames, shape, [](const auto &row) { return row.first; })->second;
}

std::optional<LearningRateShape> fsdp::rt::shapeNamed(std::string_view name) {
  for (const auto &[shape, text] : kNames)
    if (name == text)
      return shape;
  return std::nullopt;
}

double LearningRateSchedule::at(int64_t step) const {
  if (step <= warmupSteps)
    return peak * static_cast<double>(step) / static_cast<double>(warmupSteps);
  int64_t top = std::max<int64_t>(warmupSteps, 1);
  if (shape == LearningRateShape::WarmupStableDecay)
    top = std::max(top, steps - decaySteps);
  if (shape == LearningRateShape::Constant || step <= top)
    return peak;
  double progress = static_cast<double>(step - top) / static_cast<double>(steps - top);
  double left = shape == LearningRateShape::Cosine
                    ? 0.5 * (1 + std::cos(std::numbers::pi * progress))
                    : 1 - progress;
  return minimum + (peak - minimum) * left;
}
