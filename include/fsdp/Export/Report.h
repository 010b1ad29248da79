//===- Report.h - Events and collectives of a step as JSON ------*- C++ -*-===//

#ifndef FSDP_EXPORT_REPORT_H
#define FSDP_EXPORT_REPORT_H

#include "fsdp/CostModel/CostModel.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// Writes the communication of the step of a scheduled or planned module, in program order:
///
///     {"model": "...", "phase": "scheduled", "mesh": {"dp": 2},
///      "groups": [{"group": "layers.0", "parameters": 9, "elements": 49408, "dtype": "f32"}, ...],
///      "events": [{"event": "unshard", "group": "root", "phase": "forward"}, ...],
///      "collectives": [{"kind": "all_gather", "group": "root", "phase": "forward", "dtype": "f32",
///                       "elements": 4096, "axis": "dp"}, ...],
///      "counts": {"all_gather": {"forward": 4, "backward": 3}, "reduce_scatter": {...}},
///      "bytes": {"all_gather": {"forward": ..., "backward": ...}, "reduce_scatter": {...}},
///      "prediction": {"step_ns": ..., "compute_ns": ..., "exposed_ns": ...,
///        "bound_ns": ..., "bound_kind": "fluid", "ratio": 1.002,
///        "jitter": {"mean_ns": ..., "percentile95_ns": ..., "draws": 200, "seed": 0,
///                   "compute_spread": 0.02, "network_spread": 0.1},
///        "peak_bytes": ..., "peak_at": {"operation": 181, "callee": "mm.default", ...},
///        "arena_bytes": ..., "temporaries": {"scratch_bytes": ..., "known": true, "source":
///        "..."}, "device_bytes": ..., "launches": [{"kind": "all_gather", "groups": ["layers.0",
///        "layers.1"],
///                      "start_ns": ..., "end_ns": ..., "exposed_ns": ...}, ...],
///        "memory": {"time_ns": [...], "bytes": {"shard": [...], ...}},
///        "costs": "roofline of ..."}}
///
/// `event` is unshard (a gather starts), reshard (a group is resharded) or post_backward (a
/// reduction starts); one rank has no events. `elements` and `bytes` are those of the collectives'
/// inputs on one rank, padding included, as torch counts: the shard of an all_gather, the whole
/// group of a reduce_scatter. A group's `elements` are those of its parameters, without padding.
///
/// The prediction is a simulation with the durations of `costs`. `bound_ns` is a lower bound for
/// all schedules with the same updates (under the cap, if this schedule respects it). `jitter` is
/// written if `costs` has deviations of durations: mean and 95th percentile of as many draws.
/// `device_bytes` are the arena and, as far as operators are measured, their scratch area.
/// `exposed_ns` is the time that computation waits for a launch. Memory is given at each change, by
/// category. Errors describe a problem of the module's groups or of the order of waits.
struct PredictionOptions {
  std::optional<int64_t> memoryCapBytes;
};
mlir::LogicalResult writeReport(mlir::ModuleOp module, const cost::CostModel &costs,
                                const PredictionOptions &options, llvm::raw_ostream &os);

} // namespace fsdp

#endif // FSDP_EXPORT_REPORT_H
