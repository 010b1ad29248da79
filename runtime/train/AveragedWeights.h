//===- AveragedWeights.h - Use the moving average as weights -----*- C++ -*-===//
//
// Evaluations and weights files of the moving average of the weights (ema_decay): the average of
// each shard takes the weights' place in memory for a while, in the shard and in its copy for
// gathers.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_AVERAGEDWEIGHTS_H
#define FSDP_RUNTIME_AVERAGEDWEIGHTS_H

#include "device/Device.h"
#include "plan/PlanView.h"

#include <memory>
#include <vector>

namespace fsdp::rt {

class AveragedWeights {
public:
  /// `plan.hasAverage()`. All arguments outlive the object; `hostArena` may be null if the plan
  /// keeps nothing on the host.
  AveragedWeights(const PlanView &plan, Device &device, std::byte *arena, std::byte *hostArena);

  /// Copies the weights to host memory, and the averages, cast to the weights' dtypes, to their
  /// places. To be called between steps, after at least one update.
  Status use();
  /// Puts the weights back, bit for bit. To be called once after each use().
  Status restore();

private:
  /// A shard or its copy for gathers.
  struct Place {
    std::byte *weights;
    fsdp_dtype dtype;
    const std::byte *average;
    fsdp_dtype averageDtype;
    int64_t elements;
    std::vector<std::byte> saved; // the weights, while the average is in their place
  };
  Status use(Place &place, std::vector<std::byte> &average, std::vector<std::byte> &cast);

  std::unique_ptr<Stream> stream;
  std::vector<Place> places;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_AVERAGEDWEIGHTS_H
