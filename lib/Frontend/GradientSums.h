//===- GradientSums.h - Which additions of a backward are autograd's own -*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_GRADIENTSUMS_H
#define FSDP_LIB_FRONTEND_GRADIENTSUMS_H

#include "Graph.h"

#include <torch/csrc/autograd/function.h>

#include <deque>
#include <functional>
#include <map>
#include <vector>

namespace fsdp::frontend {

/// The gradient of a value that several calls have used: what they contribute, added up.
struct GradientSum {
  int of = 0;            // place of the call that made the value
  std::vector<int> from; // places of the calls that used it, in the order of the sum
  int last = -1;         // the node that adds the last contribution
};

/// Watches a backward. Autograd's engine adds up contributions between two nodes of its graph; an
/// addition inside a node is a part of a derivative.
class GradientSums {
public:
  /// `getPlace`: the place of the forward call that made a node, by its sequence number.
  explicit GradientSums(std::function<int(uint64_t)> getPlace) : getPlace(std::move(getPlace)) {}

  /// To be called before the backward of `loss`.
  void watch(const at::Tensor &loss);

  /// To be called for each recorded addition of the backward, with its number.
  void recordAddition(int node);

  /// Sums whose order depends on which modules are groups: FSDP2 adds up first what comes out of
  /// one call of a group's module, of which the value is an input. Parameters are no inputs.
  std::vector<GradientSum> list(const std::vector<Place> &places) const;

  /// By hooks of autograd's nodes.
  void beginNode();
  void endNode(const torch::autograd::Node &node, const torch::autograd::variable_list &outputs);

private:
  std::function<int(uint64_t)> getPlace;
  /// By the input of the node that takes the sum.
  std::map<std::pair<const torch::autograd::Node *, uint32_t>, GradientSum> sums;
  std::deque<GradientSum *> pending; // additions that the engine makes next
};

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_GRADIENTSUMS_H
