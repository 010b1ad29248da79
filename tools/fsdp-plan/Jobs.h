//===- Jobs.h - Work on several threads --------------------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_JOBS_H
#define FSDP_TOOLS_PLAN_JOBS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/LogicalResult.h"

#include <cstddef>
#include <mutex>
#include <string>

namespace fsdp::plan_tool {

/// Calls `work(job, item)` for the items 0 to `numItems` - 1, in this order, on `numJobs` threads;
/// `job` is the thread's number. After a failure no further item is begun.
llvm::LogicalResult
runJobs(size_t numItems, unsigned numJobs,
        llvm::function_ref<llvm::LogicalResult(unsigned job, size_t item)> work);

/// Progress on a terminal: outcomes, and below them a line that each message overwrites. May be
/// used by several threads.
class ProgressLine {
public:
  explicit ProgressLine(size_t numItems);
  ~ProgressLine() { end(); }

  /// Shows what a thread does next, behind the number of items that are done.
  void show(const std::string &next);
  /// Shows an outcome for good.
  void keep(const std::string &outcome);
  void countDone();
  /// Removes the line. Nothing is shown from here on.
  void end();

private:
  void print();

  const size_t numItems;
  std::mutex mutex; // of what follows, and of the terminal
  bool isShown;
  size_t numDone = 0;
  std::string next;
};

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_JOBS_H
