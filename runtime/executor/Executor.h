//===- Executor.h - Runs a plan, step after step -----------------*- C++ -*-===//
//
// The executor resolves everything once (operators, arguments, addresses, events) and then walks
// the plan's entries. It runs on the thread that made it. On a CPU that thread is the compute
// stream; on a GPU it issues the work of the streams, or launches a step as one graph.
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

/// The inputs of a step beside its batch.
struct StepInputs {
  int64_t step = 1; // from 1
  /// The number of earlier steps without an update, which the optimizer does not count.
  int64_t skipped = 0;
  double learningRate = 0;
  double lossScale = 0; // of a plan that scales its loss
  uint64_t seed = 0; // of the run; with step, rank and a draw's position it determines a draw
  /// By optimizer group of the plan. Parameters of no group have `learningRate`; if this is empty,
  /// all have. Valid until the step has been issued.
  std::span<const double> groupLearningRates = {};
  /// Issues the step entry by entry, even if other steps are graphs. Must be the same on all ranks.
  /// To be set for a step that a rank traces, since its collectives do not match those of a graph.
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
  int64_t step = 0;       // StepInputs::step of the step
  double loss = 0;        // of this rank
  double partialNorm = 0; // of this rank's shards of the reduced gradients, before clipping and
                          // still multiplied by the loss scale: its part of PlanView::normType(),
                          // see plan/NormType.h
  bool nonFinite = false; // with findNonFinite: loss, gradients or updated parameters of this rank
                          // are not finite
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
  /// By operator and module: results with other strides than the plan's.
  std::map<std::string, RelaidResults> relaid;
  int64_t copiedBytes = 0;  // of results not at their planned address, and of FSDP_COPY entries
  int64_t scratchBytes = 0; // memory beside the arena for temporaries inside operators
  int64_t replacedOperators = 0; // calls of a step that the runtime's own kernels compute
};

/// Which kernels compute operators; results are bitwise the same.
enum class OperatorKernels { Torch, Fastest };

/// Whether a whole step becomes one graph of the device, if that is possible.
enum class GraphMode {
  Automatic,
  Off,
  OffInThreads // since ranks are threads of one process, and the user has not asked for graphs
};

/// True if the host sees a step's values while the step runs, and can decide on its updates: on a
/// CPU, if the host waits for each step. `lossLag` as in ExecutorOptions.
inline bool hostSeesSteps(bool isOnHost, unsigned lossLag) { return isOnHost && lossLag == 0; }

struct ExecutorOptions {
  /// Fastest: tries the kernels of the runtime, see KernelChoice.h. On a CPU only.
  OperatorKernels kernels = OperatorKernels::Fastest;
  GraphMode graph = GraphMode::Automatic;
  /// For a plan that clips: the norm, or the value of each element, to clip to, instead of the
  /// plan's. Above 0 and finite in fp32.
  std::optional<double> clipGradNorm = {}, clipGradValue = {};
  /// Steps that may be in flight on the device when step() returns. 0: step() waits for its own
  /// step.
  unsigned lossLag = 0;
  /// For a plan that takes the norm before its updates, if hostSeesSteps(): called with the step's
  /// results when the gradients' norm is known, before the step's first update. If it returns
  /// false, the step updates nothing. All ranks must return the same. Its error is the step's
  /// error.
  std::function<Result<bool>(const StepResults &)> allowsUpdates = {};
  /// If hostSeesSteps(): checks for NaN and Inf after every entry, which is slow.
  bool findNonFinite = false;
  /// The first step goes on after operators that fail or differ from the plan, with zeros for their
  /// results, and fails at its end: operatorFailures().
  bool collectsFailures = false;
  /// hostArena() of another executor over the same arena, which outlives this one; null: the
  /// executor allocates its own.
  std::byte *hostArena = nullptr;
  /// False: state and tensors on the host are in pageable memory. A device copies it more slowly,
  /// and no step is a graph.
  bool pinHostArena = true;
};

/// Where NaN or Inf first appears in a step whose results are not finite.
struct NonFinite {
  uint32_t place = 0; // 0: before the step; n: by entry n - 1
  std::string text;   // for people: the value, and its NaN and Inf
};

/// Whether a step is one graph of the device.
struct GraphNote {
  /// Open: not decided before the steps that a graph needs have run.
  enum class State { Open, On, Off };
  State state = State::Open;
  /// For people: "on: a step is one graph", "off: <reason>" or "not yet: <reason>".
  std::string text;
};

class Executor {
public:
  virtual ~Executor() = default;

  /// Makes an executor for `plan` on this thread. `arena` is plan.arena_bytes long and zeroed, and
  /// outlives the executor, as do the other arguments. Torch's number of intra-op threads must be
  /// set before. Errors name the operator or value concerned.
  static Result<std::unique_ptr<Executor>> create(const fsdp_plan &plan, Device &device,
                                                  Communicator &communicator, std::byte *arena,
                                                  ExecutorOptions options = {});

  /// The bytes of input `index` of the next step, in host memory. To be called and filled before
  /// each step, since the address changes between steps; the inputs of earlier steps stay
  /// untouched.
  virtual std::span<std::byte> input(unsigned index) = 0;

  /// Issues one step. Waits for the step `lossLag` steps before and returns its results; nothing in
  /// the first `lossLag` steps. The first step also measures temporaries inside operators and
  /// places them. After an error the executor cannot be used any more.
  virtual Result<std::optional<StepResults>> step(const StepInputs &inputs) = 0;

  /// Waits for the oldest step whose results step() has not returned, and returns them; nothing if
  /// there is none left. Then no step is in flight, and further steps may follow.
  virtual Result<std::optional<StepResults>> finish() = 0;

  /// Passes its streams to the communicator again, after another executor has run steps with it. No
  /// step of either may be in flight.
  virtual void resume() = 0;

  /// With collectsFailures: the failures of the first step, each with a message that names the
  /// operator.
  virtual const std::vector<std::string> &operatorFailures() const = 0;

  /// Results of the first step whose dtype, sizes or strides differ from the plan.
  virtual const std::vector<OperatorFact> &operatorFacts() const = 0;

  /// Whether a step is one graph.
  virtual const GraphNote &graphNote() const = 0;

  /// With findNonFinite: the finding of the last step, if its StepResults::nonFinite is set.
  virtual std::optional<NonFinite> nonFinite() const = 0;

  virtual const ExecutorStatistics &statistics() const = 0;

  /// The host's time in the last step(), without its wait for results.
  virtual std::chrono::nanoseconds issueTime() const = 0;

  /// The entry of the plan that was issued last on the compute stream. May be read from any thread.
  virtual const std::atomic<uint32_t> &currentEntry() const = 0;

  /// The memory of state on the host between steps; null if the plan has none. Like the arena, it
  /// may be read and written while no step is in flight.
  virtual std::byte *hostArena() = 0;

  /// From the second step on, steps are issued entry by entry and reported to `tracer`, until it is
  /// null. Other ranks must run these steps with StepInputs::byEntry.
  virtual void trace(EntryTracer *tracer, Overlap overlap = Overlap::AsPlanned) = 0;

  /// For each entry of the plan, the bytes of temporaries inside its operator. Known after the
  /// first step.
  virtual std::vector<int64_t> temporaryBytes() const = 0;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_EXECUTOR_H
