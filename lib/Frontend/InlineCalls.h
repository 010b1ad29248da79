//===- InlineCalls.h - A TorchScript method without calls -------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_INLINECALLS_H
#define FSDP_LIB_FRONTEND_INLINECALLS_H

#include "Graph.h"

#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace fsdp::frontend {

/// Inlines all calls of a method and adds the place of each node to `places`. The index of a node's
/// place is the beginning of its source range in the returned source, which must outlive the graph.
std::shared_ptr<torch::jit::Source> inlineCalls(torch::jit::Graph &graph,
                                                std::vector<Place> &places);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_INLINECALLS_H
