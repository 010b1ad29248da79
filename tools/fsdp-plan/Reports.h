//===- Reports.h - A sweep as table, CSV, JSON and page --------------------===//

#ifndef FSDP_TOOLS_PLAN_REPORTS_H
#define FSDP_TOOLS_PLAN_REPORTS_H

#include "Sweep.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp::plan_tool {

/// What all points have in common.
struct SweepHeader {
  std::string device, costSources;
  int64_t deviceBytes = 0; // 0: unknown
};

/// The points worth having (isPareto), and those that do not fit.
void printTable(llvm::ArrayRef<SweepPoint> points, llvm::raw_ostream &os);

/// All points, one line each. Times are nanoseconds, sizes bytes; empty where nothing fits.
void writeCsv(llvm::ArrayRef<SweepPoint> points, llvm::raw_ostream &os);

void writeJson(llvm::ArrayRef<SweepPoint> points, const SweepHeader &header, llvm::raw_ostream &os);

/// A page with the plot of time against memory, that of throughput against ranks, and the table.
void writePlanPage(llvm::ArrayRef<SweepPoint> points, const SweepHeader &header,
                   llvm::raw_ostream &os);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_REPORTS_H
