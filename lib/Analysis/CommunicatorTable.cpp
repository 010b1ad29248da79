//===- CommunicatorTable.cpp - Ranks and streams of collectives -----------===//

#include "fsdp/Analysis/CommunicatorTable.h"

#include "fsdp/Analysis/Step.h"
#include "fsdp/IR/ModelCollectives.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

FailureOr<Meeting> fsdp::getMeeting(CollectiveOpInterface start, MeshOp mesh) {
  ArrayRef<int64_t> sizes = mesh.getSizes();
  SmallVector<StringRef> axes(start.getAxes().getAsValueRange<StringAttr>());
  Meeting meeting;
  bool hasBegun = false, hasEnded = false;
  // The last axis varies fastest.
  for (auto [axis, size] : llvm::reverse(llvm::zip_equal(mesh.getAxes(), sizes))) {
    if (llvm::is_contained(axes, cast<StringAttr>(axis).getValue())) {
      if (hasEnded)
        return start.emitError("communicates over axes that are not adjacent in the mesh");
      hasBegun = true;
      meeting.ranks *= size;
    } else if (hasBegun) {
      hasEnded = true;
    } else {
      meeting.stride *= size;
    }
  }
  if (int64_t neighbours = start.getNeighbours())
    meeting.ranks = neighbours;
  return meeting;
}

static bool isOf(const Communicator &communicator, CollectiveOpInterface start,
                 const Meeting &meeting) {
  return communicator.meeting == meeting && communicator.stream == start.getStream() &&
         communicator.transport == start.getTransport();
}

LogicalResult CommunicatorTable::add(CollectiveOpInterface start, MeshOp mesh) {
  FailureOr<Meeting> meeting = getMeeting(start, mesh);
  if (failed(meeting))
    return failure();
  if (llvm::any_of(communicators,
                   [&](const Communicator &known) { return isOf(known, start, *meeting); }))
    return success();
  bool isOfChunks = start.getNeighbours() != 0;
  std::string axes = llvm::join(start.getAxes().getAsValueRange<StringAttr>(), ", ");
  std::string name = isOfChunks ? "chunk" : stringifyStream(start.getStream()).str();
  if (start.getTransport() == Transport::CopyEngine)
    name += " by copy engines";
  bool isTaken =
      llvm::any_of(communicators, [&](const Communicator &known) { return known.name == name; });
  if (isTaken)
    name += " " + std::to_string(communicators.size());
  communicators.push_back(
      {name, isOfChunks ? "" : axes, *meeting, start.getStream(), start.getTransport()});
  return success();
}

static bool isOfModel(const Communicator &communicator) {
  return communicator.stream == Stream::Compute;
}

void CommunicatorTable::addModel(MeshOp mesh) {
  if (llvm::any_of(communicators, isOfModel))
    return;
  std::string axes = llvm::join(mesh.getAxes().getAsValueRange<StringAttr>(), ", ");
  const auto ranks = static_cast<unsigned>(llvm::product_of(mesh.getSizes()));
  communicators.push_back({"model", axes, Meeting{ranks, 1}, Stream::Compute});
}

FailureOr<CommunicatorTable> CommunicatorTable::build(ArrayRef<ModuleOp> steps) {
  CommunicatorTable table;
  for (ModuleOp step : steps) {
    FailureOr<Step> declared = Step::collect(step);
    if (failed(declared))
      return failure();
    if (declared->meshes.empty())
      continue;
    WalkResult walked = step.walk([&](CollectiveOpInterface start) {
      return failed(table.add(start, declared->getMesh(start))) ? WalkResult::interrupt()
                                                                : WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return failure();
    if (declared->getWorldSize() > 1)
      step.walk([&](aten::CallOp call) {
        if (getModelCollective(call))
          table.addModel(declared->meshes.front());
      });
  }
  return table;
}

unsigned CommunicatorTable::lookup(CollectiveOpInterface start, MeshOp mesh) const {
  FailureOr<Meeting> meeting = getMeeting(start, mesh);
  assert(succeeded(meeting) && "the table was built of it");
  auto found = llvm::find_if(communicators, [&](const Communicator &communicator) {
    return isOf(communicator, start, *meeting);
  });
  assert(found != communicators.end() && "the table was built of other steps");
  return found - communicators.begin();
}

unsigned CommunicatorTable::lookupModel() const {
  auto found = llvm::find_if(communicators, isOfModel);
  assert(found != communicators.end() && "the table was built of other steps");
  return found - communicators.begin();
}
