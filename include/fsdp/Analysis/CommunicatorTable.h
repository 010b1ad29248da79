//===- CommunicatorTable.h - Which ranks meet, on which stream ---*- C++ -*-===//
//
// A communicator is a set of ranks and one order of their collectives. Which ranks meet follows
// from the axes of a collective, or from its number of neighbours; the stream and the transport are
// the schedule's decisions. Collectives that agree in all share a communicator.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_ANALYSIS_COMMUNICATORTABLE_H
#define FSDP_ANALYSIS_COMMUNICATORTABLE_H

#include "fsdp/IR/Fsdp.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace fsdp {

/// The ranks that meet in a collective, as plan::getRanksThatMeet() reads them.
struct Meeting {
  unsigned ranks = 1, stride = 1;

  bool operator==(const Meeting &) const = default;
};

/// Who meets in the collective of `start` on `mesh`. An error if the axes are not neighbours of the
/// mesh, which a plan cannot say.
llvm::FailureOr<Meeting> getMeeting(CollectiveOpInterface start, MeshOp mesh);

struct Communicator {
  std::string name; // "gather", for people; no two are equal
  std::string axes; // "dp"; "" if some neighbours on an axis meet
  Meeting meeting;
  Stream stream;
  Transport transport = Transport::Kernels;
};

class CommunicatorTable {
public:
  /// Of all collectives of all steps of a program, in their order. Errors are told at the
  /// collective.
  static llvm::FailureOr<CommunicatorTable> build(llvm::ArrayRef<mlir::ModuleOp> steps);

  llvm::ArrayRef<Communicator> getCommunicators() const { return communicators; }
  /// The number of the collective's communicator.
  unsigned lookup(CollectiveOpInterface start, MeshOp mesh) const;

private:
  llvm::LogicalResult add(CollectiveOpInterface start, MeshOp mesh);

  std::vector<Communicator> communicators;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_COMMUNICATORTABLE_H
