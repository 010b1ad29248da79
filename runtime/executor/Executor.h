//===- Executor.h - Runs a plan, step after step -----------------*- C++ -*-===//
//
// The executor resolves everything once (operators, arguments, addresses, events) and then walks
// the plan's entries. It runs on the thread that made it, which is the compute stream of a CPU; of
// a GPU that thread issues what the streams run, or launches a step as one graph.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EXECUTOR_H
#define FSDP_RUNTIME_EXECUTOR_H

#include "Status.h"
#include "comm/Communicator.h"
#include "device/Device.h"
#include "executor/EntryTracer.h"
#include "fsdp/Plan/Abi.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fsdp {
struct OperatorFact;
}

namespace fsdp::rt {

/// What a step needs from outside.
struct StepInputs {
  int64_t step = 1; // from 1
  /// How many steps before have had no update: the optimizer does not count them.
  int64_t skipped = 0;
  double learningRate = 0;
  uint64_t seed = 0; // of the run; with step, rank and a draw's position it determines the numbers
  /// By optimizer group of the plan; parameters of no group, or of any if there are none here, have
  /// `learningRate`. Valid until the step has been issued.
  std::span<const double> groupLearningRates = {};
  /// On all ranks alike: the step is issued entry by entry where others are graphs. To be set for a
  /// step that a rank traces, whose collectives do not meet those of a graph.
  bool byEntry = false;

  /// The number of the update, from 1, as torch's optimizers count.
  int64_t update() const { return step - skipped; }
  /// The rate of parameters of this `fsdp_parameter::optimizer`.
  double learningRateOf(uint32_t optimizer) const {
    return optimizer == 0 || groupLearningRates.empty() ? learningRate
                                                        : groupLearningRates[optimizer - 1];
  }
};

struct StepResults {
  int64_t step = 0;       // whose results these are: StepInputs::step
  double loss = 0;        // of this rank
  double partialNorm = 0; // of this rank's shards of the reduced gradients, before clipping: its
                          // part of PlanView::normType(), see plan/NormType.h
  bool nonFinite =
      false; // findNonFinite: loss, gradients or updated parameters of this rank are not
};

/// Results of one call that are copied into the strides of the plan, per step.
struct RelaidResults {
  int64_t results = 0;
  int64_t bytes = 0;
};

/// Figures of the last step, for reports and tests.
struct ExecutorStatistics {
  int64_t plannedAllocations = 0;  // served at their planned address
  int64_t fallbackAllocations = 0; // served by the ordinary allocator during an operator
  std::map<std::string, int64_t> fallbacksByOperator;
  /// By operator and module: results whose strides are not the plan's.
  std::map<std::string, RelaidResults> relaid;
  int64_t copiedBytes = 0;  // results that did not land at their address, and FSDP_COPY entries
  int64_t scratchBytes = 0; // memory beside the arena for temporaries inside operators
  int64_t replacedOperators = 0; // calls of a step that kernels of the runtime compute
};

/// Which kernels compute operators; the numbers are the same.
enum class OperatorKernels { Torch, Fastest };

/// Whether a whole step becomes one graph of the device, where that can be.
enum class GraphMode {
  Automatic,
  Off,
  OffInThreads // because ranks are threads of one process, and nobody has asked for graphs there
};

/// Whether the host sees what a step computes while the step runs, so that it may decide on the
/// step's updates: on a CPU, if the host waits for each step. `lossLag` as in ExecutorOptions.
inline bool hostSeesSteps(bool isOnHost, unsigned lossLag) { return isOnHost && lossLag == 0; }

struct ExecutorOptions {
  /// Fastest: tries the kernels of the runtime, see KernelChoice.h. On a CPU only.
  OperatorKernels kernels = OperatorKernels::Fastest;
  GraphMode graph = GraphMode::Automatic;
  /// Of a plan that clips: to this norm instead of the plan's. Above 0 and finite in fp32.
  std::optional<double> clipGradNorm = {};
  /// Steps that may be under way on the device when step() returns. 0: it waits for its own.
  unsigned lossLag = 0;
  /// Of a plan that clips, where hostSeesSteps(): is asked when the gradients' norm is known and
  /// before the first update of a step, whose results are handed over. False: the step updates
  /// nothing. It must answer alike on all ranks; what fails there is the step's error.
  std::function<Result<bool>(const StepResults &)> allowsUpdates = {};
  /// Where hostSeesSteps(): looks for NaN and Inf behind every entry, which is slow.
  bool findNonFinite = false;
  /// The first step goes on behind operators that fail or do otherwise than the plan says, with
  /// zeros for their results, and fails at its end: operatorFailures().
  bool collectsFailures = false;
  /// hostArena() of another executor over the same arena, which outlives this one; null: the
  /// executor allocates its own.
  std::byte *hostArena = nullptr;
  /// False: what the plan keeps on the host lies in ordinary memory. A device copies it more
  /// slowly, and no step is a graph.
  bool pinHostArena = true;
};

/// Where numbers of a step that has spoiled its results cease to be finite.
struct NonFinite {
  uint32_t place = 0; // 0: before the step; n: by entry n - 1
  std::string text;   // for people: what it is, and what it has
};

/// Whether a step is one graph of the device.
struct GraphNote {
  /// Open: not decided as long as steps that a graph needs have not run.
  enum class State { Open, On, Off };
  State state = State::Open;
  /// For people: "on: a step is one graph", "off: <reason>" or "not yet: <reason>".
  std::string text;
};

class Executor {
public:
  virtual ~Executor() = default;

  /// Makes an executor for `plan` on this thread. `arena` is plan.arena_bytes long and zeroed, and
  /// outlives the executor, as do the other arguments. Torch's number of intra-op threads is to be
  /// set before. Errors name the operator or value concerned.
  static Result<std::unique_ptr<Executor>> create(const fsdp_plan &plan, Device &device,
                                                  Communicator &communicator, std::byte *arena,
                                                  ExecutorOptions options = {});

  /// The bytes of input `index` of the next step, in memory of the host. To be asked for and filled
  /// before each step, as the place changes between steps; what earlier steps read stays untouched.
  virtual std::span<std::byte> input(unsigned index) = 0;

  /// Issues one step. Returns the results of the step `lossLag` steps before, for which it waits;
  /// nothing in the first `lossLag` steps. The first step also measures temporaries inside
  /// operators and places them. After an error the executor is spent.
  virtual Result<std::optional<StepResults>> step(const StepInputs &inputs) = 0;

  /// The results of the oldest step that step() has not returned, for which it waits; nothing when
  /// there is none left: no step is under way then, and others may follow.
  virtual Result<std::optional<StepResults>> finish() = 0;

  /// Makes its streams the communicator's again, where another executor has run steps with it. No
  /// step of either is under way.
  virtual void resume() = 0;

  /// With collectsFailures: what went wrong in the first step, a message that names the operator
  /// for each.
  virtual const std::vector<std::string> &operatorFailures() const = 0;

  /// Results of the first step that lie otherwise than the plan says.
  virtual const std::vector<OperatorFact> &operatorFacts() const = 0;

  /// Whether a step is one graph.
  virtual const GraphNote &graphNote() const = 0;

  /// With findNonFinite: of the last step, if its StepResults::nonFinite is set.
  virtual std::optional<NonFinite> nonFinite() const = 0;

  virtual const ExecutorStatistics &statistics() const = 0;

  /// How long the last step() kept the host, without its wait for results.
  virtual std::chrono::nanoseconds issueTime() const = 0;

  /// The entry of the plan that was issued last on the compute stream. May be read from any thread.
  virtual const std::atomic<uint32_t> &currentEntry() const = 0;

  /// Where optimizer state of groups with state_on_host lies between steps; null where there is
  /// none. Like the arena it may be read, and written, while no step is under way.
  virtual std::byte *hostArena() = 0;

  /// From the second step on, steps are issued entry by entry and told to `tracer`, until it is
  /// null. On ranks that trace nothing these steps need StepInputs::byEntry.
  virtual void trace(EntryTracer *tracer, Overlap overlap = Overlap::AsPlanned) = 0;

  /// By entry of the plan: bytes of temporaries inside the operator that it calls. Known after the
  /// first step.
  virtual std::vector<int64_t> temporaryBytes() const = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_EXECUTOR_H
