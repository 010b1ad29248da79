//===- HostPlaces.cpp - What lies where on the host -----------------------===//

#include "fsdp/Analysis/HostPlaces.h"

#include "fsdp/Plan/ArenaPlanner.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::checkHostPlaces(ModuleOp module, const GroupTable &groups) {
  auto arena = module->getAttrOfType<IntegerAttr>(FsdpDialect::getHostArenaAttrName());
  int64_t arenaBytes = arena ? arena.getInt() : 0;
  unsigned numStates = 0;
  if (auto optimizers = module.getOps<OptimizerOp>(); !optimizers.empty())
    numStates = getNumOptimizerStates(*optimizers.begin());
  struct Placed {
    int64_t begin, end;
    GroupOp group;
    std::string name;
  };
  std::vector<Placed> placed;
  for (const GroupInfo &group : groups.getGroups()) {
    GroupOp op = group.op;
    // Their numbers are equal: explainPlaces().
    for (auto [begin, part] : llvm::zip(group.getHostPlaces(), group.getHostParts(numStates)))
      placed.push_back(
          {begin, begin + part.bytes, op, (part.name + " of @" + op.getSymName()).str()});
  }
  llvm::stable_sort(placed, [](const Placed &a, const Placed &b) { return a.begin < b.begin; });
  for (auto [index, part] : llvm::enumerate(placed)) {
    if (part.begin < 0 || part.end > arenaBytes || part.begin % plan::kArenaAlignmentBytes != 0)
      return part.group.emitOpError("P5: ")
             << part.name << " at bytes [" << part.begin << ", " << part.end
             << ") of the host's arena of " << arenaBytes << " bytes, expected within it, at a "
             << "multiple of " << plan::kArenaAlignmentBytes;
    if (index > 0 && part.begin < placed[index - 1].end) {
      InFlightDiagnostic diag = part.group.emitOpError("P5: ")
                                << part.name << " at bytes [" << part.begin << ", " << part.end
                                << ") of the host's arena overlaps " << placed[index - 1].name;
      diag.attachNote(placed[index - 1].group.getLoc()) << "which is declared here";
      return diag;
    }
  }
  return success();
}
