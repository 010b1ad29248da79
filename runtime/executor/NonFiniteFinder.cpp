//===- NonFiniteFinder.cpp - Finds the origin of NaN and Inf --------------===//

#include "executor/NonFiniteFinder.h"
#include "DType.h"
#include "plan/CollectiveOrder.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>

#include <algorithm>

using namespace fsdp::rt;

/// Of results of collectives.
static constexpr const char *kOfOthers = ", although this rank's own numbers are finite";

NonFiniteFinder::NonFiniteFinder(const PlanView &view, std::byte *arena, unsigned rank)
    : view(view), arena(arena), rank(rank), starts(view.tables().num_handles) {
  for (uint32_t i = 0; i < view.entries().size(); ++i) {
    const fsdp_entry &entry = view.entries()[i];
    if (EntryBytes::of(view, entry).untilWait)
      starts[entry.handle] = i;
  }
}

//===----------------------------------------------------------------------===//
// Contents of memory
//===----------------------------------------------------------------------===//

NonFiniteFinder::Counts NonFiniteFinder::count(const at::Tensor &tensor) {
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0)
    return {};
  if (tensor.element_size() == 1) // torch cannot ask 8-bit floats
    return count(tensor.to(at::kFloat));
  if (at::isfinite(tensor).all().item<bool>())
    return {};
  return {at::isnan(tensor).sum().item<int64_t>(), at::isinf(tensor).sum().item<int64_t>(),
          tensor.numel()};
}

at::Tensor NonFiniteFinder::tensorAt(int64_t offset, int64_t elements, uint32_t dtype) const {
  return at::from_blob(arena + offset, {elements},
                       at::TensorOptions().dtype(static_cast<at::ScalarType>(dtype)));
}

ByteRange NonFiniteFinder::rangeOf(uint32_t value) const {
  const fsdp_value &place = view.values()[value];
  return {place.offset, view.spanBytes(place)};
}

int64_t NonFiniteFinder::causeAt(ByteRange bytes) const {
  auto overlaps = [&](ByteRange held) {
    return held.begin < bytes.begin + bytes.bytes && bytes.begin < held.begin + held.bytes;
  };
  for (auto i = static_cast<int64_t>(traces.size()); i-- > 0;)
    if (std::ranges::any_of(traces[static_cast<size_t>(i)].bytes, overlaps))
      return i;
  return kNone;
}

void NonFiniteFinder::forget(ByteRange bytes) {
  const int64_t begin = bytes.begin, end = begin + bytes.bytes;
  for (Trace &trace : traces) {
    std::vector<ByteRange> left;
    for (const ByteRange &held : trace.bytes) {
      const int64_t heldEnd = held.begin + held.bytes;
      if (held.begin < begin)
        left.push_back({held.begin, std::min(heldEnd, begin) - held.begin});
      if (const int64_t from = std::max(held.begin, end); from < heldEnd)
        left.push_back({from, heldEnd - from});
    }
    trace.bytes = std::move(left);
  }
}

int64_t NonFiniteFinder::note(ByteRange bytes, const Counts &counts, uint32_t entry, int64_t from,
                              const char *because) {
  if (counts.finite())
    return kNone;
  traces.push_back({{bytes}, counts, entry + 1, "", from, because});
  return static_cast<int64_t>(traces.size()) - 1;
}

void NonFiniteFinder::noteBefore(ByteRange bytes, const Counts &counts, const std::string &what) {
  if (!counts.finite())
    traces.push_back({{bytes}, counts, 0, what, kNone, ""});
}

//===----------------------------------------------------------------------===//
// Around a step and its entries
//===----------------------------------------------------------------------===//

void NonFiniteFinder::beginStep(std::span<const at::Tensor> tensors) {
  traces.clear();
  spoiled.clear();
  for (const fsdp_input &input : view.inputs())
    noteBefore(rangeOf(input.value), count(tensors[input.value]),
               "input '" + std::string(view.string(input.name)) + "'");
  for (const fsdp_buffer &buffer : view.buffers())
    noteBefore(rangeOf(buffer.value), count(tensors[buffer.value]),
               "buffer '" + std::string(view.string(buffer.name)) + "' before the step");
  for (const fsdp_constant &constant : view.constants())
    noteBefore(rangeOf(constant.value), count(tensors[constant.value]),
               std::string("constant ") + view.string(view.values()[constant.value].name));
  for (const fsdp_group &group : view.groups())
    for (const fsdp_parameter &parameter : view.parametersOf(group))
      for (const fsdp_piece &piece : view.piecesOf(parameter)) {
        const auto bytes = static_cast<int64_t>(elementBytes(group.dtype));
        const int64_t offset = group.shard + piece.shard_offset * bytes;
        if (piece.rank == PlanView::shardOf(group, rank) && piece.count > 0)
          noteBefore(
              {offset, piece.count * bytes}, count(tensorAt(offset, piece.count, group.dtype)),
              "parameter '" + std::string(view.string(parameter.name)) + "' before the step");
      }
}

std::vector<uint32_t> NonFiniteFinder::operandsOf(const fsdp_entry &entry) const {
  std::vector<uint32_t> values;
  switch (entry.kind) {
  case FSDP_CALL:
  case FSDP_KERNEL:
    for (const fsdp_argument &argument : view.arguments(entry)) {
      if (argument.kind == FSDP_ARG_VALUE)
        values.push_back(argument.index);
      if (argument.kind == FSDP_ARG_VALUE_LIST)
        for (int64_t value : view.integers(argument.index, argument.count))
          if (value >= 0)
            values.push_back(static_cast<uint32_t>(value));
    }
    break;
  case FSDP_ACCUMULATE:
    values.push_back(entry.destination_value);
    [[fallthrough]];
  case FSDP_COPY:
    values.push_back(entry.source_value);
    break;
  case FSDP_CHUNK:
    for (int64_t value : view.results(entry))
      values.push_back(static_cast<uint32_t>(value));
    break;
  default:
    break;
  }
  return values;
}

std::vector<uint32_t> NonFiniteFinder::resultsOf(const fsdp_entry &entry) const {
  std::vector<uint32_t> values;
  if (entry.kind == FSDP_CALL || entry.kind == FSDP_KERNEL)
    for (int64_t value : view.results(entry))
      if (value >= 0)
        values.push_back(static_cast<uint32_t>(value));
  if (entry.kind == FSDP_COPY || entry.kind == FSDP_ACCUMULATE)
    values.push_back(entry.destination_value);
  return values;
}

int64_t NonFiniteFinder::causeIn(const std::vector<uint32_t> &values,
                                 std::span<const at::Tensor> tensors) {
  int64_t infinite = kNone;
  for (uint32_t value : values) {
    const Counts counts = count(tensors[value]);
    if (counts.finite())
      continue;
    const int64_t from = causeAt(rangeOf(value));
    if (counts.nans > 0)
      return from;
    if (infinite == kNone)
      infinite = from;
  }
  return infinite;
}

void NonFiniteFinder::before(uint32_t index, std::span<const at::Tensor> tensors) {
  const fsdp_entry &entry = view.entries()[index];
  cause = causeIn(operandsOf(entry), tensors);
  if (entry.kind == FSDP_UPDATE)
    cause = spoiledGradients(index, view.groups()[entry.target].trained_elements);
  if (isOfModel(entry)) {
    const bool scatters = entry.kind == FSDP_MODEL_REDUCE_SCATTER;
    cause =
        causeAt({entry.source, entry.bytes * (scatters ? view.communicatorOf(entry).ranks : 1)});
  }
  // The reduced gradients may be visible on another rank only, so they are checked here.
  if (entry.kind == FSDP_REDUCE_SCATTER_START)
    for (uint32_t i = index;
         i == index || (i < view.entries().size() && view.entries()[i].coalesced); ++i)
      spoiledGradients(i, view.entries()[i].count *
                              static_cast<int64_t>(view.communicatorOf(view.entries()[i]).ranks));
}

void NonFiniteFinder::after(uint32_t index, std::span<const at::Tensor> tensors) {
  const fsdp_entry &entry = view.entries()[index];
  // Results of collectives and of copies from the host are written later: afterWait() handles
  // these.
  if (const EntryBytes bytes = EntryBytes::of(view, entry); !bytes.untilWait)
    for (const ByteRange &overwritten : bytes.overwrites)
      forget(overwritten);
  for (uint32_t value : resultsOf(entry))
    note(rangeOf(value), count(tensors[value]), index, cause);
  if (entry.kind == FSDP_CHUNK)
    note({entry.destination, entry.bytes},
         count(tensorAt(entry.destination, entry.count, entry.dtype)), index, cause);
  if (isOfModel(entry)) {
    const bool gathers = entry.kind == FSDP_MODEL_ALL_GATHER;
    const int64_t ranks = gathers ? view.communicatorOf(entry).ranks : 1;
    note({entry.destination, entry.bytes * ranks},
         count(tensorAt(entry.destination, entry.count * ranks, entry.dtype)), index, cause,
         kOfOthers);
  }
  if (entry.kind == FSDP_WAIT)
    afterWait(entry);
  if (entry.kind == FSDP_UPDATE)
    afterUpdate(index);
}

/// Checks the result of a collective.
void NonFiniteFinder::afterWait(const fsdp_entry &wait) {
  const uint32_t index = starts[wait.handle];
  const fsdp_entry &start = view.entries()[index];
  const auto bytes = static_cast<int64_t>(elementBytes(start.dtype));
  const auto ranks = static_cast<int64_t>(view.communicatorOf(start).ranks);
  ByteRange read{start.source, start.bytes}, written{start.destination, start.bytes * ranks};
  switch (start.kind) {
  case FSDP_ALL_GATHER_START: {
    const fsdp_group &group = view.groups()[start.target];
    // If the shard is gathered from a copy in another dtype, the traces are those of the shard.
    if (start.source == group.gather_shard)
      read = {group.shard, view.shardBytes(group)};
    break;
  }
  case FSDP_REDUCE_SCATTER_START:
    read.bytes = start.count * ranks * bytes;
    written.bytes = start.count * bytes;
    break;
  case FSDP_ALL_REDUCE_START:
    read.bytes = written.bytes = start.count * bytes;
    if (start.after != FSDP_NO_HANDLE) {
      const fsdp_entry &scatter = view.entries()[starts[start.after]];
      read = {scatter.source,
              scatter.count * static_cast<int64_t>(view.communicatorOf(scatter).ranks) * bytes};
    }
    break;
  default:
    for (const ByteRange &overwritten : EntryBytes::of(view, start).overwrites)
      forget(overwritten);
    return;
  }
  const int64_t from = causeAt(read);
  forget(written);
  note(written, count(tensorAt(written.begin, written.bytes / bytes, start.dtype)), index, from,
       kOfOthers);
}

int64_t NonFiniteFinder::spoiledGradients(uint32_t index, int64_t elements) {
  const fsdp_entry &entry = view.entries()[index];
  const ByteRange gradients{entry.source,
                            elements * static_cast<int64_t>(elementBytes(entry.dtype))};
  const Counts counts = count(tensorAt(entry.source, elements, entry.dtype));
  if (counts.finite())
    return kNone;
  int64_t from = causeAt(gradients);
  if (from == kNone)
    from = note(gradients, counts, index, kNone, "; no entry was seen to write them");
  spoiled.push_back(from);
  return from;
}

void NonFiniteFinder::afterUpdate(uint32_t index) {
  const fsdp_group &group = view.groups()[view.entries()[index].target];
  const ByteRange parameters{group.shard, group.trained_elements *
                                              static_cast<int64_t>(elementBytes(group.dtype))};
  const Counts counts = count(tensorAt(group.shard, group.trained_elements, group.dtype));
  const int64_t from = cause == kNone ? causeAt(parameters) : cause;
  forget(parameters);
  if (!counts.finite())
    spoiled.push_back(note(parameters, counts, index, from));
}

void NonFiniteFinder::endStep(std::span<const at::Tensor> tensors) {
  const uint32_t loss = view.tables().loss_value;
  if (!count(tensors[loss]).finite())
    spoiled.push_back(causeAt(rangeOf(loss)));
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

std::string NonFiniteFinder::describe(const Trace &trace) const {
  if (trace.place == 0)
    return trace.what;
  const fsdp_entry &entry = view.entries()[trace.place - 1];
  return view.describeEntry(entry) + (entry.kind == FSDP_UPDATE     ? ""
                                      : entry.phase == FSDP_FORWARD ? " in forward"
                                                                    : " in backward");
}

static std::string plain(int64_t nans, int64_t infinities, int64_t all) {
  return std::to_string(nans) + " NaN and " + std::to_string(infinities) + " Inf among " +
         std::to_string(all) + " numbers";
}

std::optional<NonFinite> NonFiniteFinder::finding() const {
  const Trace *first = nullptr, *firstNan = nullptr;
  for (int64_t end : spoiled) {
    const Trace *root = nullptr, *nan = nullptr;
    for (int64_t at = end; at != kNone; at = root->cause) {
      root = &traces[static_cast<size_t>(at)];
      if (root->counts.nans > 0)
        nan = root;
    }
    if (root && (!first || root->place < first->place)) {
      first = root;
      firstNan = nan;
    }
  }
  if (!first)
    return spoiled.empty() ? std::nullopt
                           : std::optional(NonFinite{
                                 ~0u, "the loss is not finite, but no entry was seen to write it"});
  const Counts &counts = first->counts;
  std::string text =
      describe(*first) + ": " + plain(counts.nans, counts.infinities, counts.all) + first->because;
  if (firstNan && firstNan != first)
    text += "; NaN begins with " + describe(*firstNan);
  auto isKernel = [&](const Trace *trace) {
    return trace && trace->place > 0 && view.entries()[trace->place - 1].kind == FSDP_KERNEL;
  };
  if (isKernel(first) || isKernel(firstNan))
    text += "; a step of --fusion off has the kernel's operators one by one";
  return NonFinite{first->place, text};
}
