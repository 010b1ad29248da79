//===- PlanView.h - Typed access to a plan's tables --------------*- C++ -*-===//
//
// A plan is a set of flat tables of numbers (fsdp/Plan/Abi.h). PlanView presents them as strings
// and spans. Nothing is copied: views point into the plan, which is constant data of the program.
// Accessors trust the plan, so validatePlan must have accepted it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_PLANVIEW_H
#define FSDP_RUNTIME_PLANVIEW_H

#include "Status.h"
#include "fsdp/Plan/Abi.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::rt {

class PlanView {
public:
  explicit PlanView(const fsdp_plan &plan) : plan(plan) {}

  const fsdp_plan &tables() const { return plan; }
  const char *string(uint32_t offset) const { return plan.strings + offset; }
  std::span<const int64_t> integers(uint32_t first, uint32_t count) const {
    return {plan.integers + first, count};
  }

  std::span<const fsdp_value> values() const { return {plan.values, plan.num_values}; }
  std::span<const fsdp_entry> entries() const { return {plan.entries, plan.num_entries}; }
  std::span<const fsdp_input> inputs() const { return {plan.inputs, plan.num_inputs}; }
  std::span<const fsdp_buffer> buffers() const { return {plan.buffers, plan.num_buffers}; }
  std::span<const fsdp_constant> constants() const { return {plan.constants, plan.num_constants}; }
  /// True if the buffer's initial value is a constant of the plan, so that weights files do not
  /// hold it.
  bool isTransient(const fsdp_buffer &buffer) const;
  std::span<const fsdp_group> groups() const { return {plan.groups, plan.num_groups}; }
  std::span<const fsdp_parameter> parameters() const {
    return {plan.parameters, plan.num_parameters};
  }
  std::span<const fsdp_piece> pieces() const { return {plan.pieces, plan.num_pieces}; }
  std::span<const fsdp_optimizer> optimizerGroups() const {
    return {plan.optimizer_groups, plan.num_optimizer_groups};
  }
  std::span<const fsdp_communicator> communicators() const {
    return {plan.communicators, plan.num_communicators};
  }
  std::span<const fsdp_kernel> kernels() const { return {plan.kernels, plan.num_kernels}; }
  /// The kernel of an FSDP_KERNEL entry.
  const fsdp_kernel &kernelOf(const fsdp_entry &entry) const { return plan.kernels[entry.target]; }
  /// The communicator of a collective's entry.
  const fsdp_communicator &communicatorOf(const fsdp_entry &start) const {
    return plan.communicators[start.communicator];
  }
  /// The optimizer for parameters with this `fsdp_parameter::optimizer`.
  const fsdp_optimizer &optimizer(uint32_t index) const {
    return index == 0 ? plan.optimizer : plan.optimizer_groups[index - 1];
  }

  std::span<const fsdp_argument> arguments(const fsdp_entry &entry) const {
    return {plan.arguments + entry.first_argument, entry.num_arguments};
  }
  /// The values of the results of an entry, -1 where a result is unused.
  std::span<const int64_t> results(const fsdp_entry &entry) const {
    return integers(entry.first_result, entry.num_results);
  }
  std::span<const fsdp_parameter> parametersOf(const fsdp_group &group) const {
    return parameters().subspan(group.first_parameter, group.num_parameters);
  }
  /// The pieces of a parameter, by rank.
  std::span<const fsdp_piece> piecesOf(const fsdp_parameter &parameter) const {
    return pieces().subspan(parameter.first_piece, parameter.num_pieces);
  }

  /// The layout of a parameter's pieces within the parameter; see fsdp_piece. Each piece is `count`
  /// runs of consecutive elements, of equal length, whose first elements are `stride` apart. One
  /// index of the sharded dimension is `entry` elements of a run.
  struct Runs {
    int64_t count, stride, entry;
  };
  Runs runsOf(const fsdp_parameter &parameter) const;

  std::span<const int64_t> sizes(const fsdp_value &value) const {
    return integers(value.first_size, value.num_dims);
  }
  std::span<const int64_t> strides(const fsdp_value &value) const {
    return integers(value.first_size + value.num_dims, value.num_dims);
  }
  std::span<const int64_t> sizes(const fsdp_parameter &parameter) const {
    return integers(parameter.first_size, parameter.num_dims);
  }
  int64_t numElements(const fsdp_value &value) const { return product(sizes(value)); }
  int64_t numElements(const fsdp_parameter &parameter) const { return product(sizes(parameter)); }

  /// Bytes from a value's first element to the end of its last; 0 if it has no elements.
  int64_t spanBytes(const fsdp_value &value) const;
  /// True if the elements lie one after another in row-major order.
  bool isContiguous(const fsdp_value &value) const;
  /// True if the elements fill the span without gaps or overlap, in any order of the dimensions.
  bool isDense(const fsdp_value &value) const;
  /// True for torch's undefined tensor: a value that has elements but no storage.
  bool isUndefined(const fsdp_value &value) const {
    return value.offset < 0 && numElements(value) > 0;
  }

  /// The shard of a group that a rank of the run holds.
  static unsigned shardOf(const fsdp_group &group, unsigned rank) { return rank % group.shards; }
  /// Ranks of the axis over which the model's mesh shards, for people.
  unsigned meshShards() const { return plan.world_size / plan.replicas; }
  /// Ranks over which the norm of all gradients is summed: the ranks of the shards, if all groups
  /// have as many shards, else all ranks.
  unsigned normRanks() const;
  /// True if this rank adds its shard to the norm: if several of the norm's ranks hold a shard,
  /// only the first one does.
  bool countsInNorm(const fsdp_group &group, unsigned rank) const {
    return rank % normRanks() < group.shards;
  }
  bool hasReplicas(const fsdp_group &group) const { return group.shards < plan.world_size; }

  /// The number of neighbours on the shard axis that together hold the group, one chunk each,
  /// between forward and backward; 1: no chunks.
  unsigned chunkRanks(const fsdp_group &group) const {
    return group.chunk_ranks ? group.chunk_ranks : 1;
  }
  /// True if an all-gather joins chunks, not shards.
  bool gathersChunks(const fsdp_entry &gather) const {
    return communicatorOf(gather).ranks < groups()[gather.target].shards;
  }
  /// True if an all-gather joins shards that calls of the plan have encoded as bytes.
  bool gathersEncoded(const fsdp_entry &gather) const {
    return gather.dtype == FSDP_U8 && groups()[gather.target].gather_dtype != FSDP_U8;
  }
  /// Bytes of a chunk of a group.
  int64_t chunkBytes(const fsdp_group &group) const {
    return gatherShardBytes(group) * (group.shards / chunkRanks(group));
  }
  /// Bytes of one rank's shard of a group.
  int64_t shardBytes(const fsdp_group &group) const;
  /// Bytes of the shard's parameters that have gradients.
  int64_t trainedBytes(const fsdp_group &group) const;
  /// Bytes of one optimizer state, for the parameters that have gradients.
  int64_t stateBytes(const fsdp_group &group, unsigned state) const;
  /// True if a state has another dtype than the parameters.
  bool hasOwnStateDtype(const fsdp_group &group) const;
  /// True if updates write a copy of the shard in the dtype in which it is gathered.
  bool hasGatherCopy(const fsdp_group &group) const { return group.gather_dtype != group.dtype; }
  /// Bytes that a rank contributes to a gather of a group.
  int64_t gatherShardBytes(const fsdp_group &group) const;
  /// True if the group's optimizer state is on the host between steps.
  bool isStateOnHost(const fsdp_group &group) const {
    return numOptimizerStates() > 0 && group.state_on_host != 0;
  }
  /// True if the group's parameters, and their copies for gathers, are on the host between steps.
  bool areParametersOnHost(const fsdp_group &group) const { return group.parameters_on_host != 0; }
  /// State on the host that is in the arena during an update: its offsets in the arena and on the
  /// host.
  struct HostCopy {
    int64_t place, hostPlace, bytes;
    bool isFetched; // false: it is only stored
  };
  /// The copies of a group, in the order in which they run.
  std::vector<HostCopy> hostCopiesOf(const fsdp_group &group) const;
  /// Bytes that an FSDP_FETCH_STATE_START or FSDP_STORE_STATE_START copies.
  int64_t hostCopyBytes(const fsdp_group &group, bool isFetch) const;
  /// True if the step only computes the loss, without an update.
  bool isEvaluation() const { return plan.step_kind == FSDP_EVALUATION; }
  /// True if the gradients' norm is clipped before the updates.
  bool clipsGradients() const { return plan.clip_grad_norm != 0; }
  /// True if the backward begins with the loss times a scale.
  bool scalesLoss() const { return plan.loss_scale.init != 0; }
  /// True if the gradients' norm is known before the updates: to clip by it, or to see whether it
  /// is finite.
  bool takesNorm() const { return clipsGradients() || scalesLoss(); }
  /// True if updates clip each element of the gradients.
  bool clipsValues() const { return plan.optimizer.clip_grad_value != 0; }
  /// The norm of the gradients that runs report: that of FSDP_PARTIAL_NORM, else norm 2.
  fsdp_norm_type normType() const {
    return takesNorm() ? static_cast<fsdp_norm_type>(plan.clip_norm_type) : FSDP_NORM_2;
  }
  /// The number of optimizer states with one element per parameter element: at most
  /// FSDP_MAX_KEPT_STATES; 0 for an evaluation.
  unsigned numOptimizerStates() const;
  /// True if the last of these states is a moving average of the parameters.
  bool hasAverage() const { return !isEvaluation() && plan.optimizer.ema_decay != 0; }
  bool isAverage(unsigned state) const { return hasAverage() && state + 1 == numOptimizerStates(); }

  /// An entry for a message: `aten::mm in module "layers.0" (model.py:12)`, or
  /// `all_gather of group "layers.0"`.
  std::string describeEntry(const fsdp_entry &entry) const;
  /// A value for a message: `%mm: f32[8, 16] strides [16, 1]`.
  std::string describeValue(const fsdp_value &value) const;

private:
  static int64_t product(std::span<const int64_t> sizes);

  const fsdp_plan &plan;
};

/// `f32[8, 16] strides [16, 1]`.
std::string describeTensor(uint32_t dtype, std::span<const int64_t> sizes,
                           std::span<const int64_t> strides);

/// A group's or module's name for people: the root, whose name is "", is `root`.
const char *displayName(const char *name);

/// torch's name, "adamw", of a valid plan's optimizer.
std::string optimizerKindName(const fsdp_optimizer &optimizer);
/// torch's names of its states, in the order of fsdp_group::state; the rest is empty.
std::array<std::string_view, FSDP_MAX_KEPT_STATES>
optimizerStateNames(const fsdp_optimizer &optimizer);

/// Checks all properties that the runtime relies on: the ABI version and the size of the header
/// match, every index and every list is within its table, every byte that a step touches is within
/// the arena, and collectives and waits match. Errors name the table and the entry, with both
/// values.
Status validatePlan(const fsdp_plan &plan);

/// Describes a plan for people: model, mesh, optimizer, groups, collectives by kind and phase,
/// memory. Several lines, each ended by a newline. The plan must be valid.
std::string describePlan(const fsdp_plan &plan);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_PLANVIEW_H
