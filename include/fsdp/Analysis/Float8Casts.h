//===- Float8Casts.h - Parameters that are only cast to float8 --*- C++ -*-===//

#ifndef FSDP_ANALYSIS_FLOAT8CASTS_H
#define FSDP_ANALYSIS_FLOAT8CASTS_H

#include "fsdp/Analysis/Step.h"

namespace fsdp {

/// How a captured step casts a parameter to an 8-bit float. All values are the parameter's, whole
/// views of it, and results of elementwise operators on these.
struct Float8Casts {
  Float8CastAttr cast; // null if the step does not cast the parameter to float8 at all
  llvm::SmallVector<ReadOp> reads;
  llvm::SmallVector<aten::CallOp> amaxes; // that yield the largest absolute value
  llvm::SmallVector<aten::CallOp> casts;  // that yield the float8 values
  /// Why the parameter cannot be gathered as float8, though the step casts it to float8; "" if it
  /// can be. `place` is the operation that prevents it.
  std::string problem;
  mlir::Operation *place = nullptr;

  /// True if all uses of the parameter are the largest absolute value and casts by it.
  bool canGather() const { return cast && problem.empty(); }
};

using Float8CastsByParam = llvm::DenseMap<mlir::StringAttr, Float8Casts>;

/// Parameters that the step does not cast to float8 are left out.
Float8CastsByParam findFloat8Casts(Step &step);

/// `value` again, a view or a clone of a parameter, made of `parameter`, which is the parameter in
/// another dtype. New calls are inserted at the builder's position, as in `phase`.
mlir::Value makeViewOf(mlir::OpBuilder &builder, mlir::Value value, mlir::Value parameter,
                       aten::Phase phase);

} // namespace fsdp

#endif // FSDP_ANALYSIS_FLOAT8CASTS_H
