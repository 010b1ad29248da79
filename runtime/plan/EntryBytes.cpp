//===- EntryBytes.cpp - The bytes that an entry reads and writes ----------===//

#include "plan/EntryBytes.h"
#include "DType.h"

using namespace fsdp::rt;

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
  auto add = [&](int64_t begin, int64_t bytes) {
    if (begin >= 0 && bytes > 0)
      result.overwrites.push_back({begin, bytes});
  };
  auto addValue = [&](uint32_t index) {
    const fsdp_value &value = view.values()[index];
    if (view.isDense(value))
      add(value.offset, view.spanBytes(value));
  };
  const auto elementSize = static_cast<int64_t>(elementBytes(entry.dtype));
  switch (static_cast<fsdp_entry_kind>(entry.kind)) {
  case FSDP_CALL:
  case FSDP_KERNEL:
    for (int64_t value : view.results(entry))
      if (value >= 0)
        addValue(static_cast<uint32_t>(value));
    break;
  case FSDP_ALL_GATHER_START:
    result.untilWait = true;
    add(entry.destination, view.communicatorOf(entry).ranks * entry.bytes);
    break;
  case FSDP_REDUCE_SCATTER_START:
    result.untilWait = true;
    add(entry.destination, entry.count * elementSize);
    break;
  case FSDP_MODEL_ALL_REDUCE:
  case FSDP_MODEL_REDUCE_SCATTER:
    add(entry.destination, entry.count * elementSize);
    break;
  case FSDP_MODEL_ALL_GATHER:
    add(entry.destination, view.communicatorOf(entry).ranks * entry.bytes);
    break;
  case FSDP_FETCH_STATE_START:
    result.untilWait = true;
    for (const PlanView::HostCopy &copy : view.hostCopiesOf(view.groups()[entry.target]))
      if (copy.isFetched)
        add(copy.place, copy.bytes);
    break;
  case FSDP_FETCH_START:
    result.untilWait = true;
    add(entry.destination, entry.bytes);
    break;
  case FSDP_ALL_REDUCE_START:
  case FSDP_NORM_ALL_REDUCE_START: // in place
  case FSDP_AMAX_ALL_REDUCE_START:
  case FSDP_STORE_STATE_START:
  case FSDP_STORE_START:
    result.untilWait = true;
    break;
  case FSDP_CHUNK:
  case FSDP_ZERO:
    add(entry.destination, entry.bytes);
    break;
  case FSDP_COPY:
    addValue(entry.destination_value);
    break;
  case FSDP_UPDATE: {
    // Only the elements that are updated are fetched.
    const fsdp_group &group = view.groups()[entry.target];
    const int64_t elements =
        view.areParametersOnHost(group) ? group.trained_elements : group.shard_elements;
    if (view.hasGatherCopy(group))
      add(group.gather_shard, elements * static_cast<int64_t>(elementBytes(group.gather_dtype)));
    break;
  }
  case FSDP_PARTIAL_NORM:
    add(entry.destination, sizeof(double));
    break;
  case FSDP_VIEW:
  case FSDP_WAIT:
  case FSDP_RELEASE:
  case FSDP_ACCUMULATE: // also reads its destination
  case FSDP_SHARD_NORM:
  case FSDP_CLIP_FACTOR:
    break;
  }
  return result;
}
