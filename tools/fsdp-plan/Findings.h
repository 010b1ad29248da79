//===- Findings.h - What searches have found so far --------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_FINDINGS_H
#define FSDP_TOOLS_PLAN_FINDINGS_H

#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace fsdp::plan_tool {

/// Whom a search tells what it does.
template <typename Result> struct Listener {
  /// Called before each part of the search, with what it is about.
  std::function<void(const std::string &next)> begins;
  std::function<void(Result)> found;
};

/// What the searches of a run have found. May be used by several threads.
template <typename Result> class Findings {
public:
  struct Found {
    std::vector<std::vector<Result>> bySearch;
    size_t numDone = 0; // searches that have found all
  };

  explicit Findings(size_t numSearches) { now.bySearch.resize(numSearches); }

  void add(size_t search, Result result) {
    std::lock_guard lock(mutex);
    now.bySearch[search].push_back(std::move(result));
  }
  void countDone() {
    std::lock_guard lock(mutex);
    ++now.numDone;
  }
  Found get() const {
    std::lock_guard lock(mutex);
    return now;
  }

private:
  mutable std::mutex mutex;
  Found now;
};

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_FINDINGS_H
