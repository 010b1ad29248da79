//===- PrepareStepProgram.cpp - Resolves a plan's entries -----------------===//
//
// Resolves each entry of a plan once: operators, argument stacks, addresses, updates.
// StepProgram.cpp walks the entries.
//
//===----------------------------------------------------------------------===//

#include "DType.h"
#include "executor/ShardSegments.h"
#include "executor/StepProgram.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <map>

using namespace fsdp::rt;

std::vector<int64_t> StepProgram::drawsOf(const PlanView &view) {
  std::vector<int64_t> draws;
  for (const fsdp_entry &entry : view.entries())
    if (entry.kind == FSDP_CALL && entry.rng >= 0)
      draws.push_back(entry.rng);
  std::sort(draws.begin(), draws.end());
  draws.erase(std::unique(draws.begin(), draws.end()), draws.end());
  return draws;
}

/// Memory of the arena as a tensor.
static at::Tensor tensorAt(void *data, at::IntArrayRef sizes, at::IntArrayRef strides,
                           uint32_t dtype, c10::Device device) {
  return at::for_blob(data, sizes)
      .strides(strides)
      .options(at::TensorOptions(device).dtype(static_cast<at::ScalarType>(dtype)))
      .target_device(device)
      .make_tensor();
}

void StepProgram::makeTensors() {
  c10::Device device = runtime.tensorDevice();
  tensors.reserve(view.values().size());
  for (const fsdp_value &value : view.values()) {
    if (view.isUndefined(value)) {
      tensors.emplace_back();
      continue;
    }
    auto intsOf = [](std::span<const int64_t> list) {
      return at::IntArrayRef(list.data(), list.size());
    };
    void *data = value.offset < 0 ? arena : arena + value.offset;
    tensors.push_back(tensorAt(data, intsOf(view.sizes(value)), intsOf(view.strides(value)),
                               value.dtype, device));
  }
}

void StepProgram::copyConstants() {
  for (const fsdp_constant &constant : view.constants())
    if (constant.bytes)
      compute.copy(arena + view.values()[constant.value].offset,
                   view.tables().data + constant.first_byte, static_cast<size_t>(constant.bytes));
}

void StepProgram::prepareCopy(const fsdp_entry &entry) {
  const fsdp_value &source = view.values()[entry.source_value];
  const fsdp_value &destination = view.values()[entry.destination_value];
  Copy copy;
  copy.bytes = view.numElements(source) * static_cast<int64_t>(elementBytes(source.dtype));
  if (copy.bytes) {
    copy.from = arena + source.offset;
    copy.to = arena + destination.offset;
  }
  bool isPlain = entry.kind == FSDP_COPY && source.dtype == destination.dtype &&
                 view.isContiguous(source) && view.isContiguous(destination);
  if (!isPlain) {
    copy.source = tensors[entry.source_value];
    copy.destination = tensors[entry.destination_value];
  }
  copies.push_back(std::move(copy));
}

/// Prepares the copies of an FSDP_CHUNK: for each parameter, the parts in the shards of `merged`
/// consecutive ranks, in the chunk's order.
void StepProgram::prepareChunk(const fsdp_entry &entry) {
  const fsdp_group &group = view.groups()[entry.target];
  const auto bytes = static_cast<int64_t>(elementBytes(entry.dtype));
  const unsigned ranks = view.chunkRanks(group), merged = group.shards / ranks;
  const unsigned own = PlanView::shardOf(group, rank) % ranks;
  std::vector<Copy> &parts = chunks.emplace_back();
  for (uint32_t i = 0; i < group.num_parameters; ++i) {
    std::byte *full = arena + view.values()[view.results(entry)[i]].offset;
    const fsdp_parameter &parameter = view.parametersOf(group)[i];
    std::span<const fsdp_piece> pieces = view.piecesOf(parameter);
    const PlanView::Runs runs = view.runsOf(parameter);
    for (const fsdp_piece &piece : pieces) {
      if (piece.rank / merged != own)
        continue;
      int64_t before = piece.rank % merged; // ranks whose elements come first
      // Within one parameter, the first rank has no padding.
      const int64_t runElements = pieces.front().count / runs.count;
      int64_t at = group.layout == FSDP_LAYOUT_FLAT
                       ? before * group.shard_elements + piece.shard_offset
                       : merged * piece.shard_offset + before * runElements;
      Copy &part = parts.emplace_back();
      part.bytes = piece.count * bytes;
      part.to = arena + entry.destination + at * bytes;
      part.from = full + piece.first * bytes;
      if (runs.count == 1)
        continue;
      const c10::Device device = runtime.tensorDevice();
      part.destination = tensorAt(part.to, {runs.count, runElements}, {merged * runElements, 1},
                                  entry.dtype, device);
      part.source = tensorAt(full + piece.first * bytes, {runs.count, runElements},
                             {runs.stride, 1}, entry.dtype, device);
    }
  }
}

/// This rank's whole shard of the group, without states and gradients.
ShardBuffers StepProgram::buffersOf(const fsdp_group &group) const {
  ShardBuffers buffers{};
  buffers.dtype = buffers.gradientDtype = static_cast<fsdp_dtype>(group.dtype);
  buffers.stateDtype.fill(buffers.dtype);
  buffers.elements = group.shard_elements;
  buffers.parameters = arena + group.shard;
  buffers.gatheredDtype = static_cast<fsdp_dtype>(group.gather_dtype);
  if (view.hasGatherCopy(group))
    buffers.gathered = arena + group.gather_shard;
  return buffers;
}

/// Registers shards that are gathered from a copy which no update of this plan writes. A run may
/// begin with an evaluation, which has no updates.
void StepProgram::prepareFrozen() {
  for (const fsdp_group &group : view.groups()) {
    const int64_t updated = view.isEvaluation() ? 0 : group.trained_elements,
                  count = group.shard_elements - updated;
    if (view.hasGatherCopy(group) && count > 0 &&
        !view.areParametersOnHost(group)) // HostCopies writes these copies
      runtime.addFrozen(sliceOf(buffersOf(group), updated, count));
  }
}

Status StepProgram::prepareUpdate(const fsdp_entry &entry) {
  const fsdp_group &group = view.groups()[entry.target];
  ShardBuffers buffers = sliceOf(buffersOf(group), 0, group.trained_elements);
  buffers.gradients = arena + entry.source;
  buffers.gradientDtype = static_cast<fsdp_dtype>(entry.dtype);
  buffers.countsInNorm = view.countsInNorm(group, rank);
  for (const fsdp_parameter &parameter : view.parametersOf(group))
    for (const fsdp_piece &piece : view.piecesOf(parameter))
      if (piece.rank == PlanView::shardOf(group, rank) &&
          piece.shard_offset < group.trained_elements)
        buffers.pieces.push_back({piece.shard_offset, piece.count, parameter.optimizer});
  unsigned numStates = view.numOptimizerStates();
  if (view.hasAverage()) {
    --numStates;
    buffers.average = arena + group.state[numStates];
    buffers.averageDtype = static_cast<fsdp_dtype>(group.state_dtype[numStates]);
  }
  for (unsigned state = 0; state < numStates; ++state) {
    buffers.state[state] = arena + group.state[state];
    buffers.stateDtype[state] = static_cast<fsdp_dtype>(group.state_dtype[state]);
  }
  std::vector<ShardSegment> segments = splitByOptimizer(buffers);
  for (const ShardSegment &segment : segments) {
    fsdp_optimizer optimizer = view.optimizer(segment.optimizer);
    optimizer.clip_grad_value = limits.value;
    if (Status status = runtime.addUpdate(optimizer, segment.optimizer, segment.shard,
                                          displayName(view.string(group.name)));
        !status.ok())
      return status;
  }
  updates.push_back({numSegments, numSegments + segments.size()});
  numSegments += segments.size();
  return {};
}

void StepProgram::prepareShardNorms() {
  std::map<uint32_t, std::pair<size_t, const fsdp_entry *>> updateOf; // by group
  size_t numUpdates = 0;
  for (const fsdp_entry &entry : view.entries())
    if (entry.kind == FSDP_UPDATE)
      updateOf[entry.target] = {numUpdates++, &entry};
  for (const fsdp_entry &entry : view.entries()) {
    if (entry.kind != FSDP_SHARD_NORM)
      continue;
    ShardNorm &norm = shardNorms.emplace_back();
    if (auto found = updateOf.find(entry.target); found != updateOf.end()) {
      auto [index, update] = found->second;
      norm = {updates[index], entry.source - update->source};
    }
  }
}

Status StepProgram::prepareLaunch(const fsdp_entry &entry) {
  std::vector<void *> places;
  auto add = [&](int64_t value) { places.push_back(arena + view.values()[value].offset); };
  for (const fsdp_argument &argument : view.arguments(entry))
    add(argument.index);
  for (int64_t value : view.results(entry))
    add(value);
  return runtime.addLaunch(view, entry, std::move(places));
}

Status StepProgram::prepareEntry(uint32_t index) {
  const fsdp_entry &entry = view.entries()[index];
  auto add = [&](size_t item) {
    instructions.push_back({entry.kind, static_cast<uint32_t>(item), index});
  };
  switch (entry.kind) {
  case FSDP_CALL:
  case FSDP_VIEW: {
    Result<OperatorCall> call =
        OperatorCall::resolve(view, entry, tensors, arena, runtime.tensorDevice(), rank);
    if (!call.ok())
      return call.status();
    std::vector<OperatorCall> &list = entry.kind == FSDP_CALL ? calls : views;
    add(list.size());
    list.push_back(std::move(*call));
    return {};
  }
  case FSDP_ALL_GATHER_START:
  case FSDP_REDUCE_SCATTER_START:
  case FSDP_ALL_REDUCE_START:
  case FSDP_NORM_ALL_REDUCE_START:
  case FSDP_AMAX_ALL_REDUCE_START:
    if (entry.coalesced)
      ++instructions.back().index;
    else
      add(1);
    return {};
  case FSDP_COPY:
  case FSDP_ACCUMULATE:
    add(copies.size());
    prepareCopy(entry);
    return {};
  case FSDP_KERNEL:
    add(numLaunches++);
    return prepareLaunch(entry);
  case FSDP_CHUNK:
    add(chunks.size());
    prepareChunk(entry);
    return {};
  case FSDP_UPDATE:
    add(updates.size());
    return prepareUpdate(entry);
  case FSDP_SHARD_NORM:
    add(numShardNorms++);
    return {};
  case FSDP_RELEASE:
    return {};
  default:
    add(0);
    return {};
  }
}

Status StepProgram::prepare(OperatorKernels kernels) {
  context.countOtherThreads = runtime.isHost() && at::get_num_threads() > 1;
  makeTensors();
  copyConstants();
  prepareFrozen();
  for (uint32_t i = 0; i < view.entries().size(); ++i)
    if (Status status = prepareEntry(i); !status.ok())
      return status;
  prepareShardNorms();
  if (runtime.isHost() && kernels == OperatorKernels::Fastest) {
    KernelChooser chooser(at::get_num_threads());
    for (OperatorCall &call : calls)
      stats.replacedOperators += call.chooseKernel(tensors, chooser);
  }
  return {};
}
