//===- Executor.cpp - Runs a plan, step after step -------------------------===//

#include "executor/Executor.h"
#include "comm/StepProgress.h"
#include "device/LaggedReadback.h"
#include "executor/OperatorCall.h"
#include "executor/OptimizerUpdate.h"
#include "executor/ScratchMemory.h"
#include "executor/WorkerChoice.h"
#include "plan/DType.h"
#include "plan/PlanView.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

using namespace fsdp::rt;

namespace {
/// An entry of the plan, ready to run. Entries with nothing to run have none.
struct Instruction {
  uint8_t kind;   // fsdp_entry_kind
  uint32_t index; // of the call, copy, update; else of the entry
  uint32_t entry;
};

struct Copy {
  at::Tensor destination, source; // undefined if bytes can be copied as they are
  std::byte *to;
  const std::byte *from;
  int64_t bytes;
};

class PlanExecutor final : public Executor {
public:
  PlanExecutor(const fsdp_plan &plan, Device &device, Communicator &communicator, std::byte *arena,
               ExecutorOptions options)
      : view(plan), device(device), communicator(communicator), arena(arena), options(options),
        placedArena(arena, static_cast<size_t>(plan.arena_bytes)),
        context{.view = view, .statistics = stats, .rank = communicator.rank()} {}

  /// Resolves everything.
  Status prepare();

  std::span<std::byte> input(unsigned index) override {
    const fsdp_value &value = view.values()[view.inputs()[index].value];
    size_t bytes = static_cast<size_t>(view.spanBytes(value));
    return {bytes ? arena + value.offset : arena, bytes};
  }
  Result<std::optional<StepResults>> step(const StepInputs &inputs) override;
  Result<std::optional<StepResults>> finish() override;
  const std::string &graphNote() const override { return note; }
  const ExecutorStatistics &statistics() const override { return stats; }
  const std::atomic<uint32_t> &currentEntry() const override { return current; }
  void observe(StepObserver *next) override { observer = next; }
  std::vector<int64_t> temporaryBytes() const override;

private:
  void makeTensors();
  void copyConstants();
  Status prepareEntry(uint32_t index);
  void prepareCopy(const fsdp_entry &entry);
  void prepareUpdate(const fsdp_entry &entry);

  Status runFirst();
  Status runAll();
  Status runObserved();
  Status run(const Instruction &instruction);
  void start(const fsdp_entry &entry, uint32_t index);
  static Status runCollective(void *executor, uint32_t entry);
  Status synchronize();
  void placeTemporaries();
  double loss() const;

  PlanView view;
  Device &device;
  Communicator &communicator;
  std::byte *const arena;
  const ExecutorOptions options;
  PlacedMemory placedArena;
  std::optional<ScratchMemory> scratch;
  ExecutorStatistics stats;
  CallContext context;

  std::vector<at::Tensor> tensors; // the plan's values; undefined ones stay undefined
  std::vector<OperatorCall> calls, views;
  std::vector<Copy> copies;
  std::vector<std::unique_ptr<ShardUpdate>> updates;
  std::vector<Instruction> instructions; // of a step
  std::atomic<uint32_t> current{0};      // entry that runs, for messages
  double squareSum = 0;
  bool measured = false, spent = false;
  StepObserver *observer = nullptr;
  std::string note = "off: a CPU runs a step's work as it is issued";
  StepResults own; // of the step that runs
  std::unique_ptr<LaggedReadback> readback;

  // Last, so that workers end before what they use.
  std::unique_ptr<Event> computeEvent;
  std::vector<std::unique_ptr<Event>> events; // by handle
  std::vector<WorkerChoice> choices;          // by handle
  std::unique_ptr<Stream> streams[FSDP_NUM_STREAMS];
};
} // namespace

//===----------------------------------------------------------------------===//
// Once
//===----------------------------------------------------------------------===//

void PlanExecutor::makeTensors() {
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
    tensors.push_back(at::from_blob(data, intsOf(view.sizes(value)), intsOf(view.strides(value)),
                                    static_cast<at::ScalarType>(value.dtype)));
  }
}

void PlanExecutor::copyConstants() {
  for (const fsdp_constant &constant : view.constants())
    if (constant.bytes)
      std::memcpy(arena + view.values()[constant.value].offset,
                  view.tables().data + constant.first_byte, static_cast<size_t>(constant.bytes));
}

void PlanExecutor::prepareCopy(const fsdp_entry &entry) {
  const fsdp_value &source = view.values()[entry.source_value];
  const fsdp_value &destination = view.values()[entry.destination_value];
  Copy copy{};
  copy.bytes = view.numElements(source) * static_cast<int64_t>(elementBytes(source.dtype));
  if (copy.bytes) {
    copy.from = arena + source.offset;
    copy.to = arena + destination.offset;
  }
  if (!view.isContiguous(source) || !view.isContiguous(destination)) {
    copy.source = tensors[entry.source_value];
    copy.destination = tensors[entry.destination_value];
  }
  copies.push_back(std::move(copy));
}

void PlanExecutor::prepareUpdate(const fsdp_entry &entry) {
  const fsdp_group &group = view.groups()[entry.target];
  ShardBuffers shard{static_cast<fsdp_dtype>(group.dtype),
                     group.shard_elements,
                     arena + group.shard,
                     arena + entry.source,
                     {nullptr, nullptr},
                     {}};
  for (const fsdp_parameter &parameter : view.parametersOf(group))
    for (const fsdp_piece &piece : view.piecesOf(parameter))
      if (piece.rank == view.shardOf(communicator.rank()))
        shard.pieces.push_back({piece.shard_offset, piece.count});
  for (unsigned state = 0; state < view.numOptimizerStates(); ++state)
    shard.state[state] = arena + group.state[state];
  updates.push_back(makeShardUpdate(view.tables().optimizer, shard));
}

Status PlanExecutor::prepareEntry(uint32_t index) {
  const fsdp_entry &entry = view.entries()[index];
  auto add = [&](size_t item) {
    instructions.push_back({entry.kind, static_cast<uint32_t>(item), index});
  };
  switch (entry.kind) {
  case FSDP_CALL:
  case FSDP_VIEW: {
    Result<OperatorCall> call = OperatorCall::resolve(view, entry, tensors, arena);
    if (!call.ok())
      return call.status();
    std::vector<OperatorCall> &list = entry.kind == FSDP_CALL ? calls : views;
    add(list.size());
    list.push_back(std::move(*call));
    break;
  }
  case FSDP_COPY:
    add(copies.size());
    prepareCopy(entry);
    break;
  case FSDP_UPDATE:
    add(updates.size());
    prepareUpdate(entry);
    break;
  case FSDP_RELEASE:
    break;
  default:
    add(index);
  }
  return Status();
}

Status PlanExecutor::prepare() {
  context.countOtherThreads = at::get_num_threads() > 1;
  makeTensors();
  copyConstants();
  streams[FSDP_COMPUTE] = device.makeComputeStream();
  auto made = LaggedReadback::create(device, sizeof(StepResults), options.lossLag);
  if (!made.ok())
    return made.status();
  readback = std::move(*made);
  computeEvent = device.makeEvent();
  for (uint32_t i = 0; i < view.tables().num_handles; ++i)
    events.push_back(device.makeEvent());
  choices.resize(events.size());
  if (!events.empty()) {
    streams[FSDP_GATHER] = device.makeStream("fsdp-gather");
    streams[FSDP_REDUCE] = device.makeStream("fsdp-reduce");
    communicator.useStream(kGatherLane, *streams[FSDP_GATHER]);
    communicator.useStream(kReduceLane, *streams[FSDP_REDUCE]);
    if (view.tables().replicas > 1) {
      streams[FSDP_REPLICATE] = device.makeStream("fsdp-replicate");
      communicator.useStream(kReplicateLane, *streams[FSDP_REPLICATE]);
    }
  }
  for (uint32_t i = 0; i < view.entries().size(); ++i)
    if (Status status = prepareEntry(i); !status.ok())
      return status;
  if (options.gemm == GemmKernels::Fastest) {
    GemmChooser chooser(at::get_num_threads());
    for (OperatorCall &call : calls)
      stats.blockedGemms += call.chooseGemm(view, chooser);
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Every step
//===----------------------------------------------------------------------===//

Status PlanExecutor::runCollective(void *executor, uint32_t index) {
  auto &self = *static_cast<PlanExecutor *>(executor);
  const fsdp_entry &entry = self.view.entries()[index];
  unsigned lane = laneOf(entry);
  std::byte *source = self.arena + entry.source, *destination = self.arena + entry.destination;
  auto dtype = static_cast<fsdp_dtype>(entry.dtype);
  auto count = static_cast<size_t>(entry.count);
  Status status =
      entry.kind == FSDP_ALL_GATHER_START
          ? self.communicator.allGather(lane, source, destination, static_cast<size_t>(entry.bytes))
      : entry.kind == FSDP_ALL_REDUCE_START
          ? self.communicator.allReduce(lane, destination, count, dtype, ReduceOp::Average)
          : self.communicator.reduceScatter(lane, source, destination, count, dtype,
                                            ReduceOp::Average);
  if (status.ok())
    return status;
  return Status::error(self.view.describeEntry(entry) +
                       (entry.phase == FSDP_FORWARD ? " in forward: " : " in backward: ") +
                       status.message());
}

void PlanExecutor::start(const fsdp_entry &entry, uint32_t index) {
  Stream &stream = *streams[entry.stream];
  streams[FSDP_COMPUTE]->record(*computeEvent);
  // The compute stream has no error of its own: a failed operator ends the step.
  (void)stream.wait(*computeEvent);
  // If the reduction that it goes on with fails, so does the all-reduce's stream.
  if (entry.kind == FSDP_ALL_REDUCE_START)
    (void)stream.wait(*events[entry.after]);
  bool deferred = observer || choices[entry.handle].deferred();
  stream.enqueue({runCollective, this, index, deferred});
  stream.record(*events[entry.handle]);
  choices[entry.handle].noteStart();
}

Status PlanExecutor::run(const Instruction &instruction) {
  current.store(instruction.entry, std::memory_order_relaxed);
  switch (instruction.kind) {
  case FSDP_CALL:
    return calls[instruction.index].run(context);
  case FSDP_ALL_GATHER_START:
  case FSDP_REDUCE_SCATTER_START:
  case FSDP_ALL_REDUCE_START:
    start(view.entries()[instruction.entry], instruction.entry);
    return Status();
  case FSDP_WAIT: {
    uint32_t handle = view.entries()[instruction.entry].handle;
    choices[handle].noteWait();
    return streams[FSDP_COMPUTE]->wait(*events[handle]);
  }
  case FSDP_COPY: {
    Copy &copy = copies[instruction.index];
    if (copy.source.defined())
      copy.destination.copy_(copy.source);
    else
      streams[FSDP_COMPUTE]->copy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
    stats.copiedBytes += copy.bytes;
    return Status();
  }
  case FSDP_ZERO: {
    const fsdp_entry &entry = view.entries()[instruction.entry];
    streams[FSDP_COMPUTE]->zero(arena + entry.destination, static_cast<size_t>(entry.bytes));
    return Status();
  }
  case FSDP_UPDATE:
    squareSum += updates[instruction.index]->run(context.inputs.step, context.inputs.learningRate);
    return Status();
  default:
    return Status();
  }
}

/// Measures the calls on the way, checks the views, and drops what later steps need not do.
Status PlanExecutor::runFirst() {
  for (const Instruction &instruction : instructions) {
    current.store(instruction.entry, std::memory_order_relaxed);
    Status status = instruction.kind == FSDP_CALL   ? calls[instruction.index].measure(context)
                    : instruction.kind == FSDP_VIEW ? views[instruction.index].checkView(context)
                                                    : run(instruction);
    if (!status.ok())
      return status;
  }
  if (Status status = synchronize(); !status.ok())
    return status;
  placeTemporaries();
  std::erase_if(instructions, [](const Instruction &item) { return item.kind == FSDP_VIEW; });
  views.clear();
  return Status();
}

void PlanExecutor::placeTemporaries() {
  size_t bytes = 0;
  for (const OperatorCall &call : calls)
    bytes = std::max(bytes, call.scratchBytes());
  scratch.emplace(bytes);
  for (OperatorCall &call : calls)
    call.placeTemporaries(scratch->data());
  stats.scratchBytes = static_cast<int64_t>(bytes);
}

std::vector<int64_t> PlanExecutor::temporaryBytes() const {
  std::vector<int64_t> bytes(view.entries().size());
  for (const Instruction &instruction : instructions)
    if (instruction.kind == FSDP_CALL)
      bytes[instruction.entry] = static_cast<int64_t>(calls[instruction.index].scratchBytes());
  return bytes;
}

Status PlanExecutor::runObserved() {
  for (const Instruction &instruction : instructions) {
    std::chrono::nanoseconds begin = observer->now();
    if (Status status = run(instruction); !status.ok())
      return status;
    observer->ran(instruction.entry, observer->now() - begin);
  }
  return synchronize();
}

Status PlanExecutor::runAll() {
  if (observer)
    return runObserved();
  for (const Instruction &instruction : instructions)
    if (Status status = run(instruction); !status.ok())
      return status;
  return synchronize();
}

Status PlanExecutor::synchronize() {
  for (auto &stream : streams)
    if (stream)
      if (Status status = stream->synchronize(); !status.ok())
        return status;
  return Status();
}

double PlanExecutor::loss() const {
  const fsdp_value &value = view.values()[view.tables().loss_value];
  const std::byte *place = arena + value.offset;
  switch (value.dtype) {
  case FSDP_F64:
    return *reinterpret_cast<const double *>(place);
  case FSDP_BF16:
    return *reinterpret_cast<const c10::BFloat16 *>(place);
  case FSDP_F16:
    return *reinterpret_cast<const c10::Half *>(place);
  default:
    return *reinterpret_cast<const float *>(place);
  }
}

/// The results at `bytes`, which readback gives; null: none.
static std::optional<StepResults> resultsAt(const std::byte *bytes) {
  if (!bytes)
    return std::nullopt;
  StepResults results;
  std::memcpy(&results, bytes, sizeof(results));
  return results;
}

Result<std::optional<StepResults>> PlanExecutor::finish() {
  Result<const std::byte *> bytes = readback->drain();
  if (!bytes.ok())
    return bytes.status();
  return resultsAt(*bytes);
}

Result<std::optional<StepResults>> PlanExecutor::step(const StepInputs &inputs) {
  if (spent)
    return Status::error("the executor has failed before");
  stats.copiedBytes = 0;
  stats.fallbacksByOperator.clear();
  context.allocations.served = context.allocations.fallbacks = 0;
  context.inputs = inputs;
  squareSum = 0;

  Status status;
  try {
    // Autograd and functionalization have happened at compile time.
    at::AutoDispatchBelowADInplaceOrView guard;
    status = measured ? runAll() : runFirst();
  } catch (const c10::Error &error) {
    status = Status::error(view.describeEntry(view.entries()[current]) + ": " +
                           error.what_without_backtrace());
  } catch (const std::exception &error) {
    status = Status::error(view.describeEntry(view.entries()[current]) + ": " + error.what());
  }
  if (!status.ok()) {
    spent = true;
    // The peers need not find out by their deadline.
    communicator.abort(status.message());
    return status;
  }
  measured = true;
  stats.plannedAllocations = context.allocations.served;
  stats.fallbackAllocations = context.allocations.fallbacks;
  own = {inputs.step, loss(), squareSum};
  readback->enqueue(*streams[FSDP_COMPUTE], &own);
  Result<const std::byte *> bytes = readback->next();
  if (!bytes.ok())
    return bytes.status();
  return resultsAt(*bytes);
}

Result<std::unique_ptr<Executor>> Executor::create(const fsdp_plan &plan, Device &device,
                                                   Communicator &communicator, std::byte *arena,
                                                   ExecutorOptions options) {
  if (Status status = validatePlan(plan); !status.ok())
    return status;
  if (plan.world_size != communicator.size())
    return Status::error("the step was compiled for " + std::to_string(plan.world_size) +
                         " ranks, the run has " + std::to_string(communicator.size()));
  installPlacementAllocator();
  auto executor = std::make_unique<PlanExecutor>(plan, device, communicator, arena, options);
  try {
    if (Status status = executor->prepare(); !status.ok())
      return status;
  } catch (const c10::Error &error) {
    return Status::error(std::string("cannot prepare the plan: ") + error.what_without_backtrace());
  } catch (const std::exception &error) {
    return Status::error(std::string("cannot prepare the plan: ") + error.what());
  }
  return std::unique_ptr<Executor>(std::move(executor));
}
