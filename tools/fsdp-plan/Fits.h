//===- Fits.h - Whether a step fits a device's memory --------- -*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_FITS_H
#define FSDP_TOOLS_PLAN_FITS_H

#include "Sweep.h"
#include "Words.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp::plan_tool {

/// The memory of a device, in bytes.
struct DeviceMemory {
  int64_t bytes = 0;
  int64_t reservedBytes = 0; // part of it, for the driver and libraries

  int64_t getCapBytes() const { return bytes - reservedBytes; }
};

/// A change of a step that does not fit, and its outcome.
struct WayOut {
  std::string change; // "--offload-activations auto", "16 ranks"
  SweepPoint point;
};

/// Whether a step fits.
struct Fit {
  SweepPoint point;
  // If the step does not fit:
  std::optional<PlannedStep> least; // the step under the least cap that is known to be enough
  std::vector<WayOut> ways;         // those that fit, the fewest device hours first; then others
};

/// Tries the request under the cap that the device leaves. Diagnoses errors of the module.
llvm::LogicalResult findFit(const PointPlanner &planner, PointRequest request,
                            const DeviceMemory &memory, const Listener<Fit> &listener);

/// The outcome of the point itself.
inline std::string describeOutcome(const Fit &fit) { return describeOutcome(fit.point); }

/// Prints for each fit a line with yes or no, what the memory is used for, and what would help.
void printFits(llvm::ArrayRef<Fit> fits, const DeviceMemory &memory, llvm::raw_ostream &os);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_FITS_H
