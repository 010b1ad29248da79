//===- LabelSearch.cpp - Searches all plans of a small problem ------------===//

#include "LabelSearch.h"

#include "LabelBound.h"
#include "LabelExpansion.h"

#include <algorithm>

using namespace fsdp::schedule;

namespace {

class Search {
public:
  Search(const LabelProblem &problem, double targetNs, int64_t limit)
      : problem(problem), targetNs(targetNs), limit(limit), bound(problem),
        expansion(
            problem,
            [this](uint32_t operation, double startNs) {
              return startNs + bound.getTailNs(operation) >= this->targetNs;
            },
            [this](Label &&label, const LabelStep &step) { return add(std::move(label), step); }) {}
  LabelSearchResult run();

private:
  /// A label's predecessor and step.
  struct Node {
    int32_t parent;
    LabelStep step;
  };

  bool add(Label &&label, const LabelStep &step);
  Plan makePlan(const Label &label) const;

  const LabelProblem &problem;
  const double targetNs;
  const int64_t limit;
  LabelBound bound;
  LabelExpansion expansion;
  uint32_t position = 0;
  const Label *parent = nullptr;
  LabelLayer layer; // before the next position
  std::vector<Node> nodes;
  int64_t looked = 0;
};

} // namespace

bool Search::add(Label &&label, const LabelStep &step) {
  if (looked == limit)
    return false;
  ++looked;
  label.boundNs = std::max(parent->boundNs, bound(label, position + 1));
  if (label.boundNs < targetNs) {
    nodes.push_back({parent->node, step});
    label.node = int32_t(nodes.size()) - 1;
    layer.add(std::move(label));
  }
  return true;
}

static std::vector<uint32_t> listMembers(Set set) {
  std::vector<uint32_t> members;
  forEachMember(set, [&](uint32_t member) { members.push_back(member); });
  return members;
}

Plan Search::makePlan(const Label &label) const {
  std::vector<const LabelStep *> steps;
  for (int32_t node = label.node; node >= 0; node = nodes[node].parent)
    steps.push_back(&nodes[node].step);
  std::reverse(steps.begin(), steps.end());
  Plan plan;
  plan.kept.assign(problem.uses.size(), 1);
  size_t waited = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    auto position = uint32_t(i);
    for (uint32_t j = 0; j < steps[i]->waits; ++j)
      plan.reductions[waited++].wait = position;
    for (const LabelStep::Reduce &reduce : steps[i]->reductions) {
      plan.reductions.push_back({listMembers(reduce.members), position, position});
      waited += reduce.waits;
    }
    for (Set bucket : steps[i]->gathers) {
      plan.gathers.push_back({listMembers(bucket), position});
      forEachMember(bucket, [&](uint32_t use) { plan.kept[use] = 0; });
    }
  }
  return plan;
}

LabelSearchResult Search::run() {
  LabelSearchResult result;
  result.boundNs = targetNs;
  Label root;
  root.boundNs = bound(root, 0);
  std::vector<Label> labels;
  if (root.boundNs < targetNs)
    labels.push_back(root);
  for (; position < problem.items.size(); ++position) {
    for (size_t i = 0; i < labels.size(); ++i) {
      parent = &labels[i];
      expansion.expand(labels[i], position);
      if (looked < limit)
        continue;
      // Not expanded completely: this label, those after it, and the next layer.
      for (; i < labels.size(); ++i)
        result.boundNs = std::min(result.boundNs, labels[i].boundNs);
      result.boundNs = layer.leastBoundNs(result.boundNs);
      result.labels = looked;
      return result;
    }
    labels = layer.take();
  }
  result.isComplete = true;
  result.labels = looked;
  for (const Label &label : labels)
    if (label.nowNs < result.boundNs) {
      result.boundNs = label.nowNs;
      result.plan = makePlan(label);
    }
  return result;
}

LabelSearchResult fsdp::schedule::searchLabels(const LabelProblem &problem, double targetNs,
                                               int64_t labelLimit) {
  return Search(problem, targetNs, labelLimit).run();
}
