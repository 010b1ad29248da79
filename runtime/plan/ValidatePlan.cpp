//===- ValidatePlan.cpp - A plan's tables are consistent -------------------===//

#include "plan/DType.h"
#include "plan/PlanView.h"
#include "plan/ValidateClipping.h"

#include <algorithm>
#include <vector>

using namespace fsdp::rt;

namespace {
/// Walks the tables in an order in which each check may use what was checked before it; keeps the
/// first error.
class Validator {
public:
  explicit Validator(const fsdp_plan &plan) : plan(plan), view(plan) {}

  Status run() {
    if (!checkHeader())
      return status;
    checkValues();
    checkParameters();
    checkGroups();
    checkOptimizer();
    checkNamedValues();
    checkEntries();
    if (status.ok())
      if (Status clipping = validateClipping(view); !clipping.ok())
        fail(clipping.message());
    return status;
  }

private:
  bool fail(const std::string &message) {
    if (status.ok())
      status = Status::error("invalid plan: " + message);
    return false;
  }

  /// Where a check failed, built only then.
  static std::string at(const char *table, size_t index) {
    return std::string(table) + " " + std::to_string(index);
  }

  bool checkHeader();
  void checkValues();
  void checkParameters();
  void checkGroups();
  void checkOptimizer();
  void checkNamedValues();
  void checkEntries();
  bool checkArguments(const fsdp_entry &entry, const std::string &where);
  bool checkCollective(const fsdp_entry &entry, const std::string &where);
  bool checkStateCopy(const fsdp_entry &entry, const std::string &where);

  bool index(uint32_t value, uint32_t size, const char *what, const std::string &where) {
    return value < size ||
           fail(where + ": " + what + " " + std::to_string(value) + " of " + std::to_string(size));
  }
  bool string(uint32_t offset, const std::string &where) {
    return offset < plan.num_string_bytes ||
           fail(where + ": string at byte " + std::to_string(offset) + " of " +
                std::to_string(plan.num_string_bytes));
  }
  bool list(uint64_t first, uint64_t count, const std::string &where) {
    return first + count <= plan.num_integers ||
           fail(where + ": integers [" + std::to_string(first) + ", " +
                std::to_string(first + count) + ") of " + std::to_string(plan.num_integers));
  }
  bool range(int64_t offset, int64_t bytes, const char *what, const std::string &where) {
    return (offset >= 0 && bytes >= 0 && offset <= plan.arena_bytes &&
            bytes <= plan.arena_bytes - offset) ||
           fail(where + ": " + what + " takes bytes [" + std::to_string(offset) + ", " +
                std::to_string(offset + bytes) + ") of an arena of " +
                std::to_string(plan.arena_bytes));
  }
  /// The state's place on the host, where its group has one.
  bool hostRange(const fsdp_group &group, unsigned state, const std::string &where) {
    if (!view.isStateOnHost(group))
      return true;
    int64_t offset = group.host_state[state], bytes = view.shardBytes(group);
    return (offset >= 0 && bytes <= plan.host_arena_bytes - offset) ||
           fail(where + ": its optimizer state takes bytes [" + std::to_string(offset) + ", " +
                std::to_string(offset + bytes) + ") of a host's arena of " +
                std::to_string(plan.host_arena_bytes));
  }
  bool valueOrNone(int64_t value, const std::string &where) {
    return (value >= -1 && value < static_cast<int64_t>(plan.num_values)) ||
           fail(where + ": value " + std::to_string(value) + " of " +
                std::to_string(plan.num_values));
  }

  const fsdp_plan &plan;
  PlanView view;
  Status status;
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
      !table(plan.data, plan.num_data_bytes, "data bytes"))
    return false;
  if (!plan.strings || plan.num_string_bytes == 0 || plan.strings[0] != 0 ||
      plan.strings[plan.num_string_bytes - 1] != 0)
    return fail("the string table does not begin and end with NUL");
  if (plan.world_size == 0)
    return fail("world size 0");
  if (plan.replicas == 0 || plan.world_size % plan.replicas != 0)
    return fail("world size " + std::to_string(plan.world_size) + " of " +
                std::to_string(plan.replicas) + " replicas");
  if (plan.arena_bytes < 0 || plan.peak_live_bytes < 0 || plan.peak_live_bytes > plan.arena_bytes)
    return fail("arena of " + std::to_string(plan.arena_bytes) + " bytes for " +
                std::to_string(plan.peak_live_bytes) + " live bytes");
  return string(plan.model, "model") && string(plan.axis, "axis") &&
         string(plan.replicate_axis, "replicate axis");
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

void Validator::checkParameters() {
  for (uint32_t i = 0; i < plan.num_parameters && status.ok(); ++i) {
    const fsdp_parameter &parameter = plan.parameters[i];
    std::string where = at("parameter", i);
    if (!string(parameter.name, where) ||
        !index(parameter.group, plan.num_groups, "group", where) ||
        !list(parameter.first_size, parameter.num_dims, where) ||
        !list(parameter.first_alias, parameter.num_aliases, where))
      return;
    for (int64_t alias : view.integers(parameter.first_alias, parameter.num_aliases))
      if (alias < 0 || static_cast<uint64_t>(alias) >= plan.num_string_bytes) {
        fail(where + ": alias at byte " + std::to_string(alias) + " of " +
             std::to_string(plan.num_string_bytes));
        return;
      }
    if (uint64_t(parameter.first_piece) + parameter.num_pieces > plan.num_pieces) {
      fail(where + ": pieces out of range");
      return;
    }
    const fsdp_group &group = plan.groups[parameter.group];
    int64_t elements = view.numElements(parameter), covered = 0;
    for (const fsdp_piece &piece : view.piecesOf(parameter)) {
      if (piece.parameter != i || piece.rank >= view.numShards() || piece.first < 0 ||
          piece.count < 0 || piece.count > elements - piece.first || piece.shard_offset < 0 ||
          piece.count > group.shard_elements - piece.shard_offset) {
        fail(where + " (" + view.string(parameter.name) + "): piece of rank " +
             std::to_string(piece.rank) + " out of range");
        return;
      }
      covered += piece.count;
    }
    if (covered != elements)
      fail(where + " (" + view.string(parameter.name) + "): pieces hold " +
           std::to_string(covered) + " of its " + std::to_string(elements) + " elements");
  }
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
    if (!isFloatingPoint(group.dtype)) {
      fail(where + " (" + displayName(view.string(group.name)) + "): parameters of dtype " +
           dtypeName(group.dtype) + ", expected f32, bf16, f16 or f64");
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
        !travels(group.reduce_dtype, "reduced", isWide && group.reduce_dtype == FSDP_BF16))
      return;
    if (group.layout > FSDP_LAYOUT_PER_PARAM ||
        uint64_t(group.first_parameter) + group.num_parameters > plan.num_parameters) {
      fail(where + ": layout or parameters out of range");
      return;
    }
    if (!range(group.shard, view.shardBytes(group), "its shard", where) ||
        !range(group.gather_shard, view.gatherShardBytes(group), "what it gathers", where))
      return;
    for (unsigned state = 0; state < numStates; ++state) {
      if (!range(group.state[state], view.shardBytes(group), "its optimizer state", where) ||
          !hostRange(group, state, where))
        return;
    }
  }
}

void Validator::checkOptimizer() {
  if (plan.optimizer.kind > FSDP_ADAMW)
    fail("unknown optimizer " + std::to_string(plan.optimizer.kind));
}

void Validator::checkNamedValues() {
  if (!status.ok())
    return;
  auto placed = [&](uint32_t name, uint32_t value, const std::string &where) {
    return string(name, where) && index(value, plan.num_values, "value", where) &&
           (!view.isUndefined(plan.values[value]) || fail(where + ": its value has no place"));
  };
  for (uint32_t i = 0; i < plan.num_inputs; ++i)
    if (!placed(plan.inputs[i].name, plan.inputs[i].value, at("input", i)))
      return;
  for (uint32_t i = 0; i < plan.num_buffers; ++i)
    if (!placed(plan.buffers[i].name, plan.buffers[i].value, at("buffer", i)))
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

bool Validator::checkArguments(const fsdp_entry &entry, const std::string &where) {
  if (uint64_t(entry.first_argument) + entry.num_arguments > plan.num_arguments)
    return fail(where + ": arguments out of range");
  for (const fsdp_argument &argument : view.arguments(entry)) {
    switch (argument.kind) {
    case FSDP_ARG_VALUE:
      if (!index(argument.index, plan.num_values, "value", where))
        return false;
      break;
    case FSDP_ARG_VALUE_LIST:
      if (!list(argument.index, argument.count, where))
        return false;
      for (int64_t value : view.integers(argument.index, argument.count))
        if (!valueOrNone(value, where))
          return false;
      break;
    case FSDP_ARG_INT_LIST:
    case FSDP_ARG_FLOAT_LIST:
    case FSDP_ARG_BOOL_LIST:
      if (!list(argument.index, argument.count, where))
        return false;
      break;
    case FSDP_ARG_STRING:
      if (!string(argument.index, where))
        return false;
      break;
    case FSDP_ARG_DTYPE:
      if (elementBytes(static_cast<uint32_t>(argument.payload.integer)) == 0)
        return fail(where + ": unknown dtype " + std::to_string(argument.payload.integer));
      break;
    default:
      if (argument.kind > FSDP_ARG_LAYOUT)
        return fail(where + ": argument of unknown kind " + std::to_string(argument.kind));
    }
  }
  if (!list(entry.first_result, entry.num_results, where))
    return false;
  for (int64_t value : view.results(entry))
    if (!valueOrNone(value, where))
      return false;
  return true;
}

bool Validator::checkCollective(const fsdp_entry &entry, const std::string &where) {
  const fsdp_group &group = plan.groups[entry.target];
  int64_t ranks = view.numShards();
  bool isAcross = entry.kind == FSDP_ALL_REDUCE_START; // the replicas, whose stream is its own
  if (entry.stream == FSDP_COMPUTE || entry.stream > FSDP_REPLICATE ||
      isAcross != (entry.stream == FSDP_REPLICATE))
    return fail(where + ": a collective on stream " + std::to_string(entry.stream));
  if (entry.kind == FSDP_ALL_GATHER_START) {
    if (entry.bytes != view.gatherShardBytes(group))
      return fail(where + ": gathers " + std::to_string(entry.bytes) +
                  " bytes per rank, a shard has " + std::to_string(view.gatherShardBytes(group)));
    if (entry.dtype != group.gather_dtype || entry.source != group.gather_shard)
      return fail(where + ": gathers " + dtypeName(entry.dtype) + " from " +
                  std::to_string(entry.source) + ", its group " + dtypeName(group.gather_dtype) +
                  " from " + std::to_string(group.gather_shard));
    return range(entry.source, entry.bytes, "its input", where) &&
           range(entry.destination, entry.bytes * ranks, "its output", where);
  }
  if (entry.count != group.shard_elements || elementBytes(entry.dtype) == 0)
    return fail(where + ": reduces " + std::to_string(entry.count) +
                " elements per rank, a shard has " + std::to_string(group.shard_elements));
  if (entry.dtype != group.reduce_dtype)
    return fail(where + ": reduces " + dtypeName(entry.dtype) + ", its group " +
                dtypeName(group.reduce_dtype));
  int64_t bytes = entry.count * static_cast<int64_t>(elementBytes(entry.dtype));
  if (isAcross)
    return range(entry.destination, bytes, "it", where);
  return range(entry.source, bytes * ranks, "its input", where) &&
         range(entry.destination, bytes, "its output", where);
}

/// True if the all-reduce goes on with the result of `reduction`, which may be null.
static bool continues(const fsdp_entry &across, const fsdp_entry *reduction) {
  return reduction && reduction->kind == FSDP_REDUCE_SCATTER_START &&
         reduction->target == across.target && reduction->destination == across.destination;
}

bool Validator::checkStateCopy(const fsdp_entry &entry, const std::string &where) {
  const fsdp_group &group = plan.groups[entry.target];
  uint8_t expected =
      entry.kind == FSDP_FETCH_STATE_START ? FSDP_HOST_TO_DEVICE : FSDP_DEVICE_TO_HOST;
  if (!view.isStateOnHost(group))
    return fail(where + ": copies optimizer state of group \"" +
                displayName(view.string(group.name)) + "\", which is not on the host");
  if (entry.stream != expected)
    return fail(where + ": a copy of optimizer state on stream " + std::to_string(entry.stream) +
                ", expected " + std::to_string(expected));
  return entry.bytes == view.shardBytes(group) ||
         fail(where + ": copies " + std::to_string(entry.bytes) + " bytes per state, a shard has " +
              std::to_string(view.shardBytes(group)));
}

void Validator::checkEntries() {
  if (!status.ok())
    return;
  std::vector<uint8_t> inFlight(plan.num_handles, 0);
  std::vector<const fsdp_entry *> startOf(plan.num_handles, nullptr); // the newest
  for (uint32_t i = 0; i < plan.num_entries && status.ok(); ++i) {
    const fsdp_entry &entry = plan.entries[i];
    std::string where = at("entry", i);
    if (!string(entry.module, where) || !string(entry.location, where) ||
        !string(entry.callee, where) || !string(entry.overload, where))
      return;
    switch (entry.kind) {
    case FSDP_CALL:
    case FSDP_VIEW:
      checkArguments(entry, where);
      break;
    case FSDP_ALL_GATHER_START:
    case FSDP_REDUCE_SCATTER_START:
    case FSDP_ALL_REDUCE_START:
      if (!index(entry.target, plan.num_groups, "group", where) ||
          !index(entry.handle, plan.num_handles, "handle", where) || !checkCollective(entry, where))
        return;
      if (entry.expected_ns < 0)
        fail(where + ": expected to take " + std::to_string(entry.expected_ns) + " ns");
      if (entry.coalesced && (i == 0 || plan.entries[i - 1].kind != entry.kind ||
                              plan.entries[i - 1].stream != entry.stream))
        fail(where + ": coalesced, but not behind a start of its kind on its stream");
      if (inFlight[entry.handle]++)
        fail(where + ": handle " + std::to_string(entry.handle) + " is already in flight");
      startOf[entry.handle] = &entry;
      if (entry.kind == FSDP_ALL_REDUCE_START &&
          index(entry.after, plan.num_handles, "handle", where) &&
          !continues(entry, startOf[entry.after]))
        fail(where + ": goes on with handle " + std::to_string(entry.after) +
             ", which is no reduce_scatter of its group to its place");
      break;
    case FSDP_FETCH_STATE_START:
    case FSDP_STORE_STATE_START:
      if (!index(entry.target, plan.num_groups, "group", where) ||
          !index(entry.handle, plan.num_handles, "handle", where) || !checkStateCopy(entry, where))
        return;
      if (inFlight[entry.handle]++)
        fail(where + ": handle " + std::to_string(entry.handle) + " is already in flight");
      break;
    case FSDP_SQUARE_SUM_ALL_REDUCE_START:
      if (!index(entry.handle, plan.num_handles, "handle", where))
        return;
      if (inFlight[entry.handle]++)
        fail(where + ": handle " + std::to_string(entry.handle) + " is already in flight");
      startOf[entry.handle] = &entry;
      break;
    case FSDP_SQUARE_SUM:
    case FSDP_CLIP_FACTOR:
      break; // validateClipping
    case FSDP_WAIT:
      if (!index(entry.handle, plan.num_handles, "handle", where))
        return;
      if (!inFlight[entry.handle])
        fail(where + ": waits for handle " + std::to_string(entry.handle) +
             ", which is not in flight");
      else
        inFlight[entry.handle] = 0;
      break;
    case FSDP_RELEASE:
      index(entry.target, plan.num_groups, "group", where);
      break;
    case FSDP_COPY: {
      if (!index(entry.source_value, plan.num_values, "value", where) ||
          !index(entry.destination_value, plan.num_values, "value", where))
        return;
      const fsdp_value &source = plan.values[entry.source_value];
      const fsdp_value &destination = plan.values[entry.destination_value];
      std::span<const int64_t> from = view.sizes(source), to = view.sizes(destination);
      if (!std::equal(from.begin(), from.end(), to.begin(), to.end()) ||
          source.dtype != destination.dtype || view.isUndefined(source) ||
          view.isUndefined(destination))
        fail(where + ": copies " + view.describeValue(source) + " to " +
             view.describeValue(destination));
      break;
    }
    case FSDP_ZERO:
      range(entry.destination, entry.bytes, "it", where);
      break;
    case FSDP_UPDATE:
      if (index(entry.target, plan.num_groups, "group", where)) {
        const fsdp_group &group = plan.groups[entry.target];
        auto bytes = static_cast<int64_t>(elementBytes(group.reduce_dtype));
        range(entry.source, group.shard_elements * bytes, "its gradient", where);
      }
      break;
    default:
      fail(where + ": unknown kind " + std::to_string(entry.kind));
    }
  }
  for (uint32_t handle = 0; handle < plan.num_handles && status.ok(); ++handle)
    if (inFlight[handle])
      fail("nothing waits for handle " + std::to_string(handle));
}

Status fsdp::rt::validatePlan(const fsdp_plan &plan) { return Validator(plan).run(); }
