//===- Fits.h - Whether a step fits a device's memory, and how --*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_FITS_H
#define FSDP_TOOLS_PLAN_FITS_H

#include "Sweep.h"
#include "fsdp/Explain/ScheduleView.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp::plan_tool {

struct FitOptions {
  int64_t capBytes = 0;      // of the device, what operators allocate beside the arena included
  int64_t reservedBytes = 0; // of these, for the driver and libraries
  RecomputePolicy recompute = RecomputePolicy::Auto;
  OffloadPolicy offload = OffloadPolicy::Auto;
  OffloadPolicy activations = OffloadPolicy::None;
  cost::CostOptions costs; // those of the cost model
};

/// One captured step, compiled for one mesh under the cap as fsdpc compiles it.
struct Fit {
  std::string model;
  int64_t ranks = 0, replicas = 1;
  /// Why it does not fit, then what would help, a line each; empty: it fits.
  std::vector<std::string> refusal;
  // What follows is of a step that fits.
  std::vector<std::string> choices;    // "recompute full in 3 of 33 groups"
  explain::MemoryBytes peakBytes = {}; // by category, where the most is live
  int64_t arenaBytes = 0, scratchBytes = 0, reservedBytes = 0;
  bool areTemporariesKnown = false;
  double stepNs = 0, peakNs = 0; // as a sweep's
  int64_t itemsPerStep = 0;      // all ranks together
  std::string item;              // "tokens" or "samples"

  int64_t getNeededBytes() const { return arenaBytes + scratchBytes + reservedBytes; }
};

/// Tries the module on each number of ranks. Diagnoses what is wrong with it, but for its size.
mlir::FailureOr<std::vector<Fit>> findFits(mlir::ModuleOp captured, const std::string &model,
                                           const cost::CostModel &costs, const SweepOptions &sweep,
                                           const FitOptions &options);

/// For each a line that says yes or no, and what the memory is used for or what would help.
void printFits(llvm::ArrayRef<Fit> fits, int64_t capBytes, llvm::raw_ostream &os);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_FITS_H
