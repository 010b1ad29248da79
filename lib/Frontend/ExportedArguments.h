//===- ExportedArguments.h - Arguments of calls in .pt2 files ----*- C++ -*-===//

#ifndef FSDP_LIB_FRONTEND_EXPORTEDARGUMENTS_H
#define FSDP_LIB_FRONTEND_EXPORTEDARGUMENTS_H

#include "ExportedGraph.h"

namespace fsdp::frontend {

/// The value of an argument in the place of the schema that `formal` types. Throws CaptureError.
c10::IValue convertExportedArgument(const schema::Argument &argument, const c10::TypePtr &formal,
                                    const ExportedGraph::Values &values);

} // namespace fsdp::frontend

#endif // FSDP_LIB_FRONTEND_EXPORTEDARGUMENTS_H
