//===- ValidateProgram.cpp - Steps over one state --------------------------===//

#include "plan/ValidateProgram.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::rt;

static Status differs(const std::string &what) {
  return Status::error("invalid plan: the evaluation has " + what +
                       ", which the training step has otherwise");
}

static bool haveEqualSizes(const PlanView &a, const fsdp_value &left, const PlanView &b,
                           const fsdp_value &right) {
  std::span<const int64_t> sizes = a.sizes(left), others = b.sizes(right);
  return left.dtype == right.dtype && left.offset == right.offset &&
         std::equal(sizes.begin(), sizes.end(), others.begin(), others.end());
}

static Status checkGroup(const PlanView &evaluation, const fsdp_group &own,
                         const PlanView &training, const fsdp_group &other) {
  const std::string name = displayName(evaluation.string(own.name));
  if (name != displayName(training.string(other.name)) ||
      own.num_parameters != other.num_parameters)
    return differs("group \"" + name + "\" of " + std::to_string(own.num_parameters) +
                   " parameters");
  for (uint32_t i = 0; i < own.num_parameters; ++i)
    if (std::strcmp(evaluation.string(evaluation.parameters()[own.first_parameter + i].name),
                    training.string(training.parameters()[other.first_parameter + i].name)) != 0)
      return differs("the parameters of group \"" + name + "\"");
  if (own.dtype != other.dtype || own.gather_dtype != other.gather_dtype ||
      own.layout != other.layout || own.shard_elements != other.shard_elements)
    return differs("the layout of group \"" + name + "\"");
  if (own.shard != other.shard || own.gather_shard != other.gather_shard)
    return differs("the place of group \"" + name + "\" at byte " + std::to_string(own.shard));
  return {};
}

static Status checkState(const PlanView &evaluation, const PlanView &training) {
  const fsdp_plan &own = evaluation.tables(), &other = training.tables();
  if (own.world_size != other.world_size || own.replicas != other.replicas)
    return differs(std::to_string(own.world_size) + " ranks of " + std::to_string(own.replicas) +
                   " replicas");
  if (own.arena_bytes != other.arena_bytes)
    return differs("an arena of " + std::to_string(own.arena_bytes) + " bytes");
  if (own.num_groups != other.num_groups)
    return differs(std::to_string(own.num_groups) + " groups");
  for (uint32_t i = 0; i < own.num_groups; ++i)
    if (Status status = checkGroup(evaluation, own.groups[i], training, other.groups[i]);
        !status.ok())
      return status;
  for (const fsdp_buffer &buffer : evaluation.buffers()) {
    auto same = std::ranges::find_if(training.buffers(), [&](const fsdp_buffer &candidate) {
      return std::strcmp(training.string(candidate.name), evaluation.string(buffer.name)) == 0 &&
             haveEqualSizes(evaluation, evaluation.values()[buffer.value], training,
                            training.values()[candidate.value]);
    });
    if (same == training.buffers().end())
      return differs("buffer \"" + std::string(evaluation.string(buffer.name)) + "\"");
  }
  return {};
}

Status fsdp::rt::validateProgram(const fsdp_plan &training) {
  if (Status status = validatePlan(training); !status.ok())
    return status;
  if (training.step_kind != FSDP_TRAINING)
    return Status::error("invalid plan: the first step of a program trains, this one is of kind " +
                         std::to_string(training.step_kind));
  if (!training.next)
    return {};
  if (Status status = validatePlan(*training.next); !status.ok())
    return status;
  if (training.next->step_kind != FSDP_EVALUATION || training.next->next)
    return Status::error("invalid plan: behind the step that trains a program has one evaluation");
  return checkState(PlanView(*training.next), PlanView(training));
}
