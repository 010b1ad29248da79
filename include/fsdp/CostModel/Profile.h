//===- Profile.h - Measured durations of a step's operations -----*- C++ -*-===//
//
// The output of fsdp-profile and input of CostModel: one entry per distinct call (operator,
// operands' shapes, strides and dtypes, literals), one per distinct generated kernel (also its
// body), and durations by size for optimizer updates and copies. docs/costs.md has the JSON schema.
//
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

/// A tensor's type; strides (elements) are empty if it is contiguous. Storage offsets are left out:
/// they do not affect durations.
struct ProfiledTensor {
  std::string dtype; // as in the IR: "f32", "i64", "i1"
  std::vector<int64_t> shape, strides;
};

/// The properties of a call that determine its duration.
struct ProfileKey {
  std::string op, overload; // "mm", "default"
  std::vector<ProfiledTensor> operands;
  std::vector<std::string> arguments; // in the schema's order, as in the IR; "%" for an operand

  static ProfileKey of(aten::CallOp call);
  /// The key as one line, for tables: `mm.default(%, %) : f32[8,4], f32[4,8]{1,4}`.
  std::string str() const;
};

struct ProfiledCall {
  ProfileKey key;
  double medianNs = 0; // mean, over the call's occurrences in the step, of their medians
  double spread = 0;   // see SizedDuration
  int64_t samples = 0;
  int64_t temporaryBytes = 0; // allocated and freed inside the operator
};

/// The properties of a generated kernel that determine its duration.
struct KernelKey {
  Rounding rounding = Rounding::Exact;
  std::vector<ProfiledTensor> operands, results;
  /// One call per line, with the kernel's operands numbered first: "%2 = add.Tensor(%0, %1, 1)";
  /// the stored values last: "yield %2".
  std::vector<std::string> body;

  static KernelKey of(KernelOp kernel);
  /// The key as one line: `exact(f32[8], f32[8]) -> f32[8] { %2 = ...; yield %2 }`.
  std::string str() const;
};

struct ProfiledKernel {
  KernelKey key;
  std::string name;                // for messages
  double medianNs = 0, spread = 0; // as of a call; kernels allocate nothing
  int64_t samples = 0;
};

/// Updates of one optimizer and dtype, by increasing elements of the shard.
struct ProfiledUpdate {
  OptimizerKind optimizer = OptimizerKind::AdamW;
  std::string dtype;
  std::vector<SizedDuration> durations;
};

/// The measured duration of one step, and the sums of the medians of its parts, to compare.
struct ProfiledStep {
  double durationNs = 0;
  double callsNs = 0, kernelsNs = 0, updatesNs = 0, copiesNs = 0;
  double collectivesNs = 0; // each alone, at its start
  int64_t scratchBytes = 0; // the executor's area for temporaries, beside the arena
};

struct Profile {
  std::string device;      // as on the command line: "cpu", "h100"
  std::string description; // "AMD EPYC, 2 cores, 1 thread per rank"
  std::string source;      // the program and its versions
  int64_t ranks = 1;       // that ran at the same time on this host
  ProfiledStep step;
  std::vector<ProfiledCall> calls; // also calls that kernels replace
  std::vector<ProfiledKernel> kernels;
  std::vector<ProfiledUpdate> updates;
  std::vector<SizedDuration> copies; // by increasing bytes
};

/// Errors are one line that names the file and the field.
llvm::Expected<Profile> readProfile(const std::string &file);
void writeProfile(const Profile &profile, llvm::raw_ostream &os);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_PROFILE_H
