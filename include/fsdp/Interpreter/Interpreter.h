//===- Interpreter.h - Evaluates steps on real tensors -----------*- C++ -*-===//
//
// The meaning of the IR: of operators through torch's dispatcher, of collectives on the ranks of a
// mesh in one process. For tests: slow, on the CPU, and it checks that what the types promise is
// what the operators do.
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
  NamedTensors buffers;   // the new values of those that are written
  /// Operators that gave a result other strides than its type has; it was copied to these.
  std::vector<std::string> relaid;
};

/// Evaluates `@step` of a captured module. `state` holds parameters and buffers by symbol name,
/// `inputs` the batch by input name; none of them is changed. Random operators draw from torch's
/// default generator, in program order, which is seeded before each draw if there is a `seed`. An
/// error names the operator whose result has other sizes, dtype or aliasing than the IR says, or
/// the view with other strides.
llvm::Expected<StepValues> interpretStep(mlir::ModuleOp module, const NamedTensors &state,
                                         const NamedTensors &inputs, const DrawSeed &seed = {});

/// What one rank holds after a step.
struct RankValues {
  at::Tensor loss;
  /// By parameter, in the dtype of the reduction and before clipping: what the updates of the ranks
  /// with which this rank shares the parameter were given, put together.
  NamedTensors gradients;
  NamedTensors buffers;    // the new values of those that are written
  NamedTensors parameters; // the new values, put together likewise
  std::optional<float> clipFactor;
};

struct RanksStep {
  std::vector<RankValues> ranks;
  std::vector<std::string> updates; // groups, in the order of their updates
};

/// Evaluates `@step` of a sharded, scheduled or planned module on all ranks of its mesh, as the
/// first step of training: optimizer states are zero, the learning rate is the optimizer's.
/// `inputs` holds one batch for each rank, in the order of ranks; every rank begins with `state`.
/// `seed` gives the seed of a draw by rank and position; without it random operators are errors.
///
/// A collective is computed from what its start reads. Its result appears at its wait: until then
/// its place is poisoned, and an error names the collective if something has changed what it reads
/// or written to its place. Gathered parameters are poisoned at their reshard, behind which a use
/// is an error that names the parameter. Reductions add in the order of ranks, each addition
/// rounded to the dtype, and then divide.
///
/// On a planned module every value lies at its offset in an arena, one for each rank, so that
/// buffers that overlap while both are live change the results.
llvm::Expected<RanksStep>
interpretRanks(mlir::ModuleOp module, const NamedTensors &state,
               const std::vector<NamedTensors> &inputs,
               const std::function<uint64_t(unsigned rank, int64_t position)> &seed = {});

/// The first step of the module's optimizer on the whole parameter `name`, element by element: what
/// updates of shards are compared with. `parameter` is changed, `gradient` may be in another dtype.
void updateWhole(mlir::ModuleOp module, const std::string &name, at::Tensor &parameter,
                 const at::Tensor &gradient, std::optional<float> clipFactor = {});

} // namespace fsdp::interpreter

#endif // FSDP_INTERPRETER_INTERPRETER_H
