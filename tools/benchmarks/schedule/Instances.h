//===- Instances.h - Problems for the benchmark --------------- -*- C++ -*-===//

#ifndef FSDP_BENCHMARKS_SCHEDULE_INSTANCES_H
#define FSDP_BENCHMARKS_SCHEDULE_INSTANCES_H

#include "fsdp/Schedule/Problem.h"

#include <functional>

namespace fsdp::benchmark {

struct Instance {
  std::string name;
  std::string family; // "random", "tiny"; of a captured model its name's first part: "llama3"
  std::function<schedule::Problem()> make; // makes the problem, without a cap
};

/// Every instance is measured under each of these caps, times the minimum peak.
inline constexpr double kCaps[] = {1.00, 1.02, 1.05, 1.2, 1.5};

/// Random instances with many ratios of communication to computation and of group sizes; some of
/// them tiny.
std::vector<Instance> makeRandomInstances();
/// Lists the files of extract-problem in the folder, one per instance, by name. Errors name the
/// folder.
std::optional<std::string> listCapturedInstances(const std::string &folder,
                                                 std::vector<Instance> &instances);

/// A decoder with `layers` of Llama-3-8B's layers, for tables over sizes.
schedule::Problem makeDeepDecoder(int layers, double tokens);

} // namespace fsdp::benchmark

#endif // FSDP_BENCHMARKS_SCHEDULE_INSTANCES_H
