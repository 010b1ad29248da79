//===- Report.h - Events and collectives of a step as JSON ------*- C++ -*-===//

#ifndef FSDP_EXPORT_REPORT_H
#define FSDP_EXPORT_REPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// Writes what the step of a scheduled or planned module communicates, in program order:
///
///     {"model": "...", "phase": "scheduled", "mesh": {"dp": 2},
///      "groups": [{"group": "layers.0", "parameters": 9, "elements": 49408, "dtype": "f32"}, ...],
///      "events": [{"event": "unshard", "group": "root", "phase": "forward"}, ...],
///      "collectives": [{"kind": "all_gather", "group": "root", "phase": "forward", "dtype": "f32",
///                       "elements": 4096, "axis": "dp"}, ...],
///      "counts": {"all_gather": {"forward": 4, "backward": 3}, "reduce_scatter": {...}},
///      "bytes": {"all_gather": {"forward": ..., "backward": ...}, "reduce_scatter": {...}}}
///
/// `event` is unshard (a gather starts), reshard (a group is released) or post_backward (a reduction
/// starts); on one rank there is none. `elements` and `bytes` are those of the collectives' inputs on
/// one rank, padding included, as torch counts: the shard of an all_gather, the whole group of a
/// reduce_scatter. A group's `elements` are those of its parameters, without padding. Errors name
/// what is wrong with the module's groups.
mlir::LogicalResult writeReport(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace fsdp

#endif // FSDP_EXPORT_REPORT_H
