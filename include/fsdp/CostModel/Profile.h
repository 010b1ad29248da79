//===- Profile.h - Measured durations of a step's operations -----*- C++ -*-===//
//
// What fsdp-profile writes and CostModel reads: one entry per distinct call (operator, operands'
// shapes, strides and dtypes, literals), and curves over the size for optimizer updates and copies.
// The JSON schema is in docs/costs.md.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_COSTMODEL_PROFILE_H
#define FSDP_COSTMODEL_PROFILE_H

#include "fsdp/CostModel/FitLine.h"
#include "fsdp/IR/Fsdp.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace fsdp::cost {

/// An operand's type; strides (elements) are empty if it is contiguous. Offsets into a storage do
/// not matter for time.
struct ProfiledOperand {
  std::string dtype; // as in the IR: "f32", "i64", "i1"
  std::vector<int64_t> shape, strides;
};

/// What distinguishes one call from another, as far as its duration goes.
struct ProfileKey {
  std::string op, overload; // "mm", "default"
  std::vector<ProfiledOperand> operands;
  std::vector<std::string> arguments; // in the schema's order, as in the IR; "%" is an operand

  static ProfileKey of(aten::CallOp call);
  /// The key as one line, for tables and people: `mm.default(%, %) : f32[8,4], f32[4,8]{1,4}`.
  std::string str() const;
};

struct ProfiledCall {
  ProfileKey key;
  double medianNs = 0; // mean over the places in the step of their medians
  double spread = 0;   // see SizedDuration
  int64_t samples = 0;
  int64_t temporaryBytes = 0; // allocated and freed inside the operator
};

/// Updates of one optimizer and dtype, by elements of the shard, increasing.
struct ProfiledUpdate {
  OptimizerKind optimizer = OptimizerKind::AdamW;
  std::string dtype;
  std::vector<SizedDuration> durations;
};

/// One step as it ran while it was measured, and the sums of the medians of its parts: how much the
/// table explains.
struct ProfiledStep {
  double durationNs = 0;
  double callsNs = 0, updatesNs = 0, copiesNs = 0;
  double collectivesNs = 0; // where they start, beside nothing
  int64_t scratchBytes = 0; // the executor's area for temporaries, beside the arena
};

struct Profile {
  std::string device;      // as on the command line: "cpu", "h100"
  std::string description; // "AMD EPYC, 2 cores, 1 thread per rank"
  std::string source;      // the program and its versions
  int64_t ranks = 1;       // that ran at the same time on this host
  ProfiledStep step;
  std::vector<ProfiledCall> calls;
  std::vector<ProfiledUpdate> updates;
  std::vector<SizedDuration> copies; // by bytes, increasing
};

/// Errors are one line that names the file and the field.
llvm::Expected<Profile> readProfile(const std::string &file);
void writeProfile(const Profile &profile, llvm::raw_ostream &os);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_PROFILE_H
