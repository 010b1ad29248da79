//===- Temporaries.h - Memory inside operators -------------------*- C++ -*-===//

#ifndef FSDP_COSTMODEL_TEMPORARIES_H
#define FSDP_COSTMODEL_TEMPORARIES_H

#include "fsdp/CostModel/CostModel.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp::cost {

/// What the operators of a step allocate beside the arena. They run one after another and share one
/// area, which is as large as the largest needs.
struct Temporaries {
  int64_t scratchBytes = 0; // of the calls that were measured
  unsigned numMeasured = 0, numCalls = 0;

  /// Whether no call counts as 0 bytes only because nothing measured it.
  bool areKnown() const { return numMeasured == numCalls; }
  /// "12.5 MiB, measured" and the like, for people.
  std::string describe() const;
};

/// Of all calls of a module that are no views. Linear.
Temporaries findTemporaries(mlir::ModuleOp module, const CostModel &costs);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_TEMPORARIES_H
