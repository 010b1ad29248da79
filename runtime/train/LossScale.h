//===- LossScale.h - The factor of the loss, step after step ----*- C++ -*-===//

#ifndef FSDP_RUNTIME_LOSSSCALE_H
#define FSDP_RUNTIME_LOSSSCALE_H

#include "fsdp/Plan/Abi.h"

#include <cmath>
#include <cstdint>

namespace fsdp::rt {

/// torch.amp.GradScaler's scale and the number of steps in a row whose gradients were finite.
class LossScale {
public:
  explicit LossScale(const fsdp_loss_scale &options)
      : options(options), scale(static_cast<float>(options.init)) {}

  float value() const { return scale; }
  int64_t growthTracker() const { return tracker; }
  /// Goes on from a checkpoint's state.
  void resume(double savedScale, int64_t savedTracker) {
    scale = static_cast<float>(savedScale);
    tracker = savedTracker;
  }

  /// After a step, as GradScaler.update(). `isFinite`: its gradients were, on all ranks.
  void update(bool isFinite) {
    if (!isFinite) {
      scale = static_cast<float>(scale * options.backoff_factor);
      tracker = 0;
      return;
    }
    if (++tracker < options.growth_interval)
      return;
    tracker = 0;
    if (auto grown = static_cast<float>(scale * options.growth_factor); std::isfinite(grown))
      scale = grown;
  }

private:
  fsdp_loss_scale options;
  float scale;
  int64_t tracker = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_LOSSSCALE_H
