//===- ExportedArguments.h - Arguments of calls in .pt2 files ----*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_EXPORTEDARGUMENTS_H
#define FSDP_LIB_FRONTEND_EXPORTEDARGUMENTS_H

#include "ExportedGraph.h"

namespace fsdp::frontend {

/// Converts an argument to the schema type `formal`. The parts of a complex number have the dtype
/// `complexParts`. Throws CaptureError.
c10::IValue convertExportedArgument(const schema::Argument &argument, const c10::TypePtr &formal,
                                    const ExportedGraph::Values &values,
                                    at::ScalarType complexParts = at::kFloat);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_EXPORTEDARGUMENTS_H
