//===- Jobs.cpp - Work on several threads ----------------------------------===//

#include "Jobs.h"

#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <thread>
#include <vector>

using namespace fsdp::plan_tool;

llvm::LogicalResult
fsdp::plan_tool::runJobs(size_t numItems, unsigned numJobs,
                         llvm::function_ref<llvm::LogicalResult(unsigned job, size_t item)> work) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> isFailed = false;
  auto run = [&](unsigned job) {
    for (size_t item; !isFailed && (item = next++) < numItems;)
      if (failed(work(job, item)))
        isFailed = true;
  };
  std::vector<std::thread> threads;
  for (unsigned job = 1; job < numJobs; ++job)
    threads.emplace_back(run, job);
  run(0);
  for (std::thread &thread : threads)
    thread.join();
  return llvm::success(!isFailed);
}

ProgressLine::ProgressLine(size_t numItems)
    : isShown(llvm::sys::Process::StandardErrIsDisplayed()), numItems(numItems) {}

ProgressLine::~ProgressLine() {
  if (isShown)
    llvm::errs() << "\r\033[K";
}

void ProgressLine::show(const std::string &next) {
  if (!isShown)
    return;
  std::lock_guard lock(mutex);
  llvm::errs() << "\r\033[Kfsdp-plan: " << numDone << " of " << numItems << " done; " << next;
}

void ProgressLine::countDone() {
  std::lock_guard lock(mutex);
  ++numDone;
}
