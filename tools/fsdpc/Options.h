//===- Options.h - Command-line options of fsdpc -----------------*- C++ -*-===//

#ifndef FSDP_TOOLS_FSDPC_OPTIONS_H
#define FSDP_TOOLS_FSDPC_OPTIONS_H

#include "ProgramSteps.h"
#include "fsdp/CostModel/CostModel.h"
#include "fsdp/Export/EmitObject.h"
#include "fsdp/Frontend/CommandLine.h"
#include "passes/Passes.h"

namespace fsdp {

struct Options {
  frontend::CaptureFlags capture;
  ProgramFlags program;
  std::string config, reshardAfterForward, layout, prefetch, recompute = "auto", report,
                                                             decisionLog;
  std::string shardPlacement, offloadPolicy;
  Transport transport = Transport::Kernels;
  std::vector<std::string> meshes = {""}; // "": the YAML file's
  std::string offloadOptimizer = "none", offloadActivations = "none", offloadChunks = "none";
  std::string reduceDtype;
  int64_t microbatches = 0; // 0: the YAML file's
  std::string microbatchLoss, microbatchOrder, stages, gradientSync, reshardAfterBackward,
      splitRoot, splitBlocks;
  FusionChoice fusion = FusionChoice::Auto;
  std::string schedule = "fsdp2", memoryCap = "0", maxBucketSize = "0";
  cost::CostOptions costs;
  uint64_t seed = 0;
  int64_t budget = 3000;
  bool buckets = true;
  std::string output, weights, saveTemps;
  LinkOptions link;
  bool quiet = false;
};

/// The path of `file` in the folder of --save-temps.
std::string inTemps(const Options &options, llvm::StringRef file);

/// Prefix of the files that --save-temps keeps for a mesh; "" for the first mesh.
std::string getPrefix(size_t mesh);

OffloadChoices getOffload(const Options &options);
OffloadPolicy getChunkOffload(const Options &options);
ScheduleChoice getSchedule(const Options &options);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPC_OPTIONS_H
