//===- Executor.cpp - Runs a plan, step after step -------------------------===//

#include "executor/Executor.h"
#include "DType.h"
#include "device/LaggedReadback.h"
#include "executor/InputStaging.h"
#include "executor/StepGraph.h"
#include "executor/StepProgram.h"
#include "plan/ValidateClipping.h"
#include "watch/PlanLanes.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstring>
#include <queue>

using namespace fsdp::rt;

namespace {
/// Results of a step in device memory, which the host reads.
struct DeviceResults {
  double partialNorm;
  std::byte loss[sizeof(double)]; // of the loss's dtype
};

class PlanExecutor final : public Executor {
public:
  PlanExecutor(const fsdp_plan &plan, Device &device, Communicator &communicator, std::byte *arena,
               ExecutorOptions options)
      : view(plan), device(device), communicator(communicator), arena(arena), options(options) {}
  ~PlanExecutor() override;

  /// Resolves everything.
  Status prepare();

  std::span<std::byte> input(unsigned index) override;
  Result<std::optional<StepResults>> step(const StepInputs &inputs) override;
  Result<std::optional<StepResults>> finish() override;
  void resume() override { lanes->useStreams(); }
  const GraphNote &graphNote() const override { return graph->note(); }
  const std::vector<std::string> &operatorFailures() const override {
    return program->operatorFailures();
  }
  const std::vector<fsdp::OperatorFact> &operatorFacts() const override {
    return program->operatorFacts();
  }
  const ExecutorStatistics &statistics() const override { return program->statistics(); }
  std::optional<NonFinite> nonFinite() const override {
    const NonFiniteFinder *finder = program->nonFiniteFinder();
    return finder ? finder->finding() : std::nullopt;
  }
  std::chrono::nanoseconds issueTime() const override { return issuing; }
  const std::atomic<uint32_t> &currentEntry() const override { return program->currentEntry(); }
  std::byte *hostArena() override { return hostCopies->hostMemory(); }
  void trace(EntryTracer *next, Overlap beside) override {
    tracer = next;
    overlap = beside;
    lanes->trace(overlap == Overlap::AsPlanned ? next : nullptr);
  }
  std::vector<int64_t> temporaryBytes() const override { return program->temporaryBytes(); }

private:
  Status prepareInputs();
  void writeLossScale(double scale);
  /// Issues the step's entries, or launches the graph of them.
  Status issue(bool byEntry);
  /// Issues what a graph holds: the begin of a step, `entries`, and the end.
  Status issueWhole(const std::function<Status()> &entries);
  Status capture();
  Status synchronize();
  Result<std::optional<StepResults>> taken(Result<const std::byte *> bytes);
  /// Prepares the checks that ExecutorOptions asks for.
  Status prepareQuestions();
  double lossAt(const std::byte *bytes) const;

  const PlanView view;
  Device &device;
  Communicator &communicator;
  std::byte *const arena;
  const ExecutorOptions options;

  std::unique_ptr<Stream> compute;
  std::unique_ptr<OperatorRuntime> runtime;
  std::unique_ptr<InputStaging> inputs; // null: inputs are written in place, or there are none
  std::unique_ptr<Memory> results;      // DeviceResults
  std::unique_ptr<LaggedReadback> readback;
  std::queue<int64_t> outstanding; // numbers of the steps that `readback` holds
  unsigned placedSteps = 0;        // that ran with all allocations placed
  int64_t current = 0;             // number of the current step
  bool measured = false, spent = false;
  EntryTracer *tracer = nullptr;
  Overlap overlap = Overlap::AsPlanned; // of traced steps
  std::chrono::nanoseconds issuing{0};

  std::unique_ptr<StepProgram> program;
  std::optional<HostCopies> hostCopies;
  std::optional<CollectiveLanes> lanes;
  std::optional<StepGraph> graph; // last member: it ends before the members that it uses
};
} // namespace

//===----------------------------------------------------------------------===//
// Once
//===----------------------------------------------------------------------===//

Status PlanExecutor::prepareInputs() {
  if (runtime->isHost() || (view.inputs().empty() && !view.scalesLoss()))
    return {};
  std::vector<Staging::Part> parts;
  for (const fsdp_input &input : view.inputs()) {
    const fsdp_value &value = view.values()[input.value];
    parts.push_back({arena + value.offset, static_cast<size_t>(view.spanBytes(value))});
  }
  if (view.scalesLoss()) // behind all inputs
    parts.push_back({reinterpret_cast<std::byte *>(program->lossScale()), sizeof(float)});
  Result<std::unique_ptr<InputStaging>> made =
      InputStaging::create(device, std::move(parts), options.lossLag + 1);
  if (made.ok())
    inputs = std::move(*made);
  return made.status();
}

Status PlanExecutor::prepare() {
  compute = device.makeComputeStream();
  runtime = makeOperatorRuntime(device);
  std::vector<int64_t> draws = StepProgram::drawsOf(view);
  if (Status status = runtime->prepare({*compute, communicator.rank(), options.lossLag + 1, draws,
                                        1 + view.tables().num_optimizer_groups});
      !status.ok())
    return status;
  Result<std::unique_ptr<Memory>> memory = device.allocate(sizeof(DeviceResults));
  if (!memory.ok())
    return memory.status();
  results = std::move(*memory);
  auto made = LaggedReadback::create(device, sizeof(DeviceResults), options.lossLag);
  if (!made.ok())
    return made.status();
  readback = std::move(*made);
  hostCopies.emplace(view, device, *compute, arena, options.hostArena, options.pinHostArena);
  if (Status status = hostCopies->prepare(); !status.ok())
    return status;
  lanes.emplace(view, device, communicator, *compute, *hostCopies, arena);
  lanes->prepare();
  program = std::make_unique<StepProgram>(
      view, *runtime, *compute, *lanes, *hostCopies, arena, communicator.rank(),
      ClipLimits{options.clipGradNorm.value_or(view.tables().clip_grad_norm),
                 options.clipGradValue.value_or(view.tables().optimizer.clip_grad_value)});
  if (Status status = prepareInputs(); !status.ok())
    return status;
  if (Status status = prepareQuestions(); !status.ok())
    return status;
  if (options.collectsFailures)
    program->collectFailures();
  if (Status status = program->prepare(options.kernels); !status.ok())
    return status;
  graph.emplace(device, communicator, options.graph);
  if (runtime->isHost())
    graph->refuse("a CPU runs a step's work as it is issued");
  return {};
}

Status PlanExecutor::prepareQuestions() {
  if (!options.allowsUpdates && !options.findNonFinite)
    return {};
  if (!hostSeesSteps(runtime->isHost(), options.lossLag))
    return Status::error("updates are left out, and NaN is looked for, on a CPU whose steps are "
                         "waited for");
  if (options.findNonFinite && std::ranges::any_of(view.groups(), [&](const fsdp_group &group) {
        return view.areParametersOnHost(group);
      }))
    return Status::error(
        "--find-nan follows numbers through the arena, but offload_policy cpu keeps "
        "parameters outside it");
  if (options.findNonFinite)
    program->findNonFinite();
  if (!options.allowsUpdates)
    return {};
  if (!view.takesNorm())
    return Status::error(
        "updates are left out of steps that clip or scale their loss: others begin "
        "before the gradients' norm is known");
  program->askBeforeUpdates([this](double partialNorm) {
    const fsdp_value &loss = view.values()[view.tables().loss_value];
    return options.allowsUpdates({current, lossAt(arena + loss.offset), partialNorm});
  });
  return {};
}

PlanExecutor::~PlanExecutor() {
  // Steps in flight must end before their memory is freed.
  if (compute && !outstanding.empty())
    (void)compute->synchronize();
}

void PlanExecutor::writeLossScale(double scale) {
  if (!view.scalesLoss())
    return;
  const auto value = static_cast<float>(scale);
  std::byte *place = inputs ? inputs->host(static_cast<unsigned>(view.inputs().size()))
                            : reinterpret_cast<std::byte *>(program->lossScale());
  std::memcpy(place, &value, sizeof(value));
}

std::span<std::byte> PlanExecutor::input(unsigned index) {
  const fsdp_value &value = view.values()[view.inputs()[index].value];
  size_t bytes = static_cast<size_t>(view.spanBytes(value));
  if (inputs)
    return {inputs->host(index), bytes};
  return {bytes ? arena + value.offset : arena, bytes};
}

//===----------------------------------------------------------------------===//
// Every step
//===----------------------------------------------------------------------===//

Status PlanExecutor::issueWhole(const std::function<Status()> &entries) {
  if (Status status = runtime->begin(); !status.ok())
    return status;
  if (Status status = entries(); !status.ok())
    return status;
  auto *own = reinterpret_cast<DeviceResults *>(results->data());
  if (Status status = runtime->end(&own->partialNorm); !status.ok())
    return status;
  const fsdp_value &loss = view.values()[view.tables().loss_value];
  compute->copy(own->loss, arena + loss.offset, elementBytes(loss.dtype));
  return {};
}

Status PlanExecutor::synchronize() {
  if (Status status = compute->synchronize(); !status.ok())
    return status;
  if (Status status = lanes->synchronize(); !status.ok())
    return status;
  return hostCopies->synchronize();
}

Status PlanExecutor::capture() {
  return graph->capture(*compute, program->captureObstacle(), [&]() -> Status {
    Status status = issueWhole([&] { return program->run(); });
    // The ordinary allocator could hand out memory that the graph still uses.
    if (std::string obstacle = program->captureObstacle(); status.ok() && !obstacle.empty())
      return Status::error(obstacle);
    return status;
  });
}

Status PlanExecutor::issue(bool byEntry) {
  if (!measured) {
    if (Status status = runtime->writeGathered(); !status.ok())
      return status;
    hostCopies->writeGatherCopies();
    if (Status status = issueWhole([&] { return program->runFirst(); }); !status.ok())
      return status;
    measured = true;
    if (Status status = synchronize(); !status.ok())
      return status;
    // The ordinary allocator caches the memory in which temporaries were measured.
    runtime->releaseUnused();
    return program->prepareLaterSteps();
  }
  if (tracer)
    return issueWhole([&] { return program->runTraced(*tracer, overlap); });
  if (byEntry)
    return issueWhole([&] { return program->run(); });
  // Libraries may initialize their state in the first step with placed memory, so a graph is
  // captured after it.
  if (graph->isOpen() && placedSteps > 0)
    if (Status status = capture(); !status.ok())
      return status;
  if (graph->isReady())
    return graph->launch(*compute);
  ++placedSteps;
  return issueWhole([&] { return program->run(); });
}

Result<std::optional<StepResults>> PlanExecutor::taken(Result<const std::byte *> bytes) {
  if (!bytes.ok()) {
    spent = true;
    return bytes.status();
  }
  if (!*bytes)
    return std::optional<StepResults>();
  DeviceResults own;
  std::memcpy(&own, *bytes, sizeof(own));
  StepResults step{outstanding.front(), lossAt(own.loss), own.partialNorm};
  outstanding.pop();
  step.nonFinite = nonFinite().has_value();
  return std::optional<StepResults>(step);
}

template <typename T> static double numberAt(const std::byte *bytes) {
  T number;
  std::memcpy(&number, bytes, sizeof(number));
  return static_cast<double>(number);
}

double PlanExecutor::lossAt(const std::byte *bytes) const {
  switch (view.values()[view.tables().loss_value].dtype) {
  case FSDP_F64:
    return numberAt<double>(bytes);
  case FSDP_BF16:
    return numberAt<c10::BFloat16>(bytes);
  case FSDP_F16:
    return numberAt<c10::Half>(bytes);
  default:
    return numberAt<float>(bytes);
  }
}

Result<std::optional<StepResults>> PlanExecutor::finish() { return taken(readback->drain()); }

Result<std::optional<StepResults>> PlanExecutor::step(const StepInputs &next) {
  if (spent)
    return Status::error("the executor has failed before");
  if (!next.groupLearningRates.empty() &&
      next.groupLearningRates.size() != view.optimizerGroups().size())
    return Status::error(std::to_string(next.groupLearningRates.size()) +
                         " learning rates of the " + std::to_string(view.optimizerGroups().size()) +
                         " groups of the optimizer");
  if (view.scalesLoss() && !isLossScale(next.lossScale))
    return Status::error("a loss scale of " + std::to_string(next.lossScale));
  auto begin = std::chrono::steady_clock::now();
  writeLossScale(next.lossScale);
  Status status = inputs ? inputs->enqueue(*compute) : Status();
  current = next.step;
  if (status.ok()) {
    runtime->setInputs(next);
    status = issue(next.byEntry);
  }
  if (!status.ok()) {
    spent = true;
    // So that the peers learn of the failure before their deadline.
    communicator.abort(status);
    return status;
  }
  readback->enqueue(*compute, results->data());
  outstanding.push(next.step);
  issuing = std::chrono::steady_clock::now() - begin;
  return taken(readback->next());
}

Result<std::unique_ptr<Executor>> Executor::create(const fsdp_plan &plan, Device &device,
                                                   Communicator &communicator, std::byte *arena,
                                                   ExecutorOptions options) {
  if (Status status = validatePlan(plan); !status.ok())
    return status;
  if (Status status = checkLanes(PlanView(plan), communicator); !status.ok())
    return status;
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
