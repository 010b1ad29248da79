//===- Meetings.h - Which ranks meet, and what they reduce -------*- C++ -*-===//

#ifndef FSDP_LIB_INTERPRETER_MEETINGS_H
#define FSDP_LIB_INTERPRETER_MEETINGS_H

#include "fsdp/Analysis/GradientDivision.h"

#include <ATen/core/Tensor.h>

namespace fsdp::interpreter {

/// The ranks that `rank` meets along these axes of the mesh, itself among them, in the order of
/// ranks: those whose coordinates on the other axes are its own. Throws std::runtime_error if the
/// mesh has no such axis.
llvm::SmallVector<unsigned> findPeers(MeshOp mesh, llvm::ArrayRef<llvm::StringRef> axes,
                                      unsigned rank);

/// Where `rank` stands among its peers.
unsigned findPosition(llvm::ArrayRef<unsigned> peers, unsigned rank);

/// Adds one tensor after another, each sum rounded to the dtype; an average then divides by their
/// number. Divisions are rounded to the dtype, too.
at::Tensor reduceInOrder(llvm::ArrayRef<at::Tensor> tensors, const Reduction &reduction);

} // namespace fsdp::interpreter

#endif // FSDP_LIB_INTERPRETER_MEETINGS_H
