//===- Temporaries.h - Memory inside operators -------------------*- C++ -*-===//

#ifndef FSDP_COSTMODEL_TEMPORARIES_H
#define FSDP_COSTMODEL_TEMPORARIES_H

#include "fsdp/CostModel/CostModel.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp::cost {

/// Memory that the operators of a step allocate outside the arena. Operators run one after another
/// and share one scratch area, as large as the largest need.
struct Temporaries {
  int64_t scratchBytes = 0; // of the measured calls
  unsigned numMeasured = 0, numCalls = 0;

  /// True if all calls were measured: a call without measurement counts as 0 bytes.
  bool areKnown() const { return numMeasured == numCalls; }
  /// For messages: "12.5 MiB, measured" and the like.
  std::string describe() const;
};

/// The temporaries of all calls of a module that are not views. Linear.
Temporaries findTemporaries(mlir::ModuleOp module, const CostModel &costs);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_TEMPORARIES_H
