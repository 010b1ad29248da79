//===- StepProgram.h - A plan's entries, ready to run ------------*- C++ -*-===//
//
// The entries of a plan with everything resolved: operators, argument stacks, addresses. Walking it
// issues one step. The first walk measures the operators' allocations and checks the views.
//
// Used by the thread that runs the step. Does not throw.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_STEPPROGRAM_H
#define FSDP_RUNTIME_STEPPROGRAM_H

#include "executor/CollectiveLanes.h"
#include "executor/HostCopies.h"
#include "executor/NonFiniteFinder.h"
#include "executor/OperatorCall.h"

#include <functional>

namespace fsdp::rt {

/// What a plan that clips gradients clips to: their norm, or each element. 0: it does not clip so.
struct ClipLimits {
  double norm = 0, value = 0;
};

class StepProgram {
public:
  /// All arguments outlive the object. `runtime` is prepared before prepare().
  StepProgram(const PlanView &view, OperatorRuntime &runtime, Stream &compute,
              CollectiveLanes &lanes, HostCopies &hostCopies, std::byte *arena, unsigned rank,
              ClipLimits limits);

  /// To be called before prepare(): when the gradients' norm is known, `gate` is called with this
  /// rank's part of it and decides whether the step updates anything.
  void askBeforeUpdates(std::function<Result<bool>(double partialNorm)> gate) {
    allowsUpdates = std::move(gate);
  }
  /// To be called before prepare(): makes each step run with a NonFiniteFinder.
  void findNonFinite();
  /// Null unless findNonFinite() was called.
  const NonFiniteFinder *nonFiniteFinder() const { return finder ? &*finder : nullptr; }

  /// The step's loss scale in the arena; null if the plan has none.
  float *lossScale() const;

  /// To be called before the first step: ExecutorOptions::collectsFailures.
  void collectFailures() { collectsFailures = true; }
  /// Executor::operatorFailures().
  const std::vector<std::string> &operatorFailures() const { return failures; }
  /// Executor::operatorFacts().
  const std::vector<OperatorFact> &operatorFacts() const { return context.facts; }

  /// Positions of the random draws of a plan's step, ascending.
  static std::vector<int64_t> drawsOf(const PlanView &view);

  /// Resolves everything; adds the updates to the runtime. May throw.
  Status prepare(OperatorKernels kernels);

  /// Issues the first step, which measures temporaries inside operators.
  Status runFirst();
  /// To be called once, when the first step is complete: places the measured temporaries.
  Status prepareLaterSteps();
  /// Issues a later step.
  Status run();
  /// The same, and reports to `tracer` the begin and end of all work that the compute stream runs
  /// or waits for.
  Status runTraced(EntryTracer &tracer, Overlap overlap);

  /// Why the last issued step cannot be captured; "" if it can.
  std::string captureObstacle() const;

  const ExecutorStatistics &statistics() const { return stats; }
  const std::atomic<uint32_t> &currentEntry() const { return current; }
  /// As Executor::temporaryBytes().
  std::vector<int64_t> temporaryBytes() const;

private:
  /// An entry, or several starts in one launch. Entries with nothing to run have no instruction.
  struct Instruction {
    uint8_t kind;   // fsdp_entry_kind
    uint32_t index; // index of the call, view, copy or update; for starts, their number
    uint32_t entry; // the first entry
  };
  struct Copy {
    at::Tensor destination, source; // undefined if bytes can be copied as they are
    std::byte *to = nullptr;
    const std::byte *from = nullptr;
    int64_t bytes = 0;
  };

  /// The norm of a group's gradients, at another address than the one from which its updates read
  /// them.
  struct ShardNorm {
    std::pair<size_t, size_t> segments; // range of the runtime's updates: from, to
    int64_t shiftBytes;
  };

  // Defined in PrepareStepProgram.cpp, as prepare() and drawsOf() are.
  void makeTensors();
  void copyConstants();
  Status prepareLaunch(const fsdp_entry &entry);
  Status prepareEntry(uint32_t index);
  void prepareCopy(const fsdp_entry &entry);
  void prepareChunk(const fsdp_entry &entry);
  ShardBuffers buffersOf(const fsdp_group &group) const;
  Status prepareUpdate(const fsdp_entry &entry);
  /// To be called when all updates are known.
  void prepareShardNorms();
  void prepareFrozen();

  /// Runs `measure`, the first run of the call. If failures are collected, a failure sets the
  /// call's results to zero.
  Status measureCall(OperatorCall &call, const std::function<Status()> &measure);

  /// Runs `walk` as one step, with fresh statistics. An exception becomes an error that names the
  /// entry.
  Status issue(const std::function<Status()> &walk);
  Status execute(const Instruction &instruction, bool awaited);
  void runCopy(Copy &copy);
  /// Runs `action` between `finder`'s checks.
  Status follow(const Instruction &instruction, const std::function<Status()> &action);
  /// Makes the compute stream wait for the work that `instruction` has started.
  Status awaitStarted(const Instruction &instruction);

  const PlanView &view;
  OperatorRuntime &runtime;
  Stream &compute;
  CollectiveLanes &lanes;
  HostCopies &hostCopies;
  std::byte *const arena;
  const unsigned rank; // of the run
  const ClipLimits limits;
  PlacedMemory placedArena;
  std::unique_ptr<Memory> scratch;
  std::optional<PlacedMemory> placedScratch;
  ExecutorStatistics stats;
  CallContext context;

  std::vector<at::Tensor> tensors; // the plan's values; undefined ones stay undefined
  std::vector<OperatorCall> calls, views;
  std::vector<Copy> copies;
  std::vector<std::vector<Copy>> chunks;          // what each FSDP_CHUNK copies
  std::vector<std::pair<size_t, size_t>> updates; // of each FSDP_UPDATE: the runtime's from, to
  std::vector<ShardNorm> shardNorms;              // of each FSDP_SHARD_NORM
  size_t numSegments = 0;                         // the runtime's updates
  size_t numLaunches = 0;                         // the runtime's launches
  uint32_t numShardNorms = 0;
  std::vector<Instruction> instructions;             // of a step
  std::atomic<uint32_t> current{0};                  // running entry, for messages
  std::function<Result<bool>(double)> allowsUpdates; // null: every step updates
  double partialNorm = 0;                            // this rank's, for allowsUpdates
  std::optional<NonFiniteFinder> finder;
  bool collectsFailures = false;
  std::vector<std::string> failures; // of the first step
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_STEPPROGRAM_H
