//===- KnownResults.h - Results of a machine's kernels ----------*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_KNOWNRESULTS_H
#define FSDP_LIB_FRONTEND_KNOWNRESULTS_H

#include "fsdp/Frontend/OperatorFacts.h"

#include <set>

namespace fsdp::frontend {

/// Corrects dtypes, sizes and strides of the results of recorded calls by the files of
/// --operator-facts where these differ from the meta kernels.
class KnownResults {
public:
  /// Throws a CaptureError that names the file. A later fact replaces an earlier one of the same
  /// result.
  explicit KnownResults(const std::vector<std::string> &paths);

  /// `results`: those of a call with these arguments, on meta. Tensors that share memory with an
  /// argument are not changed.
  void apply(const c10::OperatorHandle &op, std::span<const c10::IValue> arguments,
             std::span<c10::IValue> results);

  /// A sentence about facts of calls that were not recorded; "" if there are none.
  std::string describeUnused() const;

private:
  OperatorFacts facts;
  std::set<const OperatorFact *> seen; // facts of recorded results
};

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_KNOWNRESULTS_H
