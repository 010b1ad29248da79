//===- ValidateProgram.cpp - Checks that plans share one state ------------===//

#include "plan/ValidateProgram.h"
#include "DType.h"
#include "fsdp/Plan/Optimizers.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::rt;

namespace {
/// Compares the state of one plan with that of the program's first one.
class Comparison {
public:
  Comparison(const fsdp_plan &own, const fsdp_plan &first, std::string name)
      : own(own), first(first), name(std::move(name)) {}

  Status run() const;

private:
  Status differs(const std::string &what) const;
  Status checkSizes() const;
  Status checkGroup(uint32_t index) const;
  Status checkParameters(const fsdp_group &group, const fsdp_group &other) const;
  Status checkBuffers() const;
  /// Compares optimizer options, which only training steps have.
  Status checkOptimizer() const;
  /// Compares what only training steps do with a group, and the offsets of optimizer state.
  Status checkTrainedGroup(uint32_t index) const;

  const PlanView own, first;
  const std::string name; // of the step, for people
};
} // namespace

Status Comparison::differs(const std::string &what) const {
  return Status::error("invalid plan: " + name + " has " + what +
                       ", which the first training step has otherwise");
}

static bool haveEqualSizes(const PlanView &a, const fsdp_value &left, const PlanView &b,
                           const fsdp_value &right) {
  std::span<const int64_t> sizes = a.sizes(left), others = b.sizes(right);
  return left.dtype == right.dtype && left.offset == right.offset &&
         std::equal(sizes.begin(), sizes.end(), others.begin(), others.end());
}

Status Comparison::checkParameters(const fsdp_group &group, const fsdp_group &other) const {
  for (uint32_t i = 0; i < group.num_parameters; ++i) {
    const fsdp_parameter &parameter = own.parameters()[group.first_parameter + i];
    const fsdp_parameter &same = first.parameters()[other.first_parameter + i];
    if (std::strcmp(own.string(parameter.name), first.string(same.name)) != 0 ||
        parameter.shard_dim != same.shard_dim)
      return differs("the parameters of group \"" +
                     std::string(displayName(own.string(group.name))) + "\"");
  }
  return {};
}

Status Comparison::checkGroup(uint32_t index) const {
  const fsdp_group &group = own.groups()[index], &other = first.groups()[index];
  const std::string text = displayName(own.string(group.name));
  if (text != displayName(first.string(other.name)) || group.num_parameters != other.num_parameters)
    return differs("group \"" + text + "\" of " + std::to_string(group.num_parameters) +
                   " parameters");
  if (Status status = checkParameters(group, other); !status.ok())
    return status;
  if (group.dtype != other.dtype || group.gather_dtype != other.gather_dtype ||
      group.layout != other.layout || group.shards != other.shards ||
      group.shard_elements != other.shard_elements)
    return differs("the layout of group \"" + text + "\"");
  // Parameters on the host may be fetched to any offset.
  const bool samePlace =
      group.parameters_on_host
          ? group.host_shard == other.host_shard &&
                group.host_gather_shard == other.host_gather_shard
          : group.shard == other.shard && group.gather_shard == other.gather_shard;
  if (group.parameters_on_host != other.parameters_on_host)
    return differs("parameters of group \"" + text + "\" on the " +
                   (group.parameters_on_host ? "host" : "device"));
  if (!samePlace)
    return differs("the place of group \"" + text + "\" at byte " +
                   std::to_string(group.parameters_on_host ? group.host_shard : group.shard));
  return {};
}

Status Comparison::checkBuffers() const {
  for (const fsdp_buffer &buffer : own.buffers()) {
    auto same = std::ranges::find_if(first.buffers(), [&](const fsdp_buffer &candidate) {
      return std::strcmp(first.string(candidate.name), own.string(buffer.name)) == 0 &&
             haveEqualSizes(own, own.values()[buffer.value], first,
                            first.values()[candidate.value]);
    });
    if (same == first.buffers().end())
      return differs("buffer \"" + std::string(own.string(buffer.name)) + "\"");
  }
  return {};
}

static bool areEqual(const fsdp_optimizer &a, const fsdp_optimizer &b) {
  return a.kind == b.kind && a.options == b.options &&
         std::ranges::all_of(
             fsdp::plan::kOptimizerOptions, [&](const fsdp::plan::OptimizerOption &option) {
               return option.isFlag() ||
                      (option.valueOf(a) == option.valueOf(b) &&
                       (option.numValues() == 1 || option.valueOf(a, 1) == option.valueOf(b, 1)));
             });
}

Status Comparison::checkTrainedGroup(uint32_t index) const {
  const fsdp_group &group = own.groups()[index], &other = first.groups()[index];
  const std::string text = displayName(own.string(group.name));
  if (group.reduce_dtype != other.reduce_dtype)
    return differs("gradients of group \"" + text + "\" reduced as " +
                   dtypeName(group.reduce_dtype));
  if (!std::ranges::equal(group.state_dtype, other.state_dtype))
    return differs("another dtype of the optimizer's state of group \"" + text + "\"");
  // State on the host may be fetched to any offset.
  if (group.trained_elements == other.trained_elements &&
      group.state_on_host == other.state_on_host &&
      (group.state_on_host || std::ranges::equal(group.state, other.state)) &&
      std::ranges::equal(group.host_state, other.host_state))
    return {};
  return differs("the place of the optimizer's state of group \"" + text + "\"");
}

Status Comparison::checkOptimizer() const {
  const fsdp_plan &plan = own.tables(), &other = first.tables();
  if (!areEqual(plan.optimizer, other.optimizer) ||
      !std::ranges::equal(own.optimizerGroups(), first.optimizerGroups(), areEqual) ||
      !std::ranges::equal(own.parameters(), first.parameters(), {}, &fsdp_parameter::optimizer,
                          &fsdp_parameter::optimizer))
    return differs("options of the optimizer");
  if (plan.clip_grad_norm != other.clip_grad_norm || plan.clip_norm_type != other.clip_norm_type)
    return differs("gradients clipped to norm " + std::to_string(plan.clip_grad_norm));
  if (std::memcmp(&plan.loss_scale, &other.loss_scale, sizeof(plan.loss_scale)) != 0)
    return differs("a loss scale of " + std::to_string(plan.loss_scale.init));
  if (plan.host_arena_bytes != other.host_arena_bytes)
    return differs("an arena of " + std::to_string(plan.host_arena_bytes) + " bytes on the host");
  for (uint32_t i = 0; i < plan.num_groups; ++i)
    if (Status status = checkTrainedGroup(i); !status.ok())
      return status;
  return {};
}

Status Comparison::checkSizes() const {
  const fsdp_plan &plan = own.tables(), &other = first.tables();
  if (plan.world_size != other.world_size || plan.replicas != other.replicas)
    return differs(std::to_string(plan.world_size) + " ranks of " + std::to_string(plan.replicas) +
                   " replicas");
  auto meets = [](const fsdp_communicator &a, const fsdp_communicator &b) {
    return a.ranks == b.ranks && a.stride == b.stride && a.stream == b.stream &&
           a.by_copy_engine == b.by_copy_engine;
  };
  if (!std::ranges::equal(own.communicators(), first.communicators(), meets))
    return differs("a table of " + std::to_string(plan.num_communicators) + " communicators");
  if (plan.arena_bytes != other.arena_bytes)
    return differs("an arena of " + std::to_string(plan.arena_bytes) + " bytes");
  if (plan.num_groups != other.num_groups)
    return differs(std::to_string(plan.num_groups) + " groups");
  return {};
}

Status Comparison::run() const {
  if (Status status = checkSizes(); !status.ok())
    return status;
  for (uint32_t i = 0; i < own.groups().size(); ++i)
    if (Status status = checkGroup(i); !status.ok())
      return status;
  if (Status status = checkBuffers(); !status.ok())
    return status;
  return own.isEvaluation() ? Status() : checkOptimizer();
}

Status fsdp::rt::validateProgram(const fsdp_plan &first) {
  if (Status status = validatePlan(first); !status.ok())
    return status;
  if (first.step_kind != FSDP_TRAINING)
    return Status::error("invalid plan: the first step of a program trains, this one is of kind " +
                         std::to_string(first.step_kind));
  unsigned number = 2;
  for (const fsdp_plan *plan = first.next; plan; plan = plan->next, ++number) {
    const bool evaluates = plan->step_kind == FSDP_EVALUATION;
    const std::string name =
        evaluates ? "the evaluation" : "training step " + std::to_string(number);
    if (Status status = validatePlan(*plan); !status.ok())
      return Status::error("of " + name + ": " + status.message());
    if (evaluates && plan->next && plan->next->step_kind != FSDP_EVALUATION)
      return Status::error("invalid plan: behind an evaluation a program has no step that trains");
    if (Status status = Comparison(*plan, first, name).run(); !status.ok())
      return status;
  }
  return {};
}
