//===- Interpreter.h - Evaluates steps on real tensors -----------*- C++ -*-===//
//
// Executes the IR: operators through torch's dispatcher, collectives over the ranks of a mesh in
// one process. For tests: slow, on the CPU. The interpreter checks that operators return the types
// that the IR declares.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_INTERPRETER_INTERPRETER_H
#define FSDP_INTERPRETER_INTERPRETER_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::interpreter {

using NamedTensors = std::map<std::string, at::Tensor>;

/// The seed of the random draw at a position of the step (`rng` of the call).
using DrawSeed = std::function<uint64_t(int64_t position)>;

struct StepValues {
  at::Tensor loss;
  NamedTensors gradients; // by parameter
  NamedTensors buffers;   // the new values of written buffers
  /// Operators whose result had other strides than its type; the result was copied to these
  /// strides.
  std::vector<std::string> relaid;
};

/// Evaluates `@step` of a captured module. `state` holds parameters and buffers by symbol name,
/// `inputs` the batch by input name; neither is changed. Random operators draw from torch's default
/// generator in program order; `seed`, if given, seeds it before each draw. Errors name the
/// operator whose result has other sizes, dtype or aliasing than the IR declares, or the view with
/// other strides.
llvm::Expected<StepValues> interpretStep(mlir::ModuleOp module, const NamedTensors &state,
                                         const NamedTensors &inputs, const DrawSeed &seed = {});

/// The values of one rank after a step.
struct RankValues {
  at::Tensor loss;
  /// By parameter, in the dtype of the reduction and before clipping: the gradients that the
  /// updates read, concatenated over the ranks that share the parameter with this rank.
  NamedTensors gradients;
  NamedTensors buffers;    // the new values of written buffers
  NamedTensors parameters; // the new values, concatenated likewise
  std::optional<float> clipFactor;
};

struct RanksStep {
  std::vector<RankValues> ranks;
  std::vector<std::string> updates; // groups, in the order of their updates
};

/// Evaluates `@step` of a sharded, scheduled or planned module on all ranks of its mesh, as the
/// first step of training: optimizer states are zero, the learning rate is the optimizer's.
/// `inputs` holds one batch per rank, in rank order; every rank begins with `state`. `seed` returns
/// the seed of a draw by rank and position; without it random operators are errors.
///
/// The interpreter computes a collective when it starts, and stores the result when it is waited
/// for. In between the output buffer is poisoned. An error names the collective if its input
/// changed or its output was written meanwhile. A reshard poisons gathered parameters; an error
/// names a parameter that is used later. Reductions add in rank order, round each sum to the dtype,
/// and then divide.
///
/// On a planned module every value lies at its offset in an arena, one per rank, so that
/// overlapping live buffers change the results.
llvm::Expected<RanksStep>
interpretRanks(mlir::ModuleOp module, const NamedTensors &state,
               const std::vector<NamedTensors> &inputs,
               const std::function<uint64_t(unsigned rank, int64_t position)> &seed = {});

/// The first step of the module's optimizer on the whole parameter `name`, element by element: the
/// reference for updates of shards. Changes `parameter`; `gradient` may have another dtype.
void updateWhole(mlir::ModuleOp module, const std::string &name, at::Tensor &parameter,
                 const at::Tensor &gradient, std::optional<float> clipFactor = {});

} // namespace fsdp::interpreter

#endif // FSDP_INTERPRETER_INTERPRETER_H
