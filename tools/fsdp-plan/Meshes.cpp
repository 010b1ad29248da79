//===- Meshes.cpp - The meshes that a run tries ----------------------------===//

#include "Meshes.h"

#include "fsdp/Config/ShardingConfig.h"
#include "llvm/ADT/StringExtras.h"

using namespace fsdp;
using namespace fsdp::plan_tool;

llvm::Error fsdp::plan_tool::parseMeshes(llvm::StringRef mesh, PlanSettings &settings,
                                         std::vector<MeshSize> &meshes) {
  int64_t replicas = 1;
  auto addMesh = [&](int64_t shards) { meshes.push_back({shards, replicas}); };
  auto wrong = [&](const llvm::Twine &why) {
    return llvm::createStringError("--mesh: '" + mesh + "' " + why);
  };
  auto [axis, ranks] = mesh.split('=');
  if (ranks.contains('=')) {
    auto [number, sharded] = ranks.split(',');
    settings.replicateAxis = axis.str();
    if (number.getAsInteger(10, replicas) || replicas < 1 || replicas > (1 << 20))
      return wrong("has '" + number + "' replicas; expected a number from 1 to 1048576");
    std::tie(axis, ranks) = sharded.split('=');
  }
  if (axis.empty() || ranks.empty() || ranks.contains('='))
    return wrong("is no mesh; expected AXIS=RANKS, AXIS=8,64,512 or AXIS=8..16384, or one of these "
                 "behind replicate=R,");
  settings.axis = axis.str();
  auto parse = [](llvm::StringRef text, int64_t &value) {
    return text.getAsInteger(10, value) || value < 2 || value > kMaxRanks;
  };
  auto [first, last] = ranks.split("..");
  if (ranks.contains("..")) {
    int64_t low, high;
    if (parse(first, low) || parse(last, high) || low > high)
      return wrong("is no range of ranks; expected two numbers of at least 2, the smaller first");
    for (int64_t count = low; count <= high; count *= 2)
      addMesh(count);
  } else {
    for (llvm::StringRef text : llvm::split(ranks, ',')) {
      int64_t count;
      if (parse(text, count))
        return wrong("has '" + text + "' ranks; expected a number from 2 to " +
                     llvm::Twine(kMaxRanks));
      addMesh(count);
    }
  }
  for (MeshSize size : meshes)
    if (std::optional<std::string> problem = checkRanks({size.replicas, size.shards}))
      return wrong(*problem);
  return llvm::Error::success();
}

llvm::Error fsdp::plan_tool::addReplicas(PlanSettings &settings, std::vector<MeshSize> &meshes) {
  if (!settings.replicateAxis.empty())
    return llvm::createStringError("--hsdp tries numbers of replicas, but --mesh says one already");
  if (settings.axis == "replicate")
    return llvm::createStringError("--hsdp has an axis 'replicate'; name that of --mesh otherwise");
  settings.replicateAxis = "replicate";
  std::vector<MeshSize> split;
  for (MeshSize whole : meshes)
    for (MeshSize size = whole; size.shards >= 2; size.shards /= 2, size.replicas *= 2) {
      split.push_back(size);
      if (size.shards % 2 != 0)
        break;
    }
  meshes = std::move(split);
  return llvm::Error::success();
}
