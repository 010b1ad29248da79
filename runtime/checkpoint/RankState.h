//===- RankState.h - The training state that a rank holds ----- -*- C++ -*-===//
//
// Tensors of a checkpoint have torch's names: parameters and buffers their qualified names,
// optimizer state "optim.state.<parameter>.exp_avg", as torch's distributed checkpoints flatten
// {**get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer)}.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_RANKSTATE_H
#define FSDP_RUNTIME_RANKSTATE_H

#include "checkpoint/Rectangle.h"
#include "plan/PlanView.h"

#include <optional>
#include <vector>

namespace fsdp::rt {

/// Elements of a tensor that are consecutive in a rank's memory.
struct StateRange {
  enum class Kind { Parameter, OptimizerState, Buffer };

  std::string name;
  std::vector<std::string> aliases; // other names of the same parameter or buffer
  /// Tensors with which the state begins if a checkpoint does not have it: for an average of a
  /// parameter, the names of the parameter.
  std::vector<std::string> substitutes;
  Kind kind = Kind::Parameter;
  fsdp_dtype dtype = FSDP_F32;
  std::vector<int64_t> shape; // of the whole tensor
  std::vector<Rectangle> parts; // in the order of memory
  uint32_t shards = 1;          // ranks over which the tensor's group is sharded
  int64_t offset = 0;     // bytes, in the arena or the host's arena
  bool onHost = false;    // in the host's arena
  bool ownOfRank = false; // a buffer that steps change, so each rank has its own values
  bool isTransient = false; // a buffer that is not in the model's state_dict

  int64_t count() const; // number of elements
  int64_t bytes() const;
};

/// The state that `rank` holds: parameters and optimizer state, group by group, then buffers.
/// Padding and empty pieces are left out.
std::vector<StateRange> stateOf(const PlanView &plan, unsigned rank);

/// "exp_avg": state `index` of the plan's optimizer, as torch calls it.
std::string optimizerStateName(const PlanView &plan, unsigned index);

/// "optim.state.<parameter>.<state>".
std::string optimizerTensorName(const std::string &parameter, const std::string &state);

/// True if torch's optimizer state has a step number for each parameter, as for all but sgd.
bool hasStepNumber(const PlanView &plan);

/// The number `mu_product` that torch's nadam keeps of each parameter, after a step; none for the
/// other optimizers.
std::optional<float> momentumProduct(const fsdp_optimizer &optimizer, int64_t step);

/// True if the parameter is updated, and so has optimizer state.
bool isTrained(const PlanView &plan, const fsdp_parameter &parameter);

/// The name under which a rank's own buffer is stored. Rank 0's buffer keeps its name, as in
/// torch's checkpoints, unless it is transient: torch's checkpoints have no transient buffers.
std::string bufferNameOfRank(const std::string &name, unsigned rank, bool isTransient);

/// The rank and the name in a result of bufferNameOfRank(); none for other names.
struct RankedName {
  unsigned rank;
  std::string name;
};
std::optional<RankedName> nameOfRank(std::string_view name);

/// An error if a buffer cannot be stored: its elements are not in row-major order.
Status checkBuffers(const PlanView &plan);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RANKSTATE_H
