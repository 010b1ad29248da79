//===- Instances.h - What the scheduler is measured on ------------*- C++ -*-===//

#ifndef FSDP_BENCHMARKS_SCHEDULE_INSTANCES_H
#define FSDP_BENCHMARKS_SCHEDULE_INSTANCES_H

#include "fsdp/Schedule/Problem.h"

#include <functional>

namespace fsdp::benchmark {

struct Instance {
  std::string name;
  std::string family; // "llama", "gpt2", "moe", "unet", "vit", "random", "tiny"
  bool slowNetwork = false;
  std::function<schedule::Problem()> make; // without a cap
};

/// Every instance is measured under each of these caps, times the minimum peak.
inline constexpr double kCaps[] = {1.00, 1.02, 1.05, 1.2, 1.5};

std::vector<Instance> makeInstances();

/// Llama-3-8B's layers, `layers` of them, for tables over sizes.
schedule::Problem makeDeepDecoder(int layers, double tokens);

} // namespace fsdp::benchmark

#endif // FSDP_BENCHMARKS_SCHEDULE_INSTANCES_H
