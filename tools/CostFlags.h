//===- CostFlags.h - Command-line flags of the cost model --------*- C++ -*-===//

#ifndef FSDP_TOOLS_COSTFLAGS_H
#define FSDP_TOOLS_COSTFLAGS_H

#include "fsdp/CostModel/CostModel.h"

#include <CLI/CLI.hpp>

namespace fsdp {

/// --device, --profile, --network, --compute-jitter and --network-jitter, which CostModel::create
/// checks.
inline void addCostFlags(CLI::App &app, cost::CostOptions &options) {
  app.add_option("--device", options.device,
                 "device whose durations predict the step: h100, h200, b200, a100, cpu (the "
                 "profile's, or cpu)");
  app.add_option("--profile", options.profile, "durations measured by fsdp-profile (JSON)");
  app.add_option(
      "--network", options.network,
      "network whose durations predict collectives: a preset or a JSON file (the device's)");
  app.add_option("--compute-jitter", options.computeJitter,
                 "relative standard deviation of operations' durations, percent (the profile's, "
                 "else unknown)");
  app.add_option("--network-jitter", options.networkJitter,
                 "relative standard deviation of collectives' durations, percent (the network's, "
                 "else unknown)");
}

} // namespace fsdp

#endif // FSDP_TOOLS_COSTFLAGS_H
