//===- KnownResults.h - Results as a machine's kernels make them -*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_KNOWNRESULTS_H
#define FSDP_LIB_FRONTEND_KNOWNRESULTS_H

#include "fsdp/Frontend/OperatorFacts.h"

#include <set>

namespace fsdp::frontend {

/// Gives the results of recorded calls the dtypes, sizes and strides that files of --operator-facts
/// say of them, where meta kernels say otherwise.
class KnownResults {
public:
  /// Throws a CaptureError that names the file. Of two facts of one result the last counts.
  explicit KnownResults(const std::vector<std::string> &paths);

  /// `results`: of a call with these arguments, on meta; tensors that share memory with an argument
  /// stay as they are.
  void apply(const c10::OperatorHandle &op, std::span<const c10::IValue> arguments,
             std::span<c10::IValue> results);

  /// What the files say of results that no recorded call has, a sentence; "" if they say nothing of
  /// such.
  std::string describeUnused() const;

private:
  OperatorFacts facts;
  std::set<const OperatorFact *> seen; // those of recorded results
};

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_KNOWNRESULTS_H
