//===- EntryBytes.cpp - Which bytes an entry reads and writes --------------===//

#include "plan/EntryBytes.h"
#include "DType.h"

using namespace fsdp::rt;

namespace {
/// Collects ranges of a plan.
struct Ranges {
  const PlanView &view;
  std::vector<ByteRange> &list;

  void add(int64_t begin, int64_t bytes) {
    if (begin >= 0 && bytes > 0)
      list.push_back({begin, bytes});
  }
  /// All between a value's first and last element, also what it leaves out there.
  void addSpan(uint32_t value) {
    const fsdp_value &place = view.values()[value];
    add(place.offset, view.spanBytes(place));
  }
  void addStates(const fsdp_group &group) {
    for (unsigned state = 0; state < view.numOptimizerStates(); ++state)
      add(group.state[state], view.stateBytes(group));
  }
  void addHostCopies(const fsdp_group &group, bool isFetch) {
    for (const PlanView::HostCopy &copy : view.hostCopiesOf(group))
      if (copy.isFetched || !isFetch)
        add(copy.place, copy.bytes);
  }
  void addGradient(const fsdp_entry &update) {
    const fsdp_group &group = view.groups()[update.target];
    add(update.source, group.trained_elements * static_cast<int64_t>(elementBytes(update.dtype)));
  }
};
} // namespace

/// The gradients that are read at the norm itself: of groups without FSDP_SHARD_NORM.
static void addNormGradients(Ranges reads) {
  std::vector<bool> isAhead(reads.view.groups().size());
  for (const fsdp_entry &entry : reads.view.entries())
    if (entry.kind == FSDP_SHARD_NORM)
      isAhead[entry.target] = true;
  for (const fsdp_entry &entry : reads.view.entries())
    if (entry.kind == FSDP_UPDATE && !isAhead[entry.target])
      reads.addGradient(entry);
}

static void forOperands(const PlanView &view, const fsdp_entry &call, auto visit) {
  for (const fsdp_argument &argument : view.arguments(call)) {
    if (argument.kind == FSDP_ARG_VALUE)
      visit(argument.index);
    if (argument.kind == FSDP_ARG_VALUE_LIST)
      for (int64_t value : view.integers(argument.index, argument.count))
        if (value >= 0)
          visit(static_cast<uint32_t>(value));
  }
}

int64_t fsdp::rt::movedBytes(const PlanView &view, const fsdp_entry &entry) {
  if (entry.kind != FSDP_CALL && entry.kind != FSDP_KERNEL)
    return 0;
  int64_t bytes = 0;
  auto add = [&](uint32_t index) {
    const fsdp_value &value = view.values()[index];
    if (view.isUndefined(value))
      return;
    int64_t distinct = 1;
    for (uint32_t i = 0; i < value.num_dims; ++i)
      if (view.strides(value)[i] != 0 || view.sizes(value)[i] == 0)
        distinct *= view.sizes(value)[i];
    bytes += distinct * static_cast<int64_t>(elementBytes(value.dtype));
  };
  forOperands(view, entry, add);
  for (int64_t value : view.results(entry))
    if (value >= 0)
      add(static_cast<uint32_t>(value));
  return bytes;
}

EntryBytes EntryBytes::of(const PlanView &view, const fsdp_entry &entry) {
  EntryBytes result;
  Ranges reads{view, result.reads}, overwrites{view, result.overwrites};
  auto overwriteValue = [&](uint32_t value) {
    if (view.isDense(view.values()[value]))
      overwrites.addSpan(value);
  };
  const auto elementSize = static_cast<int64_t>(elementBytes(entry.dtype));
  switch (static_cast<fsdp_entry_kind>(entry.kind)) {
  case FSDP_CALL:
  case FSDP_KERNEL:
    forOperands(view, entry, [&](uint32_t value) { reads.addSpan(value); });
    for (int64_t value : view.results(entry))
      if (value >= 0)
        overwriteValue(static_cast<uint32_t>(value));
    return result;
  case FSDP_VIEW:
  case FSDP_WAIT:
  case FSDP_RELEASE:
    return result;
  case FSDP_ALL_GATHER_START:
    result.untilWait = true;
    if (!view.gathersFromHost(entry))
      reads.add(entry.source, entry.bytes);
    overwrites.add(entry.destination, view.communicatorOf(entry).ranks * entry.bytes);
    return result;
  case FSDP_REDUCE_SCATTER_START:
    result.untilWait = true;
    reads.add(entry.source, view.groups()[entry.target].shards * entry.count * elementSize);
    overwrites.add(entry.destination, entry.count * elementSize);
    return result;
  case FSDP_ALL_REDUCE_START:
  case FSDP_NORM_ALL_REDUCE_START:
    result.untilWait = true;
    reads.add(entry.destination, entry.count * elementSize);
    return result;
  case FSDP_CHUNK:
    for (int64_t value : view.results(entry))
      reads.addSpan(static_cast<uint32_t>(value));
    overwrites.add(entry.destination, entry.bytes);
    return result;
  case FSDP_COPY:
    reads.addSpan(entry.source_value);
    overwriteValue(entry.destination_value);
    return result;
  case FSDP_ACCUMULATE:
    reads.addSpan(entry.source_value);
    reads.addSpan(entry.destination_value); // and overwrites what it has read
    return result;
  case FSDP_ZERO:
    overwrites.add(entry.destination, entry.bytes);
    return result;
  case FSDP_UPDATE: {
    const fsdp_group &group = view.groups()[entry.target];
    reads.addGradient(entry);
    // What is fetched are the elements that are updated.
    const int64_t elements =
        view.areParametersOnHost(group) ? group.trained_elements : group.shard_elements;
    reads.add(group.shard, elements * static_cast<int64_t>(elementBytes(group.dtype)));
    reads.addStates(group);
    if (view.hasGatherCopy(group))
      overwrites.add(group.gather_shard,
                     elements * static_cast<int64_t>(elementBytes(group.gather_dtype)));
    return result;
  }
  case FSDP_FETCH_STATE_START:
    result.untilWait = true;
    overwrites.addHostCopies(view.groups()[entry.target], /*isFetch=*/true);
    return result;
  case FSDP_STORE_STATE_START:
    result.untilWait = true;
    reads.addHostCopies(view.groups()[entry.target], /*isFetch=*/false);
    return result;
  case FSDP_STORE_START:
    result.untilWait = true;
    reads.add(entry.source, entry.bytes);
    return result;
  case FSDP_FETCH_START:
    result.untilWait = true;
    overwrites.add(entry.destination, entry.bytes);
    return result;
  case FSDP_SHARD_NORM:
    reads.add(entry.source, entry.count * static_cast<int64_t>(elementBytes(entry.dtype)));
    return result;
  case FSDP_PARTIAL_NORM:
    addNormGradients(reads);
    overwrites.add(entry.destination, sizeof(double));
    return result;
  case FSDP_CLIP_FACTOR:
    reads.add(entry.source, sizeof(double));
    return result;
  }
  reads.add(0, view.tables().arena_bytes); // a kind that this does not know
  return result;
}

std::vector<ByteRange> fsdp::rt::bytesAfterStep(const PlanView &view) {
  std::vector<ByteRange> result;
  Ranges ranges{view, result};
  for (const fsdp_group &group : view.groups()) {
    if (!view.areParametersOnHost(group)) {
      ranges.add(group.shard, view.shardBytes(group));
      ranges.add(group.gather_shard, view.gatherShardBytes(group));
    }
    if (!view.isStateOnHost(group))
      ranges.addStates(group);
  }
  for (const fsdp_input &input : view.inputs())
    ranges.addSpan(input.value);
  for (const fsdp_buffer &buffer : view.buffers())
    ranges.addSpan(buffer.value);
  for (const fsdp_constant &constant : view.constants())
    ranges.addSpan(constant.value);
  ranges.addSpan(view.tables().loss_value);
  return result;
}
