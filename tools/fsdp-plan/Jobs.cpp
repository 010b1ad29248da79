//===- Jobs.cpp - Work on several threads ----------------------------------===//

#include "Jobs.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
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
    : numItems(numItems), isShown(llvm::sys::Process::StandardErrIsDisplayed()) {}

/// Overwrites the line, of which a longer one than the terminal's would leave a part.
void ProgressLine::print() {
  std::string line = llvm::formatv("fsdp-plan: {0} of {1} done; {2}", numDone, numItems, next);
  if (unsigned columns = llvm::sys::Process::StandardErrColumns(); columns > 0)
    line.resize(std::min<size_t>(line.size(), columns - 1));
  llvm::errs() << "\r\033[K" << line;
}

void ProgressLine::show(const std::string &next) {
  std::lock_guard lock(mutex);
  this->next = next;
  if (isShown)
    print();
}

void ProgressLine::keep(const std::string &outcome) {
  std::lock_guard lock(mutex);
  if (!isShown)
    return;
  llvm::errs() << "\r\033[K" << outcome << '\n';
  print();
}

void ProgressLine::countDone() {
  std::lock_guard lock(mutex);
  ++numDone;
}

void ProgressLine::end() {
  std::lock_guard lock(mutex);
  if (isShown)
    llvm::errs() << "\r\033[K";
  isShown = false;
}
