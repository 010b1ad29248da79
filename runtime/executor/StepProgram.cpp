//===- StepProgram.cpp - Runs a plan's entries ----------------------------===//

#include "executor/StepProgram.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

using namespace fsdp::rt;

StepProgram::StepProgram(const PlanView &view, OperatorRuntime &runtime, Stream &compute,
                         CollectiveLanes &lanes, HostCopies &hostCopies, std::byte *arena,
                         unsigned rank, ClipLimits limits)
    : view(view), runtime(runtime), compute(compute), lanes(lanes), hostCopies(hostCopies),
      arena(arena), rank(rank), limits(limits),
      placedArena(arena, static_cast<size_t>(view.tables().arena_bytes)),
      context{.view = view, .statistics = stats, .runtime = runtime, .compute = compute} {}

float *StepProgram::lossScale() const {
  if (!view.scalesLoss())
    return nullptr;
  return reinterpret_cast<float *>(arena + view.values()[view.tables().loss_scale_value].offset);
}

void StepProgram::runCopy(Copy &copy) {
  if (copy.source.defined())
    copy.destination.copy_(copy.source);
  else
    compute.copy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
}

Status StepProgram::execute(const Instruction &instruction, bool awaited) {
  current.store(instruction.entry, std::memory_order_relaxed);
  const fsdp_entry &entry = view.entries()[instruction.entry];
  switch (instruction.kind) {
  case FSDP_CALL:
    return calls[instruction.index].run(context);
  case FSDP_KERNEL:
    return runtime.launch(instruction.index);
  case FSDP_ALL_GATHER_START:
  case FSDP_REDUCE_SCATTER_START:
  case FSDP_ALL_REDUCE_START:
  case FSDP_NORM_ALL_REDUCE_START:
  case FSDP_AMAX_ALL_REDUCE_START:
    lanes.start(instruction.entry, instruction.index, awaited);
    return {};
  case FSDP_MODEL_ALL_REDUCE:
  case FSDP_MODEL_ALL_GATHER:
  case FSDP_MODEL_REDUCE_SCATTER:
    return lanes.runOfModel(instruction.entry);
  case FSDP_FETCH_STATE_START:
  case FSDP_STORE_STATE_START:
    hostCopies.start(entry, lanes.eventOf(entry.handle));
    return {};
  case FSDP_STORE_START:
  case FSDP_FETCH_START:
    hostCopies.copyValue(entry, lanes.eventOf(entry.handle));
    return {};
  case FSDP_WAIT:
    return lanes.wait(entry.handle);
  case FSDP_COPY:
    runCopy(copies[instruction.index]);
    stats.copiedBytes += copies[instruction.index].bytes;
    return {};
  case FSDP_ACCUMULATE: {
    Copy &sum = copies[instruction.index];
    sum.destination.add_(sum.source);
    return {};
  }
  case FSDP_CHUNK:
    for (Copy &copy : chunks[instruction.index])
      runCopy(copy);
    return {};
  case FSDP_ZERO:
    compute.zero(arena + entry.destination, static_cast<size_t>(entry.bytes));
    return {};
  case FSDP_SHARD_NORM: {
    const ShardNorm &norm = shardNorms[instruction.index];
    for (size_t segment = norm.segments.first; segment < norm.segments.second; ++segment)
      if (Status status = runtime.shardNorm(segment, view.normType(), norm.shiftBytes);
          !status.ok())
        return status;
    return {};
  }
  case FSDP_PARTIAL_NORM: {
    auto *part = reinterpret_cast<double *>(arena + entry.destination);
    Status status = runtime.partialNorm(view.normType(), part);
    if (allowsUpdates) // the sum over ranks overwrites it
      partialNorm = *part;
    return status;
  }
  case FSDP_CLIP_FACTOR: {
    Status status =
        runtime.clip(view.normType(), reinterpret_cast<const double *>(arena + entry.source),
                     static_cast<float>(limits.norm), lossScale());
    if (!status.ok() || !allowsUpdates)
      return status;
    Result<bool> allowed = allowsUpdates(partialNorm);
    if (!allowed.ok() || !*allowed)
      runtime.leaveOutUpdates();
    return allowed.status();
  }
  case FSDP_UPDATE:
    for (auto [segment, end] = updates[instruction.index]; segment < end; ++segment)
      if (Status status = runtime.update(segment); !status.ok())
        return status;
    return {};
  default:
    return {};
  }
}

void StepProgram::findNonFinite() { finder.emplace(view, arena, rank); }

Status StepProgram::follow(const Instruction &instruction, const std::function<Status()> &action) {
  finder->before(instruction.entry, tensors);
  Status status = action();
  if (status.ok())
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
    // Autograd and functionalization were done at compile time.
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

Status StepProgram::measureCall(OperatorCall &call, const std::function<Status()> &measure) {
  if (!collectsFailures)
    return measure();
  Status status;
  try {
    status = measure();
  } catch (const c10::Error &error) {
    status = Status::error(view.describeEntry(view.entries()[current]) + ": " +
                           error.what_without_backtrace());
  } catch (const std::exception &error) {
    status = Status::error(view.describeEntry(view.entries()[current]) + ": " + error.what());
  }
  if (status.ok())
    return {};
  failures.push_back(status.message());
  call.leaveOut(context);
  return {};
}

Status StepProgram::runFirst() {
  Status status = issue([&]() -> Status {
    for (const Instruction &instruction : instructions) {
      current.store(instruction.entry, std::memory_order_relaxed);
      auto run = [&] {
        if (instruction.kind == FSDP_CALL) {
          OperatorCall &call = calls[instruction.index];
          return measureCall(call, [&] { return call.measure(context); });
        }
        if (instruction.kind == FSDP_VIEW) {
          OperatorCall &made = views[instruction.index];
          return measureCall(made, [&] { return made.checkView(context); });
        }
        return execute(instruction, false);
      };
      if (Status done = finder ? follow(instruction, run) : run(); !done.ok())
        return done;
    }
    return {};
  });
  if (!status.ok() || failures.empty())
    return status;
  const bool isOne = failures.size() == 1;
  return Status::error(std::to_string(failures.size()) + (isOne ? " operator" : " operators") +
                       " of the step " + (isOne ? "does" : "do") +
                       " otherwise than the plan says; the first: " + failures[0]);
}

Status StepProgram::prepareLaterSteps() {
  // Later steps need no checks of views.
  std::erase_if(instructions, [](const Instruction &item) { return item.kind == FSDP_VIEW; });
  views.clear();
  size_t bytes = 0;
  for (const OperatorCall &call : calls)
    bytes = std::max(bytes, call.scratchBytes());
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
  // A copy to or from the host is one entry.
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
      // Collectives and copies to and from the host have streams of their own.
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

std::string StepProgram::captureObstacle() const {
  if (std::string obstacle = hostCopies.captureObstacle(); !obstacle.empty())
    return obstacle;
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
  return bytes;
}
