//===- HostPlaces.cpp - Where optimizer state lies on the host ------------===//

#include "fsdp/Analysis/HostPlaces.h"

#include "fsdp/Plan/ArenaPlanner.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::checkHostPlaces(ModuleOp module, const GroupTable &groups) {
  auto arena = module->getAttrOfType<IntegerAttr>(FsdpDialect::getHostArenaAttrName());
  int64_t arenaBytes = arena ? arena.getInt() : 0;
  struct State {
    int64_t begin, end;
    GroupOp group;
  };
  SmallVector<State> states;
  for (const GroupInfo &group : groups.getGroups()) {
    GroupOp op = group.op;
    ArrayRef<int64_t> places;
    if (op.getPlacesAttr())
      places = op.getPlacesAttr().getHostStates();
    for (int64_t begin : places)
      states.push_back({begin, begin + group.states.shardBytes, op});
  }
  llvm::stable_sort(states, [](const State &a, const State &b) { return a.begin < b.begin; });
  for (auto [index, state] : llvm::enumerate(states)) {
    if (state.begin < 0 || state.end > arenaBytes || state.begin % plan::kArenaAlignmentBytes != 0)
      return state.group.emitOpError("P5: optimizer state of @")
             << state.group.getSymName() << " at bytes [" << state.begin << ", " << state.end
             << ") of the host's arena of " << arenaBytes << " bytes, expected within it, at a "
             << "multiple of " << plan::kArenaAlignmentBytes;
    if (index > 0 && state.begin < states[index - 1].end) {
      InFlightDiagnostic diag = state.group.emitOpError("P5: optimizer state of @")
                                << state.group.getSymName() << " at bytes [" << state.begin << ", "
                                << state.end << ") of the host's arena overlaps that of @"
                                << states[index - 1].group.getSymName();
      diag.attachNote(states[index - 1].group.getLoc()) << "which is declared here";
      return diag;
    }
  }
  return success();
}
