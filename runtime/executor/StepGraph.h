//===- StepGraph.h - A whole step as one graph of the device -----*- C++ -*-===//

#ifndef FSDP_RUNTIME_STEPGRAPH_H
#define FSDP_RUNTIME_STEPGRAPH_H

#include "comm/Communicator.h"
#include "executor/Executor.h"

namespace fsdp::rt {

/// Holds the graph of a step, or the reason why there is none. Either all ranks have a graph or
/// none: collectives in a graph may use other transports than collectives that are issued one by
/// one, so the two kinds do not match.
class StepGraph {
public:
  /// Device and communicator outlive the object.
  StepGraph(Device &device, Communicator &communicator, GraphMode mode);

  /// As Executor::graphNote().
  const GraphNote &note() const { return current; }
  /// True until there is a graph or a reason against it.
  bool isOpen() const { return current.state == GraphNote::State::Open; }
  bool isReady() const { return graph != nullptr; }

  /// Refuses a graph without asking the other ranks, which must refuse it, too.
  void refuse(const std::string &reason);
  /// Called by all ranks before the same step. Captures what `issue` enqueues on `compute` and the
  /// streams that fork from it, unless a rank has an obstacle: `obstacle` is this rank's, "" if it
  /// has none. If the capture fails on one rank, no rank has a graph, nothing has run, and the step
  /// can be issued as before. An error if the ranks cannot tell each other.
  Status capture(Stream &compute, const std::string &obstacle,
                 const std::function<Status()> &issue);
  /// Enqueues the step. An error if the communicator has failed.
  Status launch(Stream &compute);

private:
  /// Tells the other ranks of this rank's obstacle, "" for none, and refuses a graph if a rank has
  /// one. An error if the ranks cannot tell each other.
  Status agreeOn(const std::string &obstacle);

  Device &device;
  Communicator &communicator;
  const std::string obstacle; // this rank's from the beginning
  GraphNote current;
  std::unique_ptr<Graph> graph;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STEPGRAPH_H
