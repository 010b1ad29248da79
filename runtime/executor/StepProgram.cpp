//===- StepProgram.cpp - A plan's entries, ready to run --------------------===//

#include "executor/StepProgram.h"
#include "DType.h"
#include "executor/ResultReaders.h"
#include "executor/ShardSegments.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

using namespace fsdp::rt;

StepProgram::StepProgram(const PlanView &view, OperatorRuntime &runtime, Stream &compute,
                         CollectiveLanes &lanes, StateCopies &stateCopies, std::byte *arena,
                         double clipGradNorm)
    : view(view), runtime(runtime), compute(compute), lanes(lanes), stateCopies(stateCopies),
      arena(arena), clipGradNorm(static_cast<float>(clipGradNorm)),
      placedArena(arena, static_cast<size_t>(view.tables().arena_bytes)),
      context{.view = view, .statistics = stats, .runtime = runtime, .compute = compute} {}

//===----------------------------------------------------------------------===//
// Once
//===----------------------------------------------------------------------===//

std::vector<int64_t> StepProgram::drawsOf(const PlanView &view) {
  std::vector<int64_t> draws;
  for (const fsdp_entry &entry : view.entries())
    if (entry.kind == FSDP_CALL && entry.rng >= 0)
      draws.push_back(entry.rng);
  std::sort(draws.begin(), draws.end());
  draws.erase(std::unique(draws.begin(), draws.end()), draws.end());
  return draws;
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
    auto options = at::TensorOptions(device).dtype(static_cast<at::ScalarType>(value.dtype));
    tensors.push_back(at::for_blob(data, intsOf(view.sizes(value)))
                          .strides(intsOf(view.strides(value)))
                          .options(options)
                          .target_device(device)
                          .make_tensor());
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

/// What the shards of `merged` consecutive ranks hold of each parameter, in the order of
/// FSDP_CHUNK.
void StepProgram::prepareChunk(const fsdp_entry &entry, unsigned shard) {
  const fsdp_group &group = view.groups()[entry.target];
  const auto bytes = static_cast<int64_t>(elementBytes(entry.dtype));
  const unsigned ranks = view.chunkRanks(group), merged = view.numShards() / ranks;
  const unsigned own = shard % ranks;
  std::vector<BytesCopy> &copies = chunks.emplace_back();
  for (uint32_t i = 0; i < group.num_parameters; ++i) {
    const std::byte *full = arena + view.values()[view.results(entry)[i]].offset;
    std::span<const fsdp_piece> pieces = view.piecesOf(view.parametersOf(group)[i]);
    for (const fsdp_piece &piece : pieces) {
      if (piece.rank / merged != own)
        continue;
      int64_t before = piece.rank % merged; // ranks whose elements come first
      // Of a parameter by itself, the first rank has no padding.
      int64_t at = group.layout == FSDP_LAYOUT_FLAT
                       ? before * group.shard_elements + piece.shard_offset
                       : merged * piece.shard_offset + before * pieces.front().count;
      copies.push_back({arena + entry.destination + at * bytes, full + piece.first * bytes,
                        static_cast<size_t>(piece.count * bytes)});
    }
  }
}

/// This rank's shard of the group, all of it, without states and gradients.
ShardBuffers StepProgram::buffersOf(const fsdp_group &group) const {
  ShardBuffers buffers{};
  buffers.dtype = buffers.gradientDtype = static_cast<fsdp_dtype>(group.dtype);
  buffers.elements = group.shard_elements;
  buffers.parameters = arena + group.shard;
  buffers.gatheredDtype = static_cast<fsdp_dtype>(group.gather_dtype);
  if (view.hasGatherCopy(group))
    buffers.gathered = arena + group.gather_shard;
  return buffers;
}

/// What is gathered from a copy and never updated. An evaluation finds the copies that training
/// made.
void StepProgram::prepareFrozen() {
  for (const fsdp_group &group : view.groups())
    if (int64_t count = group.shard_elements - group.trained_elements;
        !view.isEvaluation() && view.hasGatherCopy(group) && count > 0)
      runtime.addFrozen(sliceOf(buffersOf(group), group.trained_elements, count));
}

Status StepProgram::prepareUpdate(const fsdp_entry &entry, unsigned shard) {
  const fsdp_group &group = view.groups()[entry.target];
  ShardBuffers buffers = sliceOf(buffersOf(group), 0, group.trained_elements);
  buffers.gradients = arena + entry.source;
  buffers.gradientDtype = static_cast<fsdp_dtype>(entry.dtype);
  for (const fsdp_parameter &parameter : view.parametersOf(group))
    for (const fsdp_piece &piece : view.piecesOf(parameter))
      if (piece.rank == shard && piece.shard_offset < group.trained_elements)
        buffers.pieces.push_back({piece.shard_offset, piece.count, parameter.optimizer});
  for (unsigned state = 0; state < view.numOptimizerStates(); ++state)
    buffers.state[state] = arena + group.state[state];
  std::vector<ShardSegment> segments = splitByOptimizer(buffers);
  for (const ShardSegment &segment : segments)
    if (Status status = runtime.addUpdate(view.optimizer(segment.optimizer), segment.optimizer,
                                          segment.shard, displayName(view.string(group.name)));
        !status.ok())
      return status;
  updates.push_back({numSegments, numSegments + segments.size()});
  numSegments += segments.size();
  return {};
}

Status StepProgram::prepareEntry(uint32_t index, unsigned shard) {
  const fsdp_entry &entry = view.entries()[index];
  auto add = [&](size_t item) {
    instructions.push_back({entry.kind, static_cast<uint32_t>(item), index});
  };
  switch (entry.kind) {
  case FSDP_CALL:
  case FSDP_VIEW: {
    Result<OperatorCall> call =
        OperatorCall::resolve(view, entry, tensors, arena, runtime.tensorDevice());
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
  case FSDP_CHUNK:
    add(chunks.size());
    prepareChunk(entry, shard);
    return {};
  case FSDP_UPDATE:
    add(updates.size());
    return prepareUpdate(entry, shard);
  case FSDP_RELEASE:
    return {};
  default:
    add(0);
    return {};
  }
}

Status StepProgram::prepare(unsigned shard, OperatorKernels kernels) {
  context.countOtherThreads = runtime.isHost() && at::get_num_threads() > 1;
  makeTensors();
  copyConstants();
  prepareFrozen();
  for (uint32_t i = 0; i < view.entries().size(); ++i)
    if (Status status = prepareEntry(i, shard); !status.ok())
      return status;
  if (runtime.isHost() && kernels == OperatorKernels::Fastest) {
    KernelChooser chooser(at::get_num_threads());
    RowChooser rows(at::get_num_threads());
    for (OperatorCall &call : calls) {
      bool chosen = call.chooseKernel(tensors, chooser);
      stats.replacedOperators += chosen;
      rowOperators.push_back(chosen ? std::nullopt : call.rowOperator(tensors, rows));
    }
  }
  return {};
}

void StepProgram::makeChains() {
  constexpr size_t kLongestChain = 64; // keeps the time linear
  const ResultReaders readers(view);
  auto candidateAt = [&](size_t i) -> const RowOperator * {
    bool isCall = i < instructions.size() && instructions[i].kind == FSDP_CALL;
    return isCall && rowOperators[instructions[i].index] ? &*rowOperators[instructions[i].index]
                                                         : nullptr;
  };
  std::vector<Instruction> merged;
  std::vector<ChainCandidate> candidates;
  for (size_t i = 0; i < instructions.size();) {
    candidates.clear();
    for (size_t j = i; j < i + kLongestChain && candidateAt(j); ++j) {
      const RowOperator *op = candidateAt(j);
      uint32_t entry = instructions[j].entry;
      auto result = static_cast<uint32_t>(view.results(view.entries()[entry])[0]);
      candidates.push_back({op, entry, readers.lastReader(result)});
    }
    std::optional<RowChain> rows =
        candidates.empty() ? std::nullopt : RowChain::of(candidates, at::get_num_threads());
    if (!rows) {
      merged.push_back(instructions[i++]);
      continue;
    }
    merged.push_back({kRowChain, static_cast<uint32_t>(chains.size()), instructions[i].entry});
    Chain chain{std::move(*rows), {}};
    for (size_t end = i + chain.rows.size(); i < end; ++i)
      chain.entries.push_back(instructions[i].entry);
    stats.replacedOperators += static_cast<int64_t>(chain.entries.size());
    chains.push_back(std::move(chain));
  }
  instructions = std::move(merged);
  rowOperators.clear();
}

//===----------------------------------------------------------------------===//
// Every step
//===----------------------------------------------------------------------===//

Status StepProgram::execute(const Instruction &instruction, bool awaited) {
  current.store(instruction.entry, std::memory_order_relaxed);
  const fsdp_entry &entry = view.entries()[instruction.entry];
  switch (instruction.kind) {
  case FSDP_CALL:
    return calls[instruction.index].run(context);
  case kRowChain:
    chains[instruction.index].rows.run(scratch ? scratch->data() : nullptr);
    return {};
  case FSDP_ALL_GATHER_START:
  case FSDP_REDUCE_SCATTER_START:
  case FSDP_ALL_REDUCE_START:
  case FSDP_NORM_ALL_REDUCE_START:
    lanes.start(instruction.entry, instruction.index, awaited);
    return {};
  case FSDP_FETCH_STATE_START:
  case FSDP_STORE_STATE_START:
    stateCopies.start(entry, lanes.eventOf(entry.handle));
    return {};
  case FSDP_WAIT:
    return lanes.wait(entry.handle);
  case FSDP_COPY: {
    Copy &copy = copies[instruction.index];
    if (copy.source.defined())
      copy.destination.copy_(copy.source);
    else
      compute.copy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
    stats.copiedBytes += copy.bytes;
    return {};
  }
  case FSDP_ACCUMULATE: {
    Copy &sum = copies[instruction.index];
    sum.destination.add_(sum.source);
    return {};
  }
  case FSDP_CHUNK:
    for (const BytesCopy &copy : chunks[instruction.index])
      compute.copy(copy.to, copy.from, copy.bytes);
    return {};
  case FSDP_ZERO:
    compute.zero(arena + entry.destination, static_cast<size_t>(entry.bytes));
    return {};
  case FSDP_PARTIAL_NORM: {
    auto *part = reinterpret_cast<double *>(arena + entry.destination);
    Status status = runtime.partialNorm(view.normType(), part);
    if (allowsUpdates) // the ranks' sum takes its place
      partialNorm = *part;
    return status;
  }
  case FSDP_CLIP_FACTOR: {
    Status status = runtime.clip(
        view.normType(), reinterpret_cast<const double *>(arena + entry.source), clipGradNorm);
    if (!status.ok() || !allowsUpdates)
      return status;
    Result<bool> allowed = allowsUpdates(partialNorm);
    updatesAllowed = allowed.ok() && *allowed;
    return allowed.status();
  }
  case FSDP_UPDATE:
    if (!updatesAllowed)
      return {};
    for (auto [segment, end] = updates[instruction.index]; segment < end; ++segment)
      if (Status status = runtime.update(segment); !status.ok())
        return status;
    return {};
  default:
    return {};
  }
}

void StepProgram::findNonFinite(unsigned shard) { finder.emplace(view, arena, shard); }

Status StepProgram::follow(const Instruction &instruction, const std::function<Status()> &action) {
  finder->before(instruction.entry, tensors);
  Status status = action();
  finder->after(instruction.entry, tensors);
  return status;
}

Status StepProgram::issue(const std::function<Status()> &walk) {
  stats.copiedBytes = 0;
  stats.fallbacksByOperator.clear();
  stats.relaid.clear();
  context.allocations.served = context.allocations.fallbacks = 0;
  auto failed = [&](const char *what) {
    return Status::error(view.describeEntry(view.entries()[current]) + ": " + what);
  };
  Status status;
  try {
    // Autograd and functionalization have happened at compile time.
    at::AutoDispatchBelowADInplaceOrView guard;
    if (finder)
      finder->beginStep(tensors);
    status = walk();
    if (finder && status.ok())
      finder->endStep(tensors);
  } catch (const c10::Error &error) {
    status = failed(error.what_without_backtrace());
  } catch (const std::exception &error) {
    status = failed(error.what());
  }
  stats.plannedAllocations = context.allocations.served;
  stats.fallbackAllocations = context.allocations.fallbacks;
  return status;
}

Status StepProgram::runFirst() {
  Status status = issue([&]() -> Status {
    for (const Instruction &instruction : instructions) {
      current.store(instruction.entry, std::memory_order_relaxed);
      auto run = [&] {
        return instruction.kind == FSDP_CALL   ? calls[instruction.index].measure(context)
               : instruction.kind == FSDP_VIEW ? views[instruction.index].checkView(context)
                                               : execute(instruction, false);
      };
      if (Status done = finder ? follow(instruction, run) : run(); !done.ok())
        return done;
    }
    return {};
  });
  if (!status.ok())
    return status;
  // What later steps need not do.
  std::erase_if(instructions, [](const Instruction &item) { return item.kind == FSDP_VIEW; });
  views.clear();
  if (!rowOperators.empty() && !finder) // which looks at each result
    makeChains();
  size_t bytes = 0;
  for (const OperatorCall &call : calls)
    bytes = std::max(bytes, call.scratchBytes());
  for (const Chain &chain : chains)
    bytes = std::max(bytes, chain.rows.workspaceBytes());
  if (bytes) {
    Result<std::unique_ptr<Memory>> memory = runtime.allocateScratch(bytes);
    if (!memory.ok())
      return Status::error("temporaries inside operators: " + memory.status().message());
    scratch = std::move(*memory);
    placedScratch.emplace(scratch->data(), scratch->size());
    for (OperatorCall &call : calls)
      call.placeTemporaries(scratch->data());
  }
  stats.scratchBytes = static_cast<int64_t>(bytes);
  return {};
}

Status StepProgram::run() {
  return issue([&]() -> Status {
    for (const Instruction &instruction : instructions) {
      auto run = [&] { return execute(instruction, false); };
      if (Status status = finder ? follow(instruction, run) : run(); !status.ok())
        return status;
    }
    return {};
  });
}

Status StepProgram::awaitStarted(const Instruction &instruction) {
  // Copies of state are one each.
  uint32_t count = std::max<uint32_t>(instruction.index, 1);
  for (uint32_t i = 0; i < count; ++i)
    if (Status status = lanes.wait(view.entries()[instruction.entry + i].handle); !status.ok())
      return status;
  return {};
}

Status StepProgram::runTraced(EntryTracer &tracer, Overlap overlap) {
  bool alone = overlap == Overlap::None;
  return issue([&]() -> Status {
    for (const Instruction &instruction : instructions) {
      // Collectives and copies of state have streams of their own.
      bool starts = view.entries()[instruction.entry].stream != FSDP_COMPUTE;
      bool isTold = !starts || alone;
      if (isTold)
        tracer.begins(instruction.entry, compute);
      Status status = execute(instruction, alone);
      if (status.ok() && starts && alone)
        status = awaitStarted(instruction);
      if (!status.ok())
        return status;
      if (isTold)
        tracer.ends(instruction.entry, compute);
    }
    return {};
  });
}

std::vector<EntryShare> StepProgram::shares() const {
  std::vector<EntryShare> shares(view.entries().size());
  for (uint32_t i = 0; i < shares.size(); ++i)
    shares[i].entry = i;
  for (const Chain &chain : chains)
    for (size_t i = 0; i < chain.entries.size(); ++i)
      shares[chain.entries[i]] = {chain.entries[0], chain.rows.shareOf(i)};
  return shares;
}

std::string StepProgram::captureObstacle() const {
  if (!stats.fallbacksByOperator.empty()) {
    const auto &[name, count] = *stats.fallbacksByOperator.begin();
    return name + " allocates memory that is not placed (" + std::to_string(count) +
           (count == 1 ? " time" : " times") + " in a step)";
  }
  for (const Instruction &instruction : instructions)
    if (instruction.kind == FSDP_CALL && calls[instruction.index].waitsForDevice())
      return view.describeEntry(view.entries()[instruction.entry]) +
             " reads on the host what the device computes";
  return "";
}

std::vector<int64_t> StepProgram::temporaryBytes() const {
  std::vector<int64_t> bytes(view.entries().size());
  for (const Instruction &instruction : instructions)
    if (instruction.kind == FSDP_CALL)
      bytes[instruction.entry] = static_cast<int64_t>(calls[instruction.index].scratchBytes());
    else if (instruction.kind == kRowChain)
      bytes[instruction.entry] =
          static_cast<int64_t>(chains[instruction.index].rows.workspaceBytes());
  return bytes;
}
