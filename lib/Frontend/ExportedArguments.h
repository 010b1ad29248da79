//===- ExportedArguments.h - Arguments of calls in .pt2 files ----*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_EXPORTEDARGUMENTS_H
#define FSDP_LIB_FRONTEND_EXPORTEDARGUMENTS_H

#include "ExportedGraph.h"

namespace fsdp::frontend {

/// Converts an argument to the schema type `formal`. Throws CaptureError.
c10::IValue convertExportedArgument(const schema::Argument &argument, const c10::TypePtr &formal,
                                    const ExportedGraph::Values &values);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_EXPORTEDARGUMENTS_H
