//===- ValidatePlan.cpp - Checks a plan's tables --------------------------===//

#include "DType.h"
#include "fsdp/Plan/Optimizers.h"
#include "plan/PlanChecks.h"
#include "plan/Saturate.h"
#include "plan/ValidateClipping.h"
#include "plan/ValidateEntries.h"

#include <algorithm>
#include <cmath>

using namespace fsdp::rt;

namespace {
/// Walks the tables in an order in which each check may rely on the earlier ones; keeps the first
/// error.
class Validator : PlanChecks {
public:
  explicit Validator(const PlanView &view) : PlanChecks(view) {}

  Status run() {
    if (!checkHeader() || !checkCommunicators())
      return status;
    checkValues();
    checkKernels();
    checkParameters();
    checkGroups();
    checkOptimizer();
    checkNamedValues();
    if (status.ok())
      status = validateEntries(view);
    if (status.ok())
      if (Status clipping = validateClipping(view); !clipping.ok())
        fail(clipping.message());
    return status;
  }

private:
  bool checkHeader();
  bool checkCommunicators();
  void checkValues();
  void checkKernels();
  void checkParameters();
  bool checkStateDtype(const fsdp_group &group, unsigned state, const std::string &where);
  void checkGroups();
  void checkOptimizer();
  void checkNamedValues();
  bool checkMicrobatch(uint32_t index);
  bool hostRange(int64_t offset, int64_t bytes, const char *what, const std::string &where) {
    return (offset >= 0 && bytes <= plan.host_arena_bytes - offset) ||
           fail(where + ": " + what + " takes " + describeBytes(offset, bytes) +
                " of a host's arena of " + std::to_string(plan.host_arena_bytes));
  }
  /// Checks the offsets of a group's parameters. The validation of entries checks what an update
  /// fetches.
  bool checkParametersPlace(const fsdp_group &group, const std::string &where) {
    const int64_t bytes = view.shardBytes(group), gathered = view.gatherShardBytes(group);
    if (view.areParametersOnHost(group))
      return hostRange(group.host_shard, bytes, "its shard", where) &&
             hostRange(group.host_gather_shard, gathered, "what it gathers", where);
    return range(group.shard, bytes, "its shard", where) &&
           range(group.gather_shard, gathered, "what it gathers", where);
  }
};
} // namespace

static bool isFloatingPoint(uint32_t dtype) {
  return dtype == FSDP_F32 || dtype == FSDP_BF16 || dtype == FSDP_F16 || dtype == FSDP_F64;
}

bool Validator::checkHeader() {
  if (plan.abi_version != FSDP_PLAN_ABI_VERSION)
    return fail("ABI version " + std::to_string(plan.abi_version) + ", this runtime speaks " +
                std::to_string(FSDP_PLAN_ABI_VERSION) + "; compile the step again");
  if (plan.struct_bytes != sizeof(fsdp_plan))
    return fail("header of " + std::to_string(plan.struct_bytes) + " bytes, expected " +
                std::to_string(sizeof(fsdp_plan)));
  auto table = [&](const void *pointer, uint64_t count, const char *name) {
    return pointer || count == 0 ||
           fail(std::to_string(count) + " " + name + " but no table of them");
  };
  if (!table(plan.values, plan.num_values, "values") ||
      !table(plan.arguments, plan.num_arguments, "arguments") ||
      !table(plan.entries, plan.num_entries, "entries") ||
      !table(plan.inputs, plan.num_inputs, "inputs") ||
      !table(plan.buffers, plan.num_buffers, "buffers") ||
      !table(plan.constants, plan.num_constants, "constants") ||
      !table(plan.groups, plan.num_groups, "groups") ||
      !table(plan.parameters, plan.num_parameters, "parameters") ||
      !table(plan.pieces, plan.num_pieces, "pieces") ||
      !table(plan.integers, plan.num_integers, "integers") ||
      !table(plan.optimizer_groups, plan.num_optimizer_groups, "optimizer groups") ||
      !table(plan.communicators, plan.num_communicators, "communicators") ||
      !table(plan.kernels, plan.num_kernels, "kernels") ||
      !table(plan.data, plan.num_data_bytes, "data bytes") ||
      !table(plan.gpu_code, plan.num_gpu_code_bytes, "bytes of GPU code"))
    return false;
  if (plan.num_gpu_code_bytes > 0 && plan.gpu_code[plan.num_gpu_code_bytes - 1] != 0)
    return fail("the GPU code does not end with NUL");
  if (!plan.strings || plan.num_string_bytes == 0 || plan.strings[0] != 0 ||
      plan.strings[plan.num_string_bytes - 1] != 0)
    return fail("the string table does not begin and end with NUL");
  if (plan.world_size == 0)
    return fail("world size 0");
  if (plan.replicas == 0 || plan.world_size % plan.replicas != 0)
    return fail("world size " + std::to_string(plan.world_size) + " of " +
                std::to_string(plan.replicas) + " replicas");
  if (plan.num_handles > plan.num_entries)
    return fail(std::to_string(plan.num_handles) + " handles of " +
                std::to_string(plan.num_entries) + " entries");
  if (plan.step_kind > FSDP_EVALUATION)
    return fail("a step of unknown kind " + std::to_string(plan.step_kind));
  if (view.isEvaluation() && (plan.num_microbatches != 1 || plan.clip_grad_norm != 0))
    return fail("an evaluation of " + std::to_string(plan.num_microbatches) +
                " microbatches that clips to norm " + std::to_string(plan.clip_grad_norm));
  for (double figure : {plan.model_flops, plan.bound_ns})
    if (!(figure >= 0 && std::isfinite(figure)))
      return fail("model_flops " + std::to_string(plan.model_flops) + " and bound_ns " +
                  std::to_string(plan.bound_ns));
  if (plan.arena_bytes < 0 || plan.peak_live_bytes < 0 || plan.peak_live_bytes > plan.arena_bytes)
    return fail("arena of " + std::to_string(plan.arena_bytes) + " bytes for " +
                std::to_string(plan.peak_live_bytes) + " live bytes");
  return string(plan.model, "model") && string(plan.axis, "axis") &&
         string(plan.replicate_axis, "replicate axis");
}

bool Validator::checkCommunicators() {
  for (uint32_t i = 0; i < plan.num_communicators; ++i) {
    const fsdp_communicator &communicator = plan.communicators[i];
    std::string where = at("communicator", i);
    if (!string(communicator.name, where) || !string(communicator.axes, where))
      return false;
    uint64_t span = uint64_t(communicator.ranks) * communicator.stride;
    if (span == 0 || span > plan.world_size || plan.world_size % span != 0)
      return fail(where + " (" + view.string(communicator.name) +
                  "): " + std::to_string(communicator.ranks) + " ranks with stride " +
                  std::to_string(communicator.stride) + ", of " + std::to_string(plan.world_size));
    if (communicator.stream > FSDP_REPLICATE)
      return fail(where + " (" + view.string(communicator.name) + "): on stream " +
                  std::to_string(communicator.stream));
    if (communicator.by_copy_engine > (communicator.stream == FSDP_GATHER ? 1u : 0u))
      return fail(where + " (" + view.string(communicator.name) + "): by_copy_engine is " +
                  std::to_string(communicator.by_copy_engine) + " on stream " +
                  std::to_string(communicator.stream));
  }
  return true;
}

void Validator::checkValues() {
  for (uint32_t i = 0; i < plan.num_values; ++i) {
    const fsdp_value &value = plan.values[i];
    std::string where = at("value", i);
    if (!string(value.name, where) || !list(value.first_size, 2ull * value.num_dims, where))
      return;
    if (elementBytes(value.dtype) == 0) {
      fail(where + ": unknown dtype " + std::to_string(value.dtype));
      return;
    }
    for (int64_t number : view.integers(value.first_size, 2 * value.num_dims))
      if (number < 0) {
        fail(where + ": negative size or stride " + std::to_string(number));
        return;
      }
    if (value.offset != -1 && !range(value.offset, view.spanBytes(value), "it", where))
      return;
    if (value.offset > 0 && value.offset % static_cast<int64_t>(elementBytes(value.dtype)) != 0) {
      fail(where + ": offset " + std::to_string(value.offset) + " is not a multiple of its dtype " +
           dtypeName(value.dtype));
      return;
    }
  }
  if (plan.loss_value >= plan.num_values)
    fail("the loss is value " + std::to_string(plan.loss_value) + " of " +
         std::to_string(plan.num_values));
  else if (view.numElements(plan.values[plan.loss_value]) != 1 ||
           plan.values[plan.loss_value].offset < 0)
    fail("the loss " + view.describeValue(plan.values[plan.loss_value]) + " is not one number");
}

void Validator::checkKernels() {
  for (uint32_t i = 0; i < plan.num_kernels; ++i) {
    const fsdp_kernel &kernel = plan.kernels[i];
    const std::string where = at("kernel", i);
    if (!string(kernel.name, where) || !string(kernel.code, where) ||
        !string(kernel.operators, where))
      return;
    if (kernel.units < 1 || kernel.grain < 1)
      fail(where + ": " + std::to_string(kernel.units) + " units of work, " +
           std::to_string(kernel.grain) + " for a thread, expected at least 1");
    // Limits of grid and block on all GPUs.
    const bool isForGpus = plan.num_gpu_code_bytes > 0;
    if (isForGpus ? kernel.gpu_blocks < 1 || kernel.gpu_blocks > INT32_MAX ||
                        kernel.gpu_threads < 1 || kernel.gpu_threads > 1024
                  : kernel.gpu_blocks != 0 || kernel.gpu_threads != 0)
      fail(where + ": " + std::to_string(kernel.gpu_blocks) + " blocks of " +
           std::to_string(kernel.gpu_threads) + " threads, expected " +
           (isForGpus ? "1 to 2147483647 of 1 to 1024" : "0 of 0 in a plan without GPU code"));
  }
}

void Validator::checkParameters() {
  for (uint32_t i = 0; i < plan.num_parameters && status.ok(); ++i) {
    const fsdp_parameter &parameter = plan.parameters[i];
    std::string where = at("parameter", i);
    if (!string(parameter.name, where) ||
        !index(parameter.group, plan.num_groups, "group", where) ||
        !index(parameter.optimizer, plan.num_optimizer_groups + 1, "optimizer", where) ||
        !list(parameter.first_size, parameter.num_dims, where) ||
        !aliases(parameter.first_alias, parameter.num_aliases, where))
      return;
    if (uint64_t(parameter.first_piece) + parameter.num_pieces > plan.num_pieces) {
      fail(where + ": pieces out of range");
      return;
    }
    const fsdp_group &group = plan.groups[parameter.group];
    if (parameter.shard_dim != 0 &&
        (parameter.shard_dim >= parameter.num_dims || group.layout != FSDP_LAYOUT_PER_PARAM)) {
      fail(where + " (" + view.string(parameter.name) + "): cut on dimension " +
           std::to_string(parameter.shard_dim) + " of " + std::to_string(parameter.num_dims) +
           (group.layout == FSDP_LAYOUT_PER_PARAM ? "" : ", in the flat layout"));
      return;
    }
    int64_t elements = view.numElements(parameter), covered = 0;
    const PlanView::Runs runs = view.runsOf(parameter);
    // A shard on a dimension after the first has whole entries of that dimension, and each run is
    // within one entry of the outer dimensions.
    auto isInside = [&](const fsdp_piece &piece) {
      if (piece.first < 0 || piece.count < 0 || runs.count <= 0 || piece.count % runs.count != 0)
        return false;
      const int64_t run = piece.count / runs.count;
      const bool isWhole = runs.entry > 0 && piece.first % runs.entry == 0 && run % runs.entry == 0;
      return run <= runs.stride - piece.first && (parameter.shard_dim == 0 || isWhole);
    };
    for (const fsdp_piece &piece : view.piecesOf(parameter)) {
      if (piece.parameter != i || piece.rank >= group.shards || !isInside(piece) ||
          piece.shard_offset < 0 || piece.count > group.shard_elements - piece.shard_offset) {
        fail(where + " (" + view.string(parameter.name) + "): piece of rank " +
             std::to_string(piece.rank) + " out of range");
        return;
      }
      covered = add(covered, piece.count);
    }
    if (covered != elements)
      fail(where + " (" + view.string(parameter.name) + "): pieces hold " +
           std::to_string(covered) + " of its " + std::to_string(elements) + " elements");
  }
}

bool Validator::checkStateDtype(const fsdp_group &group, unsigned state, const std::string &where) {
  const uint32_t dtype = group.state_dtype[state];
  const bool isComputedIn32 =
      group.dtype == FSDP_F32 || group.dtype == FSDP_BF16 || group.dtype == FSDP_F16;
  return dtype == group.dtype || (isComputedIn32 && (dtype == FSDP_F32 || dtype == FSDP_BF16)) ||
         fail(where + " (" + displayName(view.string(group.name)) + "): optimizer state of dtype " +
              dtypeName(dtype) + " with parameters of " + dtypeName(group.dtype));
}

void Validator::checkGroups() {
  if (!status.ok())
    return;
  unsigned numStates = view.numOptimizerStates();
  for (uint32_t i = 0; i < plan.num_groups; ++i) {
    const fsdp_group &group = plan.groups[i];
    std::string where = at("group", i);
    if (!string(group.name, where))
      return;
    if (elementBytes(group.dtype) == 0 ||
        (group.trained_elements != 0 && !isFloatingPoint(group.dtype))) {
      fail(where + " (" + displayName(view.string(group.name)) + "): parameters of dtype " +
           dtypeName(group.dtype) + ", expected f32, bf16, f16 or f64, or frozen parameters");
      return;
    }
    auto travels = [&](uint32_t dtype, const char *verb, bool allowed) {
      return dtype == group.dtype || allowed ||
             fail(where + " (" + displayName(view.string(group.name)) + "): " + verb + " as " +
                  dtypeName(dtype) + " with parameters of " + dtypeName(group.dtype));
    };
    bool isWide = group.dtype == FSDP_F32;
    if (!travels(group.gather_dtype, "gathered",
                 isWide && (group.gather_dtype == FSDP_BF16 || group.gather_dtype == FSDP_F16)) ||
        !travels(group.reduce_dtype, "reduced",
                 isWide && (group.reduce_dtype == FSDP_BF16 || group.reduce_dtype == FSDP_F16)))
      return;
    if (group.layout > FSDP_LAYOUT_PER_PARAM ||
        uint64_t(group.first_parameter) + group.num_parameters > plan.num_parameters) {
      fail(where + ": layout or parameters out of range");
      return;
    }
    if (group.shards == 0 || plan.world_size % group.shards != 0) {
      fail(where + " (" + displayName(view.string(group.name)) + "): sharded over " +
           std::to_string(group.shards) + " of " + std::to_string(plan.world_size) + " ranks");
      return;
    }
    if (uint32_t ranks = group.chunk_ranks;
        ranks && (ranks >= group.shards || group.shards % ranks != 0)) {
      fail(where + " (" + displayName(view.string(group.name)) + "): chunks over " +
           std::to_string(ranks) + " of " + std::to_string(group.shards) + " ranks");
      return;
    }
    if (!checkParametersPlace(group, where))
      return;
    if (group.trained_elements < 0 || group.trained_elements > group.shard_elements) {
      fail(where + ": " + std::to_string(group.trained_elements) +
           " trained elements of a shard of " + std::to_string(group.shard_elements));
      return;
    }
    for (unsigned state = 0; state < numStates && group.trained_elements > 0; ++state) {
      if (!checkStateDtype(group, state, where))
        return;
      const int64_t bytes = view.stateBytes(group, state);
      if (!range(group.state[state], bytes, "its optimizer state", where) ||
          (view.isStateOnHost(group) &&
           !hostRange(group.host_state[state], bytes, "its optimizer state", where)))
        return;
    }
  }
}

void Validator::checkOptimizer() {
  const fsdp_optimizer &shared = plan.optimizer;
  if (shared.kind >= FSDP_NUM_OPTIMIZER_KINDS) {
    fail("unknown optimizer " + std::to_string(shared.kind));
    return;
  }
  uint32_t known = 0;
  for (const fsdp::plan::OptimizerDefault &option :
       fsdp::plan::defaultsOf(fsdp::plan::kindOf(shared)))
    known |= fsdp::plan::findOption(option.option)->flag;
  if (shared.options & ~known)
    fail("the optimizer has unknown options " + std::to_string(shared.options & ~known));
  for (uint32_t i = 0; i < plan.num_optimizer_groups; ++i) {
    const fsdp_optimizer &group = plan.optimizer_groups[i];
    if (group.kind != shared.kind || (group.options & ~FSDP_OWN_LR) != shared.options ||
        std::ranges::any_of(
            fsdp::plan::kOptimizerOptions, [&](const fsdp::plan::OptimizerOption &option) {
              return !option.isOfGroups && option.valueOf(group) != option.valueOf(shared);
            }))
      fail(at("optimizer group", i) + ": of another kind, or with other options or momentum, than "
                                      "the plan's optimizer");
  }
}

/// Checks that the inputs of a microbatch are consecutive and equal those of the first microbatch.
bool Validator::checkMicrobatch(uint32_t index) {
  if (plan.num_microbatches == 0 || plan.num_inputs % plan.num_microbatches != 0)
    return fail(std::to_string(plan.num_inputs) + " inputs of " +
                std::to_string(plan.num_microbatches) + " microbatches");
  const uint32_t perMicrobatch = plan.num_inputs / plan.num_microbatches;
  const fsdp_input &input = plan.inputs[index], &first = plan.inputs[index % perMicrobatch];
  auto sizes = view.sizes(plan.values[input.value]),
       expected = view.sizes(plan.values[first.value]);
  return (input.microbatch == index / perMicrobatch && input.name == first.name &&
          plan.values[input.value].dtype == plan.values[first.value].dtype &&
          std::equal(sizes.begin(), sizes.end(), expected.begin(), expected.end())) ||
         fail(at("input", index) + " (" + view.string(input.name) + "): of microbatch " +
              std::to_string(input.microbatch) + ", expected what the first has as \"" +
              view.string(first.name) + "\" in microbatch " +
              std::to_string(index / perMicrobatch));
}

void Validator::checkNamedValues() {
  if (!status.ok())
    return;
  auto placed = [&](uint32_t name, uint32_t value, const std::string &where) {
    return string(name, where) && index(value, plan.num_values, "value", where) &&
           (!view.isUndefined(plan.values[value]) || fail(where + ": its value has no place"));
  };
  for (uint32_t i = 0; i < plan.num_inputs; ++i)
    if (!placed(plan.inputs[i].name, plan.inputs[i].value, at("input", i)) || !checkMicrobatch(i))
      return;
  for (uint32_t i = 0; i < plan.num_buffers; ++i)
    if (const fsdp_buffer &buffer = plan.buffers[i];
        !placed(buffer.name, buffer.value, at("buffer", i)) ||
        !aliases(buffer.first_alias, buffer.num_aliases, at("buffer", i)))
      return;
  for (uint32_t i = 0; i < plan.num_constants; ++i) {
    const fsdp_constant &constant = plan.constants[i];
    std::string where = at("constant", i);
    if (!placed(0, constant.value, where))
      return;
    int64_t dataBytes = static_cast<int64_t>(plan.num_data_bytes);
    if (constant.first_byte < 0 || constant.bytes < 0 ||
        constant.bytes > dataBytes - constant.first_byte ||
        constant.bytes != view.spanBytes(plan.values[constant.value])) {
      fail(where + ": " + std::to_string(constant.bytes) + " data bytes from " +
           std::to_string(constant.first_byte) + " of " + std::to_string(dataBytes) + " for " +
           view.describeValue(plan.values[constant.value]));
      return;
    }
  }
}

Status fsdp::rt::validatePlan(const fsdp_plan &plan) { return Validator(PlanView(plan)).run(); }
