//===- CommunicatorTable.h - Ranks and streams of collectives ---*- C++ -*-===//
//
// A communicator is a set of ranks and one order of their collectives. The axes of a collective, or
// its number of neighbours, determine the ranks; the schedule decides the stream and the transport.
// Collectives with equal ranks, stream and transport share a communicator. Collectives of the
// model's own code have one of all ranks, on the compute stream.
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

/// The ranks that meet in the collective that `start` begins on `mesh`. An error if the axes are
/// not adjacent in the mesh: a plan cannot describe such ranks.
llvm::FailureOr<Meeting> getMeeting(CollectiveOpInterface start, MeshOp mesh);

struct Communicator {
  std::string name; // "gather", for messages; all names differ
  std::string axes; // "dp"; "" if neighbours on a part of an axis meet
  Meeting meeting;
  Stream stream;
  Transport transport = Transport::Kernels;
};

class CommunicatorTable {
public:
  /// The communicators of all collectives of all steps of a program, in their order. Errors are
  /// reported at the collective.
  static llvm::FailureOr<CommunicatorTable> build(llvm::ArrayRef<mlir::ModuleOp> steps);

  llvm::ArrayRef<Communicator> getCommunicators() const { return communicators; }
  /// Index of the collective's communicator.
  unsigned lookup(CollectiveOpInterface start, MeshOp mesh) const;
  /// Index of the communicator of the model's own collectives, of which the program has some.
  unsigned lookupModel() const;

private:
  void addModel(MeshOp mesh);
  llvm::LogicalResult add(CollectiveOpInterface start, MeshOp mesh);

  std::vector<Communicator> communicators;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_COMMUNICATORTABLE_H
