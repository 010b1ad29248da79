//===- Oracle.cpp - Compiled steps against captured ones ------------------===//

#include "Oracle.h"

#include "fsdp/Transforms/ScheduleSearch.h"

using namespace fsdp;
using namespace fsdp::frontend;
using namespace fsdp::interpreter;

static uint64_t getDrawSeed(unsigned rank, int64_t position) { return 1000 * rank + position + 1; }

std::string Configuration::describe() const {
  std::string text = model + " replicate=" + std::to_string(replicas) +
                     " shard=" + std::to_string(shards) + " " + layout + " " +
                     nameChoice(schedule).str() + " " + stringifyRecomputePolicy(recompute).str() +
                     " " + stringifyOptimizerKind(optimizer.kind).str();
  for (const std::string *flag : {&reshard, &prefetch, &reduceDtype})
    text += " '" + *flag + "'";
  if (optimizer.clipGradNorm)
    text += " clip";
  return text + (offload ? " offload" : "") + (buckets ? "" : " no-buckets");
}

void fsdp::frontend::PrintTo(const Configuration &value, std::ostream *os) {
  *os << value.describe();
}

Oracle::Oracle(const Configuration &configuration) : configuration(configuration) {
  context.disableMultithreading();
  CaptureOptions options =
      makeOptions(configuration.model + ".script.pt", getInputs(configuration.model));
  options.optimizer = configuration.optimizer;
  captured = capture(options, context);
  torch::jit::Module model =
      torch::jit::load(getModelPath(options.model.substr(options.model.rfind('/') + 1)));
  for (const auto &parameter : model.named_parameters())
    state[parameter.name] = parameter.value.detach();
  for (const auto &buffer : model.named_buffers())
    state[buffer.name] = buffer.value;
  for (unsigned rank = 0; rank < configuration.replicas * configuration.shards; ++rank) {
    NamedTensors named;
    std::vector<at::Tensor> tensors = makeInputs(options, /*seed=*/100 + rank);
    for (size_t i = 0; i < tensors.size(); ++i)
      named[options.inputs[i].name] = tensors[i];
    steps.push_back(llvm::cantFail(interpretStep(
        *captured, state, named, [&](int64_t position) { return getDrawSeed(rank, position); })));
    inputs.push_back(std::move(named));
  }
}

mlir::OwningOpRef<mlir::ModuleOp> Oracle::compile(ModulePhase upTo) {
  mlir::OwningOpRef<mlir::ModuleOp> module(captured->clone());
  PipelineOptions options;
  const Configuration &c = configuration;
  options.mesh = c.replicas == 1 ? "dp=" + std::to_string(c.shards)
                                 : "replicate=" + std::to_string(c.replicas) +
                                       ",shard=" + std::to_string(c.shards);
  options.layout = c.layout;
  options.schedule = c.schedule;
  options.reshardAfterForward = c.reshard;
  options.prefetch = c.prefetch;
  options.reduceDtype = c.reduceDtype;
  options.recompute = c.recompute;
  options.offloadOptimizer = c.offload ? OffloadPolicy::All : OffloadPolicy::None;
  options.buckets = c.buckets;
  options.budget = 100;
  options.upTo = upTo;
  mlir::PassManager manager(&context);
  buildPipeline(manager, options);
  if (mlir::failed(manager.run(*module))) {
    ADD_FAILURE() << "passes fail for " << c.describe();
    return {};
  }
  return module;
}

llvm::Expected<RanksStep> Oracle::interpret(mlir::ModuleOp module) const {
  return interpretRanks(module, state, inputs, getDrawSeed);
}

/// In the order of ranks, by sums that are rounded to the dtype of the reduction: over the shards
/// of each replica, then over replicas.
at::Tensor Oracle::averageGradient(const std::string &parameter) const {
  at::ScalarType dtype = configuration.reduceDtype == "float32" ? at::kFloat
                         : configuration.reduceDtype == "bfloat16"
                             ? at::kBFloat16
                             : state.at(parameter).scalar_type();
  auto average = [](const std::vector<at::Tensor> &tensors) {
    at::Tensor sum = tensors.front();
    for (size_t i = 1; i < tensors.size(); ++i)
      sum = sum.add(tensors[i]);
    return sum.div(static_cast<double>(tensors.size()));
  };
  // On one rank nothing is reduced.
  if (steps.size() == 1)
    dtype = state.at(parameter).scalar_type();
  std::vector<at::Tensor> replicas;
  for (unsigned replica = 0; replica < configuration.replicas; ++replica) {
    std::vector<at::Tensor> shards;
    for (unsigned shard = 0; shard < configuration.shards; ++shard)
      shards.push_back(
          steps[replica * configuration.shards + shard].gradients.at(parameter).to(dtype));
    replicas.push_back(average(shards));
  }
  return average(replicas);
}

/// Sums of squares depend on their order: the bound is 4 units of the last place in fp32.
std::string Oracle::compareClipFactor(std::optional<float> found) const {
  if (!configuration.optimizer.clipGradNorm)
    return found ? "clips, although nothing says so" : "";
  double squares = 0;
  for (const auto &[name, gradient] : steps.front().gradients)
    squares += averageGradient(name).to(at::kDouble).square().sum().item<double>();
  double expected =
      std::min(1.0, *configuration.optimizer.clipGradNorm / (std::sqrt(squares) + 1e-6));
  if (found && std::abs(*found - expected) <= 4 * 1.2e-7 * expected)
    return "";
  return "clip factor " + (found ? std::to_string(*found) : "none") + ", expected " +
         std::to_string(expected);
}

std::string Oracle::compareRank(mlir::ModuleOp module, unsigned rank,
                                const RankValues &values) const {
  const StepValues &expected = steps[rank];
  if (!isBitwiseEqual(values.loss, expected.loss))
    return "the loss differs";
  if (values.gradients.size() != expected.gradients.size())
    return std::to_string(values.gradients.size()) + " gradients, expected " +
           std::to_string(expected.gradients.size());
  if (values.buffers.size() != expected.buffers.size())
    return "other buffers are written";
  for (const auto &[name, value] : expected.buffers)
    if (!isBitwiseEqual(values.buffers.at(name), value))
      return "buffer " + name + " differs";
  if (std::string difference = compareClipFactor(values.clipFactor); !difference.empty())
    return difference;
  for (const auto &[name, gradient] : values.gradients) {
    at::Tensor average = averageGradient(name);
    if (!isBitwiseEqual(gradient, average))
      return "the gradient of " + name + " differs";
    at::Tensor parameter = state.at(name);
    updateWhole(module, parameter, average, values.clipFactor);
    if (!isBitwiseEqual(values.parameters.at(name), parameter))
      return "parameter " + name + " differs";
  }
  return "";
}

std::string Oracle::compare(mlir::ModuleOp module) const {
  llvm::Expected<RanksStep> step = interpret(module);
  if (!step)
    return llvm::toString(step.takeError());
  for (unsigned rank = 0; rank < step->ranks.size(); ++rank)
    if (std::string difference = compareRank(module, rank, step->ranks[rank]); !difference.empty())
      return "rank " + std::to_string(rank) + ": " + difference;
  if (step->updates.size() != static_cast<size_t>(llvm::range_size(module.getOps<GroupOp>())))
    return std::to_string(step->updates.size()) + " updates of groups";
  return "";
}
