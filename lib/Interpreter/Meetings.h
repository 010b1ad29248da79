//===- Meetings.h - Ranks that meet, and their reductions -------*- C++ -*-===//

#ifndef FSDP_LIB_INTERPRETER_MEETINGS_H
#define FSDP_LIB_INTERPRETER_MEETINGS_H

#include "fsdp/Analysis/GradientDivision.h"

#include <ATen/core/Tensor.h>

namespace fsdp::interpreter {

/// The ranks that meet with `rank` along these axes of the mesh, including itself, in rank order:
/// those with the same coordinates on the other axes. Throws std::runtime_error if the mesh has no
/// such axis.
llvm::SmallVector<unsigned> findPeers(MeshOp mesh, llvm::ArrayRef<llvm::StringRef> axes,
                                      unsigned rank);

/// The index of `rank` among its peers.
unsigned findPosition(llvm::ArrayRef<unsigned> peers, unsigned rank);

/// Adds the tensors in order, each sum rounded to the dtype. An average then divides by their
/// number. Divisions are rounded to the dtype, too.
at::Tensor reduceInOrder(llvm::ArrayRef<at::Tensor> tensors, const Reduction &reduction);

} // namespace fsdp::interpreter

#endif // FSDP_LIB_INTERPRETER_MEETINGS_H
