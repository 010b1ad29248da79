//===- Pipelines.h - From a captured to a planned step ----------*- C++ -*-===//

#ifndef FSDP_PASSES_PIPELINES_H
#define FSDP_PASSES_PIPELINES_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

#include <string>

namespace fsdp {

/// What of the forward is computed again in the backward instead of being kept.
enum class RecomputePolicy { None, Cheap };

/// What a user chooses. Empty strings mean: as the YAML file says, else the default.
struct PipelineOptions : mlir::PassPipelineOptions<PipelineOptions> {
  Option<std::string> config{*this, "config", llvm::cl::desc("YAML file with mesh and groups")};
  Option<std::string> mesh{*this, "mesh", llvm::cl::desc("Device mesh as AXIS=RANKS")};
  Option<std::string> reshardAfterForward{*this, "reshard-after-forward",
                                          llvm::cl::desc("true, false or none")};
  Option<std::string> layout{*this, "layout", llvm::cl::desc("flat or per-param")};
  Option<std::string> prefetch{*this, "prefetch", llvm::cl::desc("fsdp2 or none")};
  Option<RecomputePolicy> recompute{
      *this, "recompute", llvm::cl::init(RecomputePolicy::Cheap),
      llvm::cl::desc(
          "What the backward computes again instead of keeping it; the bits are the same"),
      llvm::cl::values(clEnumValN(RecomputePolicy::Cheap, "cheap",
                                  "results that cost about as much to compute as to read"),
                       clEnumValN(RecomputePolicy::None, "none", "nothing"))};
  Option<std::string> report{*this, "report",
                             llvm::cl::desc("Write events and collectives to this JSON file")};
  Option<int64_t> memoryCap{
      *this, "memory-cap", llvm::cl::init(0),
      llvm::cl::desc("Refuse an arena of more than this many bytes; 0: no cap")};
  Option<ModulePhase> upTo{*this, "up-to", llvm::cl::init(ModulePhase::Planned),
                           llvm::cl::desc("Last phase"),
                           llvm::cl::values(clEnumValN(ModulePhase::Sharded, "sharded", ""),
                                            clEnumValN(ModulePhase::Scheduled, "scheduled", ""),
                                            clEnumValN(ModulePhase::Planned, "planned", ""))};
  Option<bool> verify{*this, "verify", llvm::cl::init(true),
                      llvm::cl::desc("Check the module after every phase")};
};

/// Adds the passes from captured to `options.upTo`, with a phase verifier after each phase.
void buildPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

/// Registers `--fsdp-pipeline`.
void registerFsdpPipelines();

} // namespace fsdp

#endif // FSDP_PASSES_PIPELINES_H
