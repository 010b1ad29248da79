//===- ModelCollectives.h - Collectives of the model's own code -*- C++ -*-===//
//
// A model may have collectives of its own, over all ranks of the run. They are calls of operators
// of the namespace `fsdpc` (fsdp/Frontend/Operators.h), which run in the place where the model has
// them, on the compute stream. Collectives of parameters and gradients are operations of the fsdp
// dialect.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_MODELCOLLECTIVES_H
#define FSDP_IR_MODELCOLLECTIVES_H

#include "fsdp/IR/Aten.h"
#include "fsdp/IR/Fsdp.h"

#include <optional>

namespace fsdp {

enum class ModelCollectiveKind : uint8_t { AllReduce, AllGather, ReduceScatter };

struct ModelCollective {
  ModelCollectiveKind kind;
  ReduceOp reduceOp = ReduceOp::Sum; // an average, a sum or a maximum; of gathers: Sum
  /// The ranks that the call's types assume; 0: any number (an all-reduce).
  int64_t ranks = 0;
};

/// The collective that a call is; nullopt for other operators. `call` is valid.
std::optional<ModelCollective> getModelCollective(aten::CallOp call);

/// True for `fsdpc::own_part`, which takes this rank's row of its operand.
bool isOwnPart(aten::CallOp call);

/// Checks arguments and types of a call of one of these operators; other calls pass.
llvm::LogicalResult verifyModelCollective(aten::CallOp call);

/// Checks that a call of one of these operators is for `ranks` ranks; other calls pass.
llvm::LogicalResult checkAssumedRanks(aten::CallOp call, int64_t ranks, llvm::StringRef label);

} // namespace fsdp

#endif // FSDP_IR_MODELCOLLECTIVES_H
