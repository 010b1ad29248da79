//===- Reports.h - A sweep as table, CSV, JSON and page --------------------===//

#ifndef FSDP_TOOLS_PLAN_REPORTS_H
#define FSDP_TOOLS_PLAN_REPORTS_H

#include "Fits.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp::plan_tool {

/// Facts that all points share.
struct SweepHeader {
  std::string device, costSources;
  int64_t deviceBytes = 0; // 0: unknown
  std::string missing;     // what a signal has left out; empty: nothing
};

/// Prints the Pareto-optimal points (isPareto), and those that do not fit.
void printTable(llvm::ArrayRef<SweepPoint> points, llvm::raw_ostream &os);

/// Writes all points, one line each. Times are in nanoseconds, sizes in bytes; fields are empty
/// where no schedule fits.
void writeCsv(llvm::ArrayRef<SweepPoint> points, llvm::raw_ostream &os);

void writeJson(llvm::ArrayRef<SweepPoint> points, const SweepHeader &header, llvm::raw_ostream &os);

/// Prints for each number of ranks the point with the most items per second.
void printFastest(llvm::ArrayRef<SweepPoint> points, llvm::raw_ostream &os);

/// Writes all fits, with their ways out.
void writeFitsJson(llvm::ArrayRef<Fit> fits, const SweepHeader &header, const DeviceMemory &memory,
                   llvm::raw_ostream &os);

/// Writes a page with plots of time against memory and of throughput against ranks, and the table.
void writePlanPage(llvm::ArrayRef<SweepPoint> points, const SweepHeader &header,
                   llvm::raw_ostream &os);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_REPORTS_H
