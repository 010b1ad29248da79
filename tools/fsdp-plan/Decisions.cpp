//===- Decisions.cpp - Decisions for the groups of a step, in words -------===//

#include "Point.h"
#include "fsdp/Explain/Quantities.h"
#include "llvm/ADT/StringExtras.h"

using namespace fsdp;
using namespace fsdp::explain;
using namespace fsdp::plan_tool;

static std::string count(size_t groups) { return formatCount(static_cast<int64_t>(groups)); }

std::vector<std::string> GroupDecisions::describe() const {
  auto share = [&](size_t groups) {
    return groups == numGroups ? std::string()
                               : " in " + count(groups) + " of " + count(numGroups) + " groups";
  };
  std::vector<std::string> words;
  for (auto [policy, groups] : recomputed)
    words.push_back("recompute " + stringifyRecomputePolicy(policy).str() + share(groups));
  if (stateOnHost > 0)
    words.push_back("optimizer state on the host" + share(stateOnHost));
  if (activationsOnHost > 0)
    words.push_back("activations on the host" + share(activationsOnHost));
  if (chunksOnHost > 0)
    words.push_back("chunks on the host" + share(chunksOnHost));
  return words;
}

std::string GroupDecisions::describeRecomputed() const {
  std::vector<std::string> words;
  for (auto [policy, groups] : recomputed) {
    std::string name = stringifyRecomputePolicy(policy).str();
    words.push_back(groups == numGroups ? name : name + " " + count(groups));
  }
  return llvm::join(words, ", ");
}

std::string GroupDecisions::describeOnHost() const {
  std::vector<std::string> words;
  for (auto [name, groups] : {std::pair("state", stateOnHost),
                              {"activations", activationsOnHost},
                              {"chunks", chunksOnHost}})
    if (groups > 0)
      words.push_back(groups == numGroups ? name : name + (" " + count(groups)));
  return words.empty() ? "-" : llvm::join(words, ", ");
}
