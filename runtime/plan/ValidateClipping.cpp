//===- ValidateClipping.cpp - Checks the clipping of a plan ---------------===//

#include "plan/ValidateClipping.h"
#include "plan/NormType.h"

#include <cmath>

using namespace fsdp::rt;

bool fsdp::rt::isClipLimit(double limit) {
  auto single = static_cast<float>(limit);
  return single > 0 && std::isfinite(single);
}

bool fsdp::rt::isLossScale(double scale) {
  return scale > 0 && std::isnormal(static_cast<float>(scale));
}

namespace {
/// The stages of clipping, in the order in which they must come.
enum class Stage { Nothing, Part, Reduction, Total, Factor };
} // namespace

static std::string shown(Stage stage) {
  constexpr const char *names[] = {"nothing of the norm", "this rank's norm", "its all_reduce",
                                   "the norm over the ranks", "the clip factor"};
  return names[static_cast<unsigned>(stage)];
}

static Status validateLossScale(const PlanView &view) {
  const fsdp_plan &plan = view.tables();
  const fsdp_loss_scale &scale = plan.loss_scale;
  if (!view.scalesLoss()) {
    if (scale.growth_factor == 0 && scale.backoff_factor == 0 && scale.growth_interval == 0 &&
        plan.loss_scale_value == 0)
      return {};
    return Status::error("has options of a loss scale, but none to begin with");
  }
  if (view.isEvaluation())
    return Status::error("an evaluation scales its loss by " + std::to_string(scale.init));
  if (!isLossScale(scale.init) || !(scale.growth_factor >= 1) ||
      !std::isfinite(scale.growth_factor) || !(scale.backoff_factor > 0) ||
      scale.backoff_factor > 1 || scale.growth_interval < 1)
    return Status::error("scales its loss by " + std::to_string(scale.init) + ", growing by " +
                         std::to_string(scale.growth_factor) + " after " +
                         std::to_string(scale.growth_interval) + " steps and shrinking by " +
                         std::to_string(scale.backoff_factor));
  if (plan.loss_scale_value >= plan.num_values)
    return Status::error("the loss scale is value " + std::to_string(plan.loss_scale_value) +
                         " of " + std::to_string(plan.num_values));
  const fsdp_value &value = plan.values[plan.loss_scale_value];
  if (value.dtype != FSDP_F32 || value.num_dims != 0 || value.offset < 0)
    return Status::error("the loss scale " + view.describeValue(value) + " is no f32 number");
  return {};
}

Status fsdp::rt::validateClipping(const PlanView &view) {
  const fsdp_plan &plan = view.tables();
  if (Status status = validateLossScale(view); !status.ok())
    return status;
  const bool clips = view.takesNorm();
  double norm = plan.clip_grad_norm;
  if (view.clipsGradients() && !isClipLimit(norm))
    return Status::error("clips gradients to norm " + std::to_string(norm));
  if (clips != (normTypeName(plan.clip_norm_type) != nullptr))
    return Status::error("clips gradients to norm " + std::to_string(norm) + " of type " +
                         std::to_string(plan.clip_norm_type));
  const double value = plan.optimizer.clip_grad_value;
  if (view.clipsValues() && (view.clipsGradients() || !isClipLimit(value)))
    return Status::error("clips gradients to values of " + std::to_string(value) +
                         (view.clipsGradients() ? " and by their norm" : ""));
  bool isSharded = view.normRanks() > 1;
  Stage stage = Stage::Nothing;
  uint32_t handle = 0;
  int64_t place = 0;
  for (uint32_t i = 0; i < plan.num_entries; ++i) {
    const fsdp_entry &entry = plan.entries[i];
    auto what = [&] { return "entry " + std::to_string(i) + ": " + view.describeEntry(entry); };
    auto follow = [&](Stage expected, Stage next) {
      if (!clips)
        return Status::error(what() + " in a plan that neither clips nor scales its loss");
      if (stage != expected)
        return Status::error(what() + " behind " + shown(stage) + ", expected behind " +
                             shown(expected));
      stage = next;
      return Status();
    };
    auto checkPlace = [&](int64_t offset) {
      if (offset % static_cast<int64_t>(sizeof(double)) != 0 || offset < 0 ||
          offset > plan.arena_bytes - static_cast<int64_t>(sizeof(double)))
        return Status::error(what() + " at byte " + std::to_string(offset) + " of an arena of " +
                             std::to_string(plan.arena_bytes));
      if (stage != Stage::Part && offset != place)
        return Status::error(what() + " at byte " + std::to_string(offset) +
                             ", but the norm is at byte " + std::to_string(place));
      place = offset;
      return Status();
    };
    Status status;
    switch (entry.kind) {
    case FSDP_SHARD_NORM:
      status = follow(Stage::Nothing, Stage::Nothing);
      break;
    case FSDP_PARTIAL_NORM:
      if (status = follow(Stage::Nothing, Stage::Part); status.ok())
        status = checkPlace(entry.destination);
      break;
    case FSDP_NORM_ALL_REDUCE_START:
      if (status = follow(Stage::Part, Stage::Reduction); status.ok())
        status = checkPlace(entry.destination);
      handle = entry.handle;
      if (status.ok() && (entry.stream != FSDP_REDUCE || entry.count != 1 ||
                          entry.dtype != FSDP_F64 || !isSharded))
        status = Status::error(what() + " of " + std::to_string(entry.count) +
                               " elements on stream " + std::to_string(entry.stream) + " over " +
                               std::to_string(view.normRanks()) + " ranks");
      break;
    case FSDP_WAIT:
      if (stage == Stage::Reduction && entry.handle == handle)
        stage = Stage::Total;
      break;
    case FSDP_CLIP_FACTOR:
      if (status = follow(isSharded ? Stage::Total : Stage::Part, Stage::Factor); status.ok())
        status = checkPlace(entry.source);
      break;
    case FSDP_UPDATE:
      if (clips && stage != Stage::Factor)
        status = Status::error(what() + " behind " + shown(stage) + ", expected behind " +
                               shown(Stage::Factor));
      break;
    default:
      break;
    }
    if (!status.ok())
      return status;
  }
  return {};
}
