//===- StepGraph.h - A whole step as one graph of the device -----*- C++ -*-===//

#ifndef FSDP_RUNTIME_STEPGRAPH_H
#define FSDP_RUNTIME_STEPGRAPH_H

#include "comm/Communicator.h"
#include "executor/Executor.h"

namespace fsdp::rt {

/// Holds the graph of a step, or the reason why there is none.
class StepGraph {
public:
  /// `obstacle`: why there can be none; "" if there may be one. The others outlive the object.
  StepGraph(Device &device, Communicator &communicator, GraphMode mode,
            const std::string &obstacle);

  /// As Executor::graphNote().
  const GraphNote &note() const { return current; }
  /// True until there is a graph or a reason against it.
  bool isOpen() const { return current.state == GraphNote::State::Open; }
  bool isReady() const { return graph != nullptr; }

  void refuse(const std::string &reason);
  /// Captures what `issue` enqueues on `compute` and the streams that fork from it. If that fails,
  /// nothing has run, and the step can be issued as before.
  void capture(Stream &compute, const std::function<Status()> &issue);
  /// Enqueues the step. An error if the communicator has failed.
  Status launch(Stream &compute);

private:
  Device &device;
  Communicator &communicator;
  GraphNote current;
  std::unique_ptr<Graph> graph;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STEPGRAPH_H
