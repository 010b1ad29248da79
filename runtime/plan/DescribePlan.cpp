//===- DescribePlan.cpp - Describes a plan for people ---------------------===//

#include "DType.h"
#include "fsdp/Plan/Optimizers.h"
#include "plan/CollectiveOrder.h"
#include "plan/NormType.h"
#include "plan/PlanMemory.h"
#include "plan/ProgramPlans.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>

using namespace fsdp::rt;

template <typename... Args> static std::string format(const char *pattern, Args... args) {
  int length = std::snprintf(nullptr, 0, pattern, args...);
  std::string text(length + 1, 0);
  std::snprintf(text.data(), text.size(), pattern, args...);
  text.pop_back();
  return text;
}

/// `1536 bytes`, `12.5 MiB`.
static std::string bytesText(int64_t bytes) {
  if (bytes < 1 << 20)
    return format("%lld bytes", static_cast<long long>(bytes));
  if (bytes < int64_t(1) << 30)
    return format("%.2f MiB", double(bytes) / (1 << 20));
  return format("%.2f GiB", double(bytes) / (1 << 30));
}

/// `hasRate`: it has its own learning rate, not the run's.
static std::string optimizerText(const fsdp_optimizer &optimizer, bool hasRate) {
  const fsdp::plan::OptimizerKind &kind = fsdp::plan::kindOf(optimizer);
  std::string text(kind.name);
  const char *separator = " ";
  for (const fsdp::plan::OptimizerOption &option : fsdp::plan::kOptimizerOptions) {
    const double value = option.valueOf(optimizer);
    if (!fsdp::plan::findDefault(kind, option.name) || (option.isOptional && value == 0) ||
        (option.name == "lr" && !hasRate))
      continue;
    std::string name(option.name);
    std::ranges::replace(name, '_', ' ');
    text += separator + name;
    separator = ", ";
    if (!option.isFlag())
      text += format(" %g", value);
    if (option.numValues() == 2)
      text += format(", %g", option.valueOf(optimizer, 1));
  }
  return text;
}

/// A line for each group of parameters with optimizer options of its own.
static std::string optimizerGroupsText(const PlanView &view) {
  std::string text;
  for (uint32_t i = 0; i < view.optimizerGroups().size(); ++i) {
    int64_t parameters = 0, elements = 0;
    for (const fsdp_parameter &parameter : view.parameters())
      if (parameter.optimizer == i + 1) {
        ++parameters;
        elements += view.numElements(parameter);
      }
    text +=
        format("  for %lld parameters of %lld elements: ", static_cast<long long>(parameters),
               static_cast<long long>(elements)) +
        optimizerText(view.optimizerGroups()[i], view.optimizerGroups()[i].options & FSDP_OWN_LR) +
        '\n';
  }
  return text;
}

/// What travels in the gathers of a group, if not its shards as they are.
static std::string gatherText(const PlanView &view, const fsdp_group &group) {
  const auto index = static_cast<uint32_t>(&group - view.groups().data());
  const bool isEncoded = std::ranges::any_of(view.entries(), [&](const fsdp_entry &entry) {
    return entry.kind == FSDP_ALL_GATHER_START && entry.target == index &&
           view.gathersEncoded(entry);
  });
  if (isEncoded)
    return ", gathered as encoded bytes";
  return view.hasGatherCopy(group) ? format(", gathered as %s", dtypeName(group.gather_dtype)) : "";
}

/// How the gradients of a group are reduced, if not by a plain average.
static std::string reductionText(const PlanView &view, uint32_t group) {
  static constexpr const char *ops[] = {"avg", "sum", "premul_sum"};
  std::string text;
  bool isPlain = true;
  for (fsdp_entry_kind kind : {FSDP_REDUCE_SCATTER_START, FSDP_ALL_REDUCE_START})
    for (const fsdp_entry &entry : view.entries()) {
      if (entry.kind != kind || entry.target != group)
        continue;
      text += format("%s%s", text.empty() ? ", reduced by " : ", then ", ops[entry.reduce_op]);
      if (entry.predivide != 0)
        text += format(" predivide %g", entry.predivide);
      if (entry.postdivide != 0)
        text += format(" postdivide %g", entry.postdivide);
      isPlain &= entry.reduce_op == FSDP_AVERAGE;
      break; // the reductions of other microbatches are the same
    }
  return isPlain ? "" : text;
}

/// The dtypes of the optimizer's states that differ from the parameters'.
static std::string stateDtypesText(const PlanView &view, const fsdp_group &group) {
  std::string text;
  if (group.trained_elements > 0 && view.hasOwnStateDtype(group))
    for (unsigned state = 0; state < view.numOptimizerStates(); ++state)
      text += (text.empty() ? ", optimizer state as " : ", ") +
              std::string(dtypeName(group.state_dtype[state]));
  return text;
}

static std::string groupsText(const PlanView &view) {
  int64_t elements = 0;
  for (const fsdp_parameter &parameter : view.parameters())
    elements += view.numElements(parameter);
  std::string text = format("groups: %zu, %zu parameters of %lld elements\n", view.groups().size(),
                            view.parameters().size(), static_cast<long long>(elements));
  for (const fsdp_group &group : view.groups()) {
    text += format("  %s: %u parameters, %s, %s layout, %s per rank",
                   displayName(view.string(group.name)), group.num_parameters,
                   dtypeName(group.dtype), group.layout == FSDP_LAYOUT_FLAT ? "flat" : "per-param",
                   bytesText(view.shardBytes(group)).c_str());
    if (group.shards != view.meshShards())
      text += format(", over %u ranks", group.shards);
    text += gatherText(view, group);
    if (group.reduce_dtype != group.dtype)
      text += format(", reduced as %s", dtypeName(group.reduce_dtype));
    text += stateDtypesText(view, group);
    if (group.trained_elements == 0)
      text += ", frozen";
    else if (group.trained_elements < group.shard_elements)
      text += format(", %s of them trained", bytesText(view.trainedBytes(group)).c_str());
    text += reductionText(view, static_cast<uint32_t>(&group - view.groups().data())) + '\n';
    // Of parameters, by the dimension on which they are sharded.
    std::map<uint32_t, std::string> names;
    for (const fsdp_parameter &parameter : view.parametersOf(group)) {
      std::string &list = names[parameter.shard_dim];
      list += (list.empty() ? "" : ", ") + std::string(view.string(parameter.name));
    }
    names.erase(0);
    for (const auto &[dim, list] : names)
      text += format("    cut on dimension %u: %s\n", dim, list.c_str());
  }
  return text;
}

static std::string collectivesText(const PlanView &view) {
  struct Sum {
    int64_t count = 0, bytes = 0;
  };
  static constexpr fsdp_entry_kind starts[] = {FSDP_ALL_GATHER_START, FSDP_REDUCE_SCATTER_START,
                                               FSDP_ALL_REDUCE_START};
  std::array<std::array<Sum, 2>, 3> sums; // by kind, phase
  for (const fsdp_entry &entry : view.entries())
    for (unsigned kind = 0; kind < 3; ++kind) {
      if (entry.kind != starts[kind])
        continue;
      Sum &sum = sums[kind][entry.phase == FSDP_BACKWARD];
      sum.count += 1;
      // An all-reduce moves shards.
      sum.bytes +=
          entry.kind == FSDP_ALL_GATHER_START
              ? entry.bytes * view.communicatorOf(entry).ranks
              : entry.count * int64_t(elementBytes(entry.dtype)) *
                    (entry.kind == FSDP_REDUCE_SCATTER_START ? view.groups()[entry.target].shards
                                                             : 1);
    }
  std::string text = "collectives per step:";
  bool any = false;
  int64_t norms = 0, amaxes = 0, amaxBytes = 0, ofModel = 0;
  for (const fsdp_entry &entry : view.entries()) {
    norms += entry.kind == FSDP_NORM_ALL_REDUCE_START;
    amaxes += entry.kind == FSDP_AMAX_ALL_REDUCE_START;
    amaxBytes += entry.kind == FSDP_AMAX_ALL_REDUCE_START ? entry.bytes : 0;
    ofModel += isOfModel(entry);
  }
  const char *kinds[] = {"all_gather", "reduce_scatter", "all_reduce"};
  const char *phases[] = {"forward", "backward"};
  for (unsigned kind = 0; kind < 3; ++kind)
    for (unsigned phase = 0; phase < 2; ++phase)
      if (const Sum &sum = sums[kind][phase]; sum.count) {
        text += format("\n  %s in %s: %lld, %s %s", kinds[kind], phases[phase],
                       static_cast<long long>(sum.count), bytesText(sum.bytes).c_str(),
                       starts[kind] == FSDP_ALL_REDUCE_START ? "of shards" : "whole");
        any = true;
      }
  if (norms)
    text += format("\n  all_reduce of the gradients' norm: %lld, 8 bytes",
                   static_cast<long long>(norms));
  if (amaxes)
    text += format("\n  all_reduce of the parameters' amax: %lld, %s",
                   static_cast<long long>(amaxes), bytesText(amaxBytes).c_str());
  if (ofModel)
    text += format("\n  of the model's own code: %lld", static_cast<long long>(ofModel));
  return text + (any || ofModel ? "\n" : " none\n");
}

PlanMemory fsdp::rt::memoryOf(const PlanView &view) {
  PlanMemory memory;
  for (const fsdp_group &group : view.groups()) {
    const bool isOnHost = view.areParametersOnHost(group);
    memory.shards += isOnHost ? 0 : view.shardBytes(group);
    for (unsigned state = 0; state < view.numOptimizerStates(); ++state)
      memory.optimizerState += view.isStateOnHost(group) ? 0 : view.stateBytes(group, state);
    const int64_t copyBytes = view.hasGatherCopy(group) ? view.gatherShardBytes(group) : 0;
    memory.gatherCopies += isOnHost ? 0 : copyBytes;
    memory.hostParameters += isOnHost ? view.shardBytes(group) + copyBytes : 0;
  }
  // Buffers, inputs and constants may share a place; count each once.
  std::set<int64_t> seen;
  auto add = [&](uint32_t index) {
    const fsdp_value &value = view.values()[index];
    if (value.offset >= 0 && seen.insert(value.offset).second)
      memory.tensors += view.spanBytes(value);
  };
  for (const fsdp_buffer &buffer : view.buffers())
    add(buffer.value);
  for (const fsdp_constant &constant : view.constants())
    add(constant.value);
  for (const fsdp_input &input : view.inputs())
    add(input.value);
  memory.working = view.tables().arena_bytes - memory.kept();
  bool hasState = std::ranges::any_of(
      view.groups(), [&](const fsdp_group &group) { return view.isStateOnHost(group); });
  // The waiting tensors are after the state that is kept.
  const int64_t hostBytes = view.tables().host_arena_bytes;
  int64_t firstWaiting = hostBytes;
  for (const fsdp_entry &entry : view.entries())
    if (entry.kind == FSDP_STORE_START)
      firstWaiting = std::min(firstWaiting, entry.destination);
  memory.hostWaiting = hostBytes - firstWaiting;
  memory.hostState = hasState ? firstWaiting - memory.hostParameters : 0;
  return memory;
}

static std::string memoryText(const PlanView &view) {
  const PlanMemory memory = memoryOf(view);
  int64_t copied = 0;
  for (const fsdp_entry &entry : view.entries())
    if (entry.kind == FSDP_COPY) {
      const fsdp_value &value = view.values()[entry.source_value];
      copied += view.numElements(value) * int64_t(elementBytes(value.dtype));
    }
  const fsdp_plan &plan = view.tables();
  std::string onHost;
  for (auto [bytes, what] : {std::pair(memory.hostParameters, " of parameters"),
                             {memory.hostState, " of optimizer state"},
                             {memory.hostWaiting, " of gradients, activations and chunks"}})
    if (bytes != 0)
      onHost += (onHost.empty() ? "" : ", ") + bytesText(bytes) + what;
  return "memory per rank:\n  arena: " + bytesText(plan.arena_bytes) +
         "\n  largest sum of live buffers: " + bytesText(plan.peak_live_bytes) +
         "\n  kept between steps: " + bytesText(memory.kept()) +
         (onHost.empty() ? "" : "\n  on the host: " + onHost) +
         "\n  activations, gathered parameters and gradients: " + bytesText(memory.working) +
         "\n  copied per step: " + bytesText(copied) + "\n";
}

static std::string entriesText(const PlanView &view) {
  long long calls = 0, views = 0, launches = 0;
  for (const fsdp_entry &entry : view.entries()) {
    calls += entry.kind == FSDP_CALL;
    views += entry.kind == FSDP_VIEW;
    launches += entry.kind == FSDP_KERNEL;
  }
  std::string text = format("entries: %zu, of which %lld calls and %lld views\n",
                            view.entries().size(), calls, views);
  if (launches > 0)
    text +=
        format("generated kernels: %zu, launched %lld times\n", view.kernels().size(), launches);
  return text;
}

static std::string tensorsText(const PlanView &view) {
  std::string text;
  for (const fsdp_input &input : view.inputs()) {
    const fsdp_value &value = view.values()[input.value];
    text += format("input: %s %s", view.string(input.name), dtypeName(value.dtype));
    std::string sizes;
    for (int64_t size : view.sizes(value))
      sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
    text += format("[%s]\n", sizes.c_str());
  }
  return text;
}

/// Describes the other steps of a program, without the shared state.
static std::string otherStepsText(const fsdp_plan &first) {
  std::string text;
  const std::vector<PlanView> training = trainingPlans(first);
  for (size_t i = 1; i < training.size(); ++i)
    text += "shape " + std::to_string(i + 1) + ", over the same state\n" +
            tensorsText(training[i]) + collectivesText(training[i]) + entriesText(training[i]);
  const std::vector<PlanView> evaluations = evaluationPlans(first);
  for (size_t i = 0; i < evaluations.size(); ++i)
    text += "evaluation" + (evaluations.size() == 1 ? "" : " of shape " + std::to_string(i + 1)) +
            ", over the same state\n" + tensorsText(evaluations[i]) +
            collectivesText(evaluations[i]) + entriesText(evaluations[i]);
  return text;
}

std::string fsdp::rt::describePlan(const fsdp_plan &plan) {
  PlanView view(plan);
  std::string replicas;
  if (plan.replicate_axis)
    replicas = format("%s = %u, ", view.string(plan.replicate_axis), plan.replicas);
  return format("model: %s\nmesh: %s%s = %u\n", view.string(plan.model), replicas.c_str(),
                view.string(plan.axis), view.meshShards()) +
         "optimizer: " + optimizerText(plan.optimizer, /*hasRate=*/true) +
         (view.clipsGradients() ? format(", gradients clipped to norm %g (norm_type %s)",
                                         plan.clip_grad_norm, normTypeName(plan.clip_norm_type))
                                : "") +
         (view.scalesLoss()
              ? format(
                    ", loss scale %g (growth_factor %g, backoff_factor %g, growth_interval %lld)",
                    plan.loss_scale.init, plan.loss_scale.growth_factor,
                    plan.loss_scale.backoff_factor,
                    static_cast<long long>(plan.loss_scale.growth_interval))
              : "") +
         "\n" + optimizerGroupsText(view) + tensorsText(view) + groupsText(view) +
         collectivesText(view) + memoryText(view) + entriesText(view) + otherStepsText(plan);
}
