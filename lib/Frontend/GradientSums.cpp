//===- GradientSums.cpp - Gradient sums of autograd's engine --------------===//

#include "GradientSums.h"

#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <unordered_set>

using namespace fsdp::frontend;
using torch::autograd::Node;
using torch::autograd::variable_list;

namespace {
struct Before : torch::autograd::FunctionPreHook {
  explicit Before(GradientSums &sums) : sums(sums) {}
  variable_list operator()(const variable_list &gradients) override {
    sums.beginNode();
    return gradients;
  }
  GradientSums &sums;
};

struct After : torch::autograd::FunctionPostHook {
  After(GradientSums &sums, const Node &node) : sums(sums), node(node) {}
  variable_list operator()(const variable_list &outputs, const variable_list &) override {
    sums.endNode(node, outputs);
    return outputs;
  }
  GradientSums &sums;
  const Node &node;
};
} // namespace

void GradientSums::watch(const at::Tensor &loss) {
  std::unordered_set<Node *> seen;
  std::vector<Node *> worklist{loss.grad_fn().get()};
  while (!worklist.empty()) {
    Node *node = worklist.back();
    worklist.pop_back();
    if (!node || !seen.insert(node).second)
      continue;
    node->add_pre_hook(std::make_unique<Before>(*this));
    node->add_post_hook(std::make_unique<After>(*this, *node));
    for (const torch::autograd::Edge &edge : node->next_edges())
      worklist.push_back(edge.function.get());
  }
}

void GradientSums::beginNode() {
  TORCH_CHECK(pending.empty(), "autograd has added up gradients in an unknown way");
}

void GradientSums::endNode(const Node &node, const variable_list &outputs) {
  int place = getPlace(node.sequence_nr());
  for (size_t i = 0; i < outputs.size() && i < node.num_outputs(); ++i) {
    const torch::autograd::Edge &edge = node.next_edge(i);
    if (!edge.is_valid() || !outputs[i].defined())
      continue;
    bool isLeaf = edge.function->num_outputs() == 0;
    auto [entry, isFirst] = sums.try_emplace({edge.function.get(), edge.input_nr});
    GradientSum &sum = entry->second;
    sum.of = isLeaf ? -1 : getPlace(edge.function->sequence_nr());
    sum.from.push_back(place);
    if (!isFirst)
      pending.push_back(&sum);
  }
}

void GradientSums::recordAddition(int node) {
  if (pending.empty())
    return; // an addition within a derivative
  pending.front()->last = node;
  pending.pop_front();
}

/// The modules around a call, outermost first: names and call numbers.
static std::vector<std::pair<std::string, int64_t>> listModules(const Place &place) {
  std::vector<std::pair<std::string, int64_t>> modules;
  for (size_t begin = 0; begin < place.module.size();) {
    size_t end = std::min(place.module.find('.', begin), place.module.size());
    int64_t call = modules.size() < place.calls.size() ? place.calls[modules.size()] : 0;
    modules.emplace_back(place.module.substr(begin, end - begin), call);
    begin = end + 1;
  }
  return modules;
}

/// The number of module calls that contain both calls.
static size_t countCommon(const Place &a, const Place &b) {
  auto ofA = listModules(a), ofB = listModules(b);
  auto [end, _] = std::mismatch(ofA.begin(), ofA.end(), ofB.begin(), ofB.end());
  return end - ofA.begin();
}

/// True if a module call that does not contain the value's origin may contribute two adjacent
/// summands other than the first two, which FSDP2 would add first.
static bool dependsOnGroups(const GradientSum &sum, const std::vector<Place> &places) {
  for (size_t i = 1; i + 1 < sum.from.size(); ++i) {
    const Place &place = places[sum.from[i]];
    size_t common = countCommon(place, places[sum.from[i + 1]]);
    if (common > countCommon(place, places[sum.of]) &&
        common > countCommon(place, places[sum.from[i - 1]]))
      return true;
  }
  return false;
}

std::vector<GradientSum> GradientSums::list(const std::vector<Place> &places) const {
  std::vector<GradientSum> listed;
  for (const auto &[_, sum] : sums)
    if (sum.of >= 0 && sum.last >= 0 && dependsOnGroups(sum, places))
      listed.push_back(sum);
  return listed;
}
