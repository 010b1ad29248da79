//===- TrainingSteps.cpp - Training steps by shape of samples -------------===//

#include "train/TrainingSteps.h"
#include "plan/ProgramPlans.h"

using namespace fsdp::rt;

TrainingSteps::TrainingSteps(const PlanView &first, Device &device, Communicator &communicator)
    : plans(trainingPlans(first.tables())), communicator(communicator) {
  for (const PlanView &plan : plans)
    runners.push_back(std::make_unique<StepRunner>(plan, device, communicator));
}

/// The first executor owns the host's arena, which the others use until they are gone.
TrainingSteps::~TrainingSteps() {
  endWatch();
  while (!runners.empty())
    runners.pop_back();
}

Status TrainingSteps::findInputs() {
  for (const auto &runner : runners) {
    if (Status status = runner->findInputs(); !status.ok())
      return status;
    const fsdp_plan &plan = runner->view().tables();
    figures.push_back({describeInputs(runner->inputShapes()), runner->samplesPerStep(), 0,
                       plan.model_flops, plan.bound_ns / 1e6});
  }
  return {};
}

std::vector<std::vector<InputShape>> TrainingSteps::inputShapes() const {
  std::vector<std::vector<InputShape>> shapes;
  for (const auto &runner : runners)
    shapes.push_back(runner->inputShapes());
  return shapes;
}

Status TrainingSteps::openData(const TrainOptions &options, int64_t origin) {
  Result<std::vector<std::string>> paths = findDataFiles(options.data, "--data");
  if (!paths.ok())
    return paths.status();
  files = paths->size();
  Result<std::vector<std::vector<std::string>>> byShape =
      filesByShape(*paths, inputShapes(), "--data");
  if (!byShape.ok())
    return byShape.status();

  DataOptions data;
  data.tokenType = options.dataType;
  data.origin = origin;
  data.overfit = overfit = options.overfit;
  data.heldOutFraction = options.evalSplit;
  data.heldOutSeed = options.evalSplitSeed;
  if (options.shuffle)
    data.shuffleSeed = options.seed;
  std::vector<int64_t> batches;
  for (size_t shape = 0; shape < runners.size(); ++shape) {
    data.paths = std::move((*byShape)[shape]);
    if (Status status = runners[shape]->openData(data); !status.ok())
      return status;
    figures[shape].samplesInData = runners[shape]->data().samples();
    batches.push_back(figures[shape].samplesInData / figures[shape].samplesPerStep);
  }
  order.emplace(batches, data.shuffleSeed);
  return {};
}

Outcome TrainingSteps::agreeOnData() {
  if (plans.size() == 1)
    return {};
  std::vector<int64_t> own;
  for (const ShapeFigures &shape : figures)
    own.push_back(shape.samplesInData);
  std::vector<int64_t> all(own.size() * communicator.size());
  if (Status status = communicator.allGather(kControlLane, own.data(), all.data(),
                                             own.size() * sizeof(int64_t));
      !status.ok())
    return {status, false};
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t shape = i % own.size();
    if (all[i] != all[shape])
      return {Status::error("--data has " + std::to_string(all[shape]) + " samples of shape " +
                            std::to_string(shape + 1) + " on rank 0, but " +
                            std::to_string(all[i]) + " on rank " + std::to_string(i / own.size()) +
                            ": the ranks would run steps of different shapes"),
              true};
  }
  return {};
}

Status TrainingSteps::makeExecutors(std::byte *arena, const ExecutorOptions &options) {
  ExecutorOptions own = options;
  for (const auto &runner : runners) {
    if (Status status = runner->makeExecutor(arena, own); !status.ok())
      return status;
    own.hostArena = hostArena();
  }
  if (runners.size() > 1)
    resume();
  return {};
}

void TrainingSteps::watch(const WatchdogOptions &options, const Watchdog::Report &told) {
  watchOptions = options;
  watchReport = told;
  StepRunner &runner = *runners[current];
  watchdog = std::make_unique<Watchdog>(runner.watched(), runner.progress(), options, told);
}

std::vector<Manifest::Shape> TrainingSteps::manifestShapes() const {
  std::vector<Manifest::Shape> shapes;
  if (figures.size() > 1)
    for (const ShapeFigures &shape : figures)
      shapes.push_back({shape.samplesPerStep, shape.samplesInData});
  return shapes;
}

int64_t TrainingSteps::samplesUntil(int64_t steps) {
  if (plans.size() == 1)
    return steps * samplesPerStep();
  int64_t samples = 0;
  for (int64_t step = 1; step <= steps; ++step)
    samples += samplesOf(step);
  return samples;
}

int64_t TrainingSteps::samplesInData() const {
  int64_t samples = 0;
  for (const ShapeFigures &shape : figures)
    samples += shape.samplesInData;
  return samples;
}

int64_t TrainingSteps::samplesHeldOut() const {
  int64_t samples = 0;
  for (const auto &runner : runners)
    samples += runner->data().samplesHeldOut();
  return samples;
}

std::string TrainingSteps::dataDescription() const {
  return runners.size() == 1 ? runners.front()->data().description()
                             : std::to_string(files) + " files";
}

ShapeOrder::Place TrainingSteps::placeOf(int64_t step) {
  if (plans.size() == 1)
    return {0, step - 1}; // with --overfit the reader repeats the first step's samples
  return order->at(overfit ? 0 : step - 1);
}

bool TrainingSteps::hasRun(int64_t first, int64_t step) {
  const size_t shape = shapeOf(step);
  for (int64_t before = step - 1; before >= first; --before)
    if (shapeOf(before) == shape)
      return true;
  return false;
}

Result<std::optional<StepResults>> TrainingSteps::issue(const StepInputs &step) {
  const ShapeOrder::Place place = placeOf(step.step);
  if (place.shape != current) {
    // No step of the last shape is in flight.
    endWatch();
    current = place.shape;
    resume();
    watch(watchOptions, watchReport);
  }
  return runners[current]->issue(place.batch, step);
}
