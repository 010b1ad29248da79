//===- ValidateEntries.cpp - Checks the entries of a plan -----------------===//

#include "plan/ValidateEntries.h"

#include "DType.h"
#include "plan/PlanChecks.h"
#include "plan/Saturate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

using namespace fsdp::rt;

namespace {
/// Walks the entries, with the collectives in flight at each.
class EntryValidator : PlanChecks {
public:
  explicit EntryValidator(const PlanView &view)
      : PlanChecks(view), inFlight(plan.num_handles), startOf(plan.num_handles) {}
  Status run();

private:
  bool checkArguments(const fsdp_entry &entry, const std::string &where);
  /// Checks that the start's communicator exists and belongs to its stream.
  bool checkCommunicator(const fsdp_entry &start, const std::string &where);
  bool meets(const fsdp_entry &start, uint64_t ranks, uint64_t stride, const std::string &where);
  bool checkCollective(const fsdp_entry &entry, const std::string &where);
  bool checkStateCopy(const fsdp_entry &entry, const std::string &where);
  bool checkHostCopy(const fsdp_entry &entry, const std::string &where);
  bool checkGradients(const fsdp_entry &entry, const std::string &where);
  bool checkAmax(const fsdp_entry &entry, const std::string &where);
  bool checkOfModel(const fsdp_entry &entry, const std::string &where);
  bool checkChunk(const fsdp_entry &entry, const std::string &where);
  bool checkStored(int64_t host, int64_t bytes, const std::string &where);
  bool checkKernel(const fsdp_entry &entry, const std::string &where);
  bool valueOrNone(int64_t value, const std::string &where) {
    return (value >= -1 && value < static_cast<int64_t>(plan.num_values)) ||
           fail(where + ": value " + std::to_string(value) + " of " +
                std::to_string(plan.num_values));
  }
  void start(const fsdp_entry &entry, const std::string &where) {
    if (inFlight[entry.handle]++)
      fail(where + ": handle " + std::to_string(entry.handle) + " is already in flight");
    startOf[entry.handle] = &entry;
  }

  std::vector<uint8_t> inFlight;           // by handle
  std::vector<const fsdp_entry *> startOf; // by handle, the newest
  std::map<int64_t, int64_t> storedOnHost; // by offset on the host: bytes of the newest store
};
} // namespace

bool EntryValidator::checkArguments(const fsdp_entry &entry, const std::string &where) {
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
    case FSDP_ARG_PART:
      if (argument.payload.integer < 1 || argument.payload.integer > int64_t(plan.world_size))
        return fail(where + ": an argument is the number of one of " +
                    std::to_string(argument.payload.integer) + " shards, of " +
                    std::to_string(plan.world_size) + " ranks");
      break;
    default:
      if (argument.kind > FSDP_ARG_PART)
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

bool EntryValidator::checkCommunicator(const fsdp_entry &start, const std::string &where) {
  if (!index(start.communicator, plan.num_communicators, "communicator", where))
    return false;
  const fsdp_communicator &communicator = view.communicatorOf(start);
  if (communicator.stream != start.stream)
    return fail(where + ": on stream " + std::to_string(start.stream) + ", its communicator on " +
                std::to_string(communicator.stream));
  return !communicator.by_copy_engine || start.kind == FSDP_ALL_GATHER_START ||
         fail(where + ": no gather, on a communicator of gathers by copy engines");
}

bool EntryValidator::meets(const fsdp_entry &start, uint64_t ranks, uint64_t stride,
                           const std::string &where) {
  const fsdp_communicator &communicator = view.communicatorOf(start);
  return (communicator.ranks == ranks && communicator.stride == stride) ||
         fail(where + ": " + std::to_string(communicator.ranks) + " ranks with stride " +
              std::to_string(communicator.stride) + " meet, expected " + std::to_string(ranks) +
              " with stride " + std::to_string(stride));
}

static std::string describeOnHost(int64_t host, int64_t bytes) {
  return std::to_string(bytes) + " bytes at byte " + std::to_string(host) + " of a host's arena";
}

bool EntryValidator::checkCollective(const fsdp_entry &entry, const std::string &where) {
  const fsdp_group &group = plan.groups[entry.target];
  int64_t ranks = group.shards;
  bool isAcross = entry.kind == FSDP_ALL_REDUCE_START; // over the replicas, on a stream of its own
  if (isAcross != (entry.stream == FSDP_REPLICATE))
    return fail(where + ": a collective on stream " + std::to_string(entry.stream));
  const fsdp_communicator &communicator = view.communicatorOf(entry);
  if (entry.kind == FSDP_ALL_GATHER_START) {
    bool ofChunks = view.gathersChunks(entry);
    if (ofChunks && communicator.by_copy_engine)
      return fail(where + ": gathers chunks by copy engines");
    if (!meets(entry, ofChunks ? group.chunk_ranks : ranks, 1, where))
      return false;
    if (view.gathersEncoded(entry)) {
      const bool hasPlaces = // a byte for each element, or parameters that are decoded elsewhere
          entry.bytes == group.shard_elements || group.layout == FSDP_LAYOUT_PER_PARAM;
      if (ofChunks || !hasPlaces || entry.from_host)
        return fail(where + ": gathers encoded shards, but its group keeps " +
                    (ofChunks          ? "chunks"
                     : entry.from_host ? "them on the host"
                                       : "the flat layout"));
      return range(entry.source, entry.bytes, "its input", where) &&
             range(entry.destination, multiply(entry.bytes, communicator.ranks), "its output",
                   where);
    }
    int64_t own = ofChunks ? view.chunkBytes(group) : view.gatherShardBytes(group);
    if (entry.bytes != own)
      return fail(where + ": gathers " + std::to_string(entry.bytes) + " bytes per rank, a " +
                  (ofChunks ? "chunk" : "shard") + " has " + std::to_string(own));
    const bool isOnHost = view.areParametersOnHost(group);
    const int64_t source = isOnHost ? group.host_gather_shard : group.gather_shard;
    auto place = [](int64_t offset, bool onHost) {
      return std::to_string(offset) + (onHost ? " on the host" : "");
    };
    if (entry.dtype != group.gather_dtype ||
        (!ofChunks && (entry.source != source || (entry.from_host != 0) != isOnHost)))
      return fail(where + ": gathers " + dtypeName(entry.dtype) + " from " +
                  place(entry.source, entry.from_host) + ", its group " +
                  dtypeName(group.gather_dtype) + " from " + place(source, isOnHost));
    return (entry.from_host ? !ofChunks || checkStored(entry.source, entry.bytes, where)
                            : range(entry.source, entry.bytes, "its input", where)) &&
           range(entry.destination, entry.bytes * communicator.ranks, "its output", where);
  }
  if (isAcross ? !meets(entry, plan.world_size / ranks, ranks, where)
               : !meets(entry, ranks, 1, where))
    return false;
  if (entry.count != group.trained_elements || elementBytes(entry.dtype) == 0)
    return fail(where + ": reduces " + std::to_string(entry.count) +
                " elements per rank, a shard's gradient has " +
                std::to_string(group.trained_elements));
  if (entry.dtype != group.reduce_dtype)
    return fail(where + ": reduces " + dtypeName(entry.dtype) + ", its group " +
                dtypeName(group.reduce_dtype));
  if (entry.reduce_op > FSDP_PREMUL_SUM || (isAcross && entry.reduce_op == FSDP_PREMUL_SUM))
    return fail(where + ": reduces by operation " + std::to_string(entry.reduce_op));
  for (double divisor : {entry.predivide, entry.postdivide})
    if (!std::isfinite(divisor) || divisor < 0)
      return fail(where + ": divides by " + std::to_string(divisor));
  int64_t bytes = multiply(entry.count, static_cast<int64_t>(elementBytes(entry.dtype)));
  if (isAcross)
    return range(entry.destination, bytes, "it", where);
  return range(entry.source, bytes * ranks, "its input", where) &&
         range(entry.destination, bytes, "its output", where);
}

/// The numbers of one rank and of its peers have the same places.
bool EntryValidator::checkAmax(const fsdp_entry &entry, const std::string &where) {
  if (entry.stream != FSDP_REDUCE || entry.dtype != FSDP_F32 || entry.count < 1 ||
      entry.coalesced || entry.bytes != multiply(entry.count, sizeof(float)) ||
      entry.source != entry.destination || view.communicatorOf(entry).ranks < 2)
    return fail(where + ": of " + std::to_string(entry.count) + " " + dtypeName(entry.dtype) +
                " in " + std::to_string(entry.bytes) + " bytes on stream " +
                std::to_string(entry.stream) + " over " +
                std::to_string(view.communicatorOf(entry).ranks) + " ranks");
  return range(entry.destination, entry.bytes, "it", where);
}

bool EntryValidator::checkOfModel(const fsdp_entry &entry, const std::string &where) {
  const auto elementSize = static_cast<int64_t>(elementBytes(entry.dtype));
  const int64_t bytes = multiply(entry.count, elementSize);
  const int64_t all = multiply(bytes, plan.world_size);
  const bool gathers = entry.kind == FSDP_MODEL_ALL_GATHER,
             scatters = entry.kind == FSDP_MODEL_REDUCE_SCATTER;
  if (elementSize == 0 || entry.count < 1 || entry.bytes != bytes || entry.coalesced)
    return fail(where + ": of " + std::to_string(entry.count) + " " + dtypeName(entry.dtype) +
                " in " + std::to_string(entry.bytes) + " bytes");
  const bool isKnown = entry.reduce_op == FSDP_SUM || entry.reduce_op == FSDP_AVERAGE ||
                       (entry.reduce_op == FSDP_MAX && !scatters);
  if (gathers ? entry.reduce_op != 0 : !isKnown)
    return fail(where + ": reduces by operation " + std::to_string(entry.reduce_op));
  return range(entry.source, scatters ? all : bytes, "its input", where) &&
         range(entry.destination, gathers ? all : bytes, "its output", where);
}

bool EntryValidator::checkChunk(const fsdp_entry &entry, const std::string &where) {
  const fsdp_group &group = plan.groups[entry.target];
  if (group.chunk_ranks == 0 || entry.dtype != group.gather_dtype ||
      entry.bytes != view.chunkBytes(group))
    return fail(where + ": a chunk of " + std::to_string(entry.bytes) + " bytes of " +
                dtypeName(entry.dtype) + ", expected " + std::to_string(view.chunkBytes(group)) +
                " of " + dtypeName(group.gather_dtype));
  if (!list(entry.first_result, entry.num_results, where) ||
      !range(entry.destination, entry.bytes, "it", where))
    return false;
  if (entry.num_results != group.num_parameters)
    return fail(where + ": of " + std::to_string(entry.num_results) +
                " parameters, its group has " + std::to_string(group.num_parameters));
  for (uint32_t i = 0; i < entry.num_results; ++i) {
    int64_t number = view.results(entry)[i];
    if (number < 0 || !valueOrNone(number, where))
      return fail(where + ": parameter " + std::to_string(i) + " is value " +
                  std::to_string(number));
    const fsdp_value &value = plan.values[number];
    const fsdp_parameter &parameter = plan.parameters[group.first_parameter + i];
    if (value.dtype != entry.dtype || value.offset < 0 || !view.isContiguous(value) ||
        view.numElements(value) != view.numElements(parameter))
      return fail(where + ": takes " + view.describeValue(value) + " for parameter " +
                  view.string(parameter.name));
  }
  return true;
}

bool EntryValidator::checkKernel(const fsdp_entry &entry, const std::string &where) {
  const fsdp_kernel &kernel = view.kernelOf(entry);
  if (entry.num_arguments != kernel.num_inputs || entry.num_results != kernel.num_outputs)
    return fail(where + ": " + std::to_string(entry.num_arguments) + " arguments and " +
                std::to_string(entry.num_results) + " results, its kernel has " +
                std::to_string(kernel.num_inputs) + " and " + std::to_string(kernel.num_outputs));
  if (!checkArguments(entry, where))
    return false;
  auto isPlaced = [&](int64_t value) { return value >= 0 && plan.values[value].offset >= 0; };
  for (const fsdp_argument &argument : view.arguments(entry))
    if (argument.kind != FSDP_ARG_VALUE || !isPlaced(argument.index))
      return fail(where + ": an argument of a kernel has no place in the arena");
  for (int64_t value : view.results(entry))
    if (!isPlaced(value))
      return fail(where + ": a result of a kernel has no place in the arena");
  return true;
}

/// True if the all-reduce reduces the result of `reduction`, which may be null.
static bool continues(const fsdp_entry &across, const fsdp_entry *reduction) {
  return reduction && reduction->kind == FSDP_REDUCE_SCATTER_START &&
         reduction->target == across.target && reduction->destination == across.destination;
}

bool EntryValidator::checkStateCopy(const fsdp_entry &entry, const std::string &where) {
  const fsdp_group &group = plan.groups[entry.target];
  uint8_t expected =
      entry.kind == FSDP_FETCH_STATE_START ? FSDP_HOST_TO_DEVICE : FSDP_DEVICE_TO_HOST;
  const std::vector<PlanView::HostCopy> copies = view.hostCopiesOf(group);
  if (copies.empty())
    return fail(where + ": copies optimizer state of group \"" +
                displayName(view.string(group.name)) + "\", which is not on the host");
  for (const PlanView::HostCopy &copy : copies)
    if (!range(copy.place, copy.bytes, "what it copies", where))
      return false;
  if (entry.stream != expected)
    return fail(where + ": a copy of optimizer state on stream " + std::to_string(entry.stream) +
                ", expected " + std::to_string(expected));
  const int64_t bytes = view.hostCopyBytes(group, entry.kind == FSDP_FETCH_STATE_START);
  return entry.bytes == bytes || fail(where + ": copies " + std::to_string(entry.bytes) +
                                      " bytes of state, which has " + std::to_string(bytes));
}

bool EntryValidator::checkHostCopy(const fsdp_entry &entry, const std::string &where) {
  const bool isStore = entry.kind == FSDP_STORE_START;
  const uint8_t expected = isStore ? FSDP_DEVICE_TO_HOST : FSDP_HOST_TO_DEVICE;
  if (entry.stream != expected)
    return fail(where + ": a copy to or from the host on stream " + std::to_string(entry.stream) +
                ", expected " + std::to_string(expected));
  if (!range(isStore ? entry.source : entry.destination, entry.bytes, "what it copies", where))
    return false;
  const int64_t host = isStore ? entry.destination : entry.source;
  if (host < 0 || entry.bytes > plan.host_arena_bytes || host > plan.host_arena_bytes - entry.bytes)
    return fail(where + ": " + describeOnHost(host, entry.bytes) + " of " +
                std::to_string(plan.host_arena_bytes));
  if (isStore)
    storedOnHost[host] = entry.bytes;
  return isStore || checkStored(host, entry.bytes, where);
}

/// What is fetched from the host was stored there.
bool EntryValidator::checkStored(int64_t host, int64_t bytes, const std::string &where) {
  auto stored = storedOnHost.find(host);
  return (stored != storedOnHost.end() && stored->second == bytes) ||
         fail(where + ": fetches " + describeOnHost(host, bytes) + ", which were not stored there");
}

/// Checks an entry that reads all gradients of a group.
bool EntryValidator::checkGradients(const fsdp_entry &entry, const std::string &where) {
  const fsdp_group &group = plan.groups[entry.target];
  if (entry.dtype != group.reduce_dtype && entry.dtype != group.dtype)
    return fail(where + ": gradients of " + dtypeName(entry.dtype) + ", its group has " +
                dtypeName(group.reduce_dtype));
  return entry.count == group.trained_elements ||
         fail(where + ": of " + std::to_string(entry.count) + " gradients, its group has " +
              std::to_string(group.trained_elements));
}

Status EntryValidator::run() {
  for (uint32_t i = 0; i < plan.num_entries && status.ok(); ++i) {
    const fsdp_entry &entry = plan.entries[i];
    std::string where = at("entry", i);
    if (!string(entry.module, where) || !string(entry.location, where) ||
        !string(entry.callee, where) || !string(entry.overload, where))
      return status;
    switch (entry.kind) {
    case FSDP_CALL:
    case FSDP_VIEW:
      checkArguments(entry, where);
      break;
    case FSDP_ALL_GATHER_START:
    case FSDP_REDUCE_SCATTER_START:
    case FSDP_ALL_REDUCE_START:
      if (!index(entry.target, plan.num_groups, "group", where) ||
          !index(entry.handle, plan.num_handles, "handle", where) ||
          !checkCommunicator(entry, where) || !checkCollective(entry, where))
        return status;
      if (entry.expected_ns < 0)
        fail(where + ": expected to take " + std::to_string(entry.expected_ns) + " ns");
      if (entry.coalesced && (i == 0 || plan.entries[i - 1].kind != entry.kind ||
                              plan.entries[i - 1].communicator != entry.communicator))
        fail(where + ": coalesced, but not behind a start of its kind and communicator");
      start(entry, where);
      if (entry.kind == FSDP_ALL_REDUCE_START && entry.after != FSDP_NO_HANDLE &&
          index(entry.after, plan.num_handles, "handle", where) &&
          !continues(entry, startOf[entry.after]))
        fail(where + ": goes on with handle " + std::to_string(entry.after) +
             ", which is no reduce_scatter of its group to its place");
      break;
    case FSDP_FETCH_STATE_START:
    case FSDP_STORE_STATE_START:
      if (!index(entry.target, plan.num_groups, "group", where) ||
          !index(entry.handle, plan.num_handles, "handle", where) || !checkStateCopy(entry, where))
        return status;
      start(entry, where);
      break;
    case FSDP_STORE_START:
    case FSDP_FETCH_START:
      if (!index(entry.handle, plan.num_handles, "handle", where) || !checkHostCopy(entry, where))
        return status;
      start(entry, where);
      break;
    case FSDP_SHARD_NORM:
      if (!index(entry.target, plan.num_groups, "group", where) || !checkGradients(entry, where))
        return status;
      range(entry.source, entry.count * static_cast<int64_t>(elementBytes(entry.dtype)),
            "its gradient", where);
      break;
    case FSDP_NORM_ALL_REDUCE_START:
      if (!index(entry.handle, plan.num_handles, "handle", where) ||
          !checkCommunicator(entry, where) || !meets(entry, view.normRanks(), 1, where))
        return status;
      start(entry, where);
      break;
    case FSDP_AMAX_ALL_REDUCE_START:
      if (!index(entry.handle, plan.num_handles, "handle", where) ||
          !checkCommunicator(entry, where) || !checkAmax(entry, where))
        return status;
      start(entry, where);
      break;
    case FSDP_MODEL_ALL_REDUCE:
    case FSDP_MODEL_ALL_GATHER:
    case FSDP_MODEL_REDUCE_SCATTER:
      if (!checkCommunicator(entry, where) || !meets(entry, plan.world_size, 1, where) ||
          !checkOfModel(entry, where))
        return status;
      if (entry.stream != FSDP_COMPUTE)
        fail(where + ": on stream " + std::to_string(entry.stream));
      break;
    case FSDP_PARTIAL_NORM:
    case FSDP_CLIP_FACTOR:
      break; // validateClipping
    case FSDP_WAIT:
      if (!index(entry.handle, plan.num_handles, "handle", where))
        return status;
      if (!inFlight[entry.handle])
        fail(where + ": waits for handle " + std::to_string(entry.handle) +
             ", which is not in flight");
      else
        inFlight[entry.handle] = 0;
      break;
    case FSDP_CHUNK:
      if (!index(entry.target, plan.num_groups, "group", where) || !checkChunk(entry, where))
        return status;
      break;
    case FSDP_KERNEL:
      if (index(entry.target, plan.num_kernels, "kernel", where))
        checkKernel(entry, where);
      break;
    case FSDP_RELEASE:
      index(entry.target, plan.num_groups, "group", where);
      break;
    case FSDP_COPY:
    case FSDP_ACCUMULATE: {
      if (!index(entry.source_value, plan.num_values, "value", where) ||
          !index(entry.destination_value, plan.num_values, "value", where))
        return status;
      const fsdp_value &source = plan.values[entry.source_value];
      const fsdp_value &destination = plan.values[entry.destination_value];
      std::span<const int64_t> from = view.sizes(source), to = view.sizes(destination);
      if (!std::equal(from.begin(), from.end(), to.begin(), to.end()) ||
          (entry.kind == FSDP_COPY &&
           elementBytes(source.dtype) > elementBytes(destination.dtype)) ||
          view.isUndefined(source) || view.isUndefined(destination))
        fail(where + (entry.kind == FSDP_COPY ? ": copies " : ": adds ") +
             view.describeValue(source) + " to " + view.describeValue(destination));
      break;
    }
    case FSDP_ZERO:
      range(entry.destination, entry.bytes, "it", where);
      break;
    case FSDP_UPDATE:
      if (view.isEvaluation())
        fail(where + ": an evaluation updates nothing");
      if (index(entry.target, plan.num_groups, "group", where)) {
        const fsdp_group &group = plan.groups[entry.target];
        if (entry.dtype != group.reduce_dtype && entry.dtype != group.dtype)
          fail(where + ": updates with gradients of " + dtypeName(entry.dtype) +
               ", its group has " + dtypeName(group.reduce_dtype));
        auto bytes = static_cast<int64_t>(elementBytes(entry.dtype));
        range(entry.source, group.trained_elements * bytes, "its gradient", where);
      }
      break;
    default:
      fail(where + ": unknown kind " + std::to_string(entry.kind));
    }
  }
  for (uint32_t handle = 0; handle < plan.num_handles && status.ok(); ++handle)
    if (inFlight[handle])
      fail("nothing waits for handle " + std::to_string(handle));
  return status;
}

Status fsdp::rt::validateEntries(const PlanView &view) { return EntryValidator(view).run(); }
