//===- Meshes.h - The meshes that a run tries --------------------*- C++ -*-===//

#ifndef FSDP_TOOLS_PLAN_MESHES_H
#define FSDP_TOOLS_PLAN_MESHES_H

#include "PlanStep.h"

namespace fsdp::plan_tool {

/// Parses "dp=64", "dp=8,64,512" or "dp=8..16384" (powers of two times 8), each optionally after
/// "replicate=2,", and sets the names of the axes.
llvm::Error parseMeshes(llvm::StringRef mesh, PlanSettings &settings,
                        std::vector<MeshSize> &meshes);

/// Adds, for each mesh, the meshes of as many ranks with 2, 4, ... replicas of at least 2 shards.
llvm::Error addReplicas(PlanSettings &settings, std::vector<MeshSize> &meshes);

} // namespace fsdp::plan_tool

#endif // FSDP_TOOLS_PLAN_MESHES_H
