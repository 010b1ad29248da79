//===- Fits.h - Whether a step fits a device's memory --------- -*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_FITS_H
#define FSDP_TOOLS_PLAN_FITS_H

#include "Sweep.h"
#include "fsdp/Explain/ScheduleView.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp::plan_tool {

struct FitOptions {
  int64_t capBytes = 0; // of device memory, for the arena and for what operators allocate beside it
  int64_t reservedBytes = 0; // part of capBytes, for the driver and libraries
  RecomputePolicy recompute = RecomputePolicy::Auto;
  OffloadPolicy offload = OffloadPolicy::Auto;
  OffloadPolicy activations = OffloadPolicy::None;
  cost::CostOptions costs; // those of the cost model
};

/// The outcome for one captured step on one mesh, compiled under the cap as fsdpc compiles it.
struct Fit {
  std::string model;
  int64_t ranks = 0, replicas = 1;
  /// Why the step does not fit, then what would help, one line each; empty if it fits.
  std::vector<std::string> refusal;
  // The members below are set only if the step fits.
  std::vector<std::string> choices;    // "recompute full in 3 of 33 groups"
  explain::MemoryBytes peakBytes = {}; // by category, at the peak
  int64_t arenaBytes = 0, scratchBytes = 0, reservedBytes = 0;
  bool areTemporariesKnown = false;
  double stepNs = 0, peakNs = 0; // as in SweepPoint
  int64_t itemsPerStep = 0;      // all ranks together
  std::string item;              // "tokens" or "samples"

  int64_t getNeededBytes() const { return arenaBytes + scratchBytes + reservedBytes; }
};

/// Tries the module on each number of ranks. Diagnoses any error but a step that does not fit.
mlir::FailureOr<std::vector<Fit>> findFits(mlir::ModuleOp captured, const std::string &model,
                                           const cost::CostModel &costs, const SweepOptions &sweep,
                                           const FitOptions &options);

/// Prints for each fit a line with yes or no, and what the memory is used for or what would help.
void printFits(llvm::ArrayRef<Fit> fits, int64_t capBytes, llvm::raw_ostream &os);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_FITS_H
