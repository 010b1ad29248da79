//===- GradientSums.h - Gradient sums of autograd's engine ------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_GRADIENTSUMS_H
#define FSDP_LIB_FRONTEND_GRADIENTSUMS_H

#include "Graph.h"

#include <torch/csrc/autograd/function.h>

#include <deque>
#include <functional>
#include <map>
#include <vector>

namespace fsdp::frontend {

/// The gradient of a value that several calls use: the sum of their contributions.
struct GradientSum {
  int of = 0;            // place of the call that computes the value
  std::vector<int> from; // places of the calls that use it, in the order of the sum
  int last = -1;         // the node that adds the last contribution
};

/// Observes a backward. Autograd's engine adds contributions between two nodes of its graph. An
/// addition within a node belongs to a derivative.
class GradientSums {
public:
  /// `getPlace`: the place of the forward call that made an autograd node, by its sequence number.
  explicit GradientSums(std::function<int(uint64_t)> getPlace) : getPlace(std::move(getPlace)) {}

  /// Call before the backward of `loss`.
  void watch(const at::Tensor &loss);

  /// Call for each recorded addition of the backward, with its node number.
  void recordAddition(int node);

  /// Sums whose order depends on the grouping: if the value is an input of a group's module, FSDP2
  /// first adds the contributions of one call of that module. Parameters are not inputs.
  std::vector<GradientSum> list(const std::vector<Place> &places) const;

  /// Hooks of autograd's nodes.
  void beginNode();
  void endNode(const torch::autograd::Node &node, const torch::autograd::variable_list &outputs);

private:
  std::function<int(uint64_t)> getPlace;
  /// By the input of the autograd node that receives the sum.
  std::map<std::pair<const torch::autograd::Node *, uint32_t>, GradientSum> sums;
  std::deque<GradientSum *> pending; // the next additions of the engine
};

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_GRADIENTSUMS_H
