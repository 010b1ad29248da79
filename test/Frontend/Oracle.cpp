//===- Oracle.cpp - Compiled steps against captured ones ------------------===//

#include "Oracle.h"

#include "fsdp/Analysis/SplitCalls.h"
#include "fsdp/Schedule/Policies.h"
#include "fsdp/Transforms/ApplySchedule.h"
#include "fsdp/Transforms/PrepareSearch.h"
#include "fsdp/Transforms/ScheduleSearch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>

using namespace fsdp;
using namespace fsdp::frontend;
using namespace fsdp::interpreter;

static uint64_t getDrawSeed(unsigned rank, int64_t position) { return 1000 * rank + position + 1; }

std::string Configuration::describe() const {
  std::string text =
      model + " replicate=" + std::to_string(replicas) + " shard=" + std::to_string(shards) + " " +
      layout + " " + nameChoice(schedule).str() + " " + stringifyRecomputePolicy(recompute).str() +
      " " + stringifyOptimizerKind(optimizer.kind.value_or(OptimizerKind::AdamW)).str();
  for (const std::string *flag : {&reshard, &prefetch, &reduceDtype, &shardPlacement})
    text += " '" + *flag + "'";
  for (const auto &[name, dtype] : optimizer.stateDtypes)
    text += " state " + name + " " + dtype;
  if (optimizer.options.contains("ema_decay"))
    text += " average";
  if (optimizer.options.contains("clip_grad_value"))
    text += " clip by value";
  if (optimizer.lossScaling)
    text += " loss scale";
  if (optimizer.clipGradNorm)
    text += " clip by norm " + stringifyNormType(optimizer.clipNormType).str();
  if (microbatches > 1)
    text += " microbatches=" + std::to_string(microbatches) + " " +
            stringifyGradientSync(gradientSync).str() + (reshardAfterBackward ? "" : " gathered") +
            (isInterleaved ? " 1f1b" : "");
  if (rootShards)
    text += " root-shard=" + std::to_string(rootShards);
  if (transport != Transport::Kernels)
    text += " by " + stringifyTransport(transport).str();
  if (frozenEvery)
    text += " frozen-every=" + std::to_string(frozenEvery);
  if (splitBlocks)
    text += " parts of " + std::to_string(splitBlocks);
  return text + (encodes ? " encoded" : "") + (chunks ? " chunks" : "") +
         (offload ? " offload" : "") + (offloadParameters ? " offload-policy" : "") +
         (buckets ? "" : " no-buckets") +
         (fusion == FusionChoice::Off     ? ""
          : fusion == FusionChoice::Exact ? " exact"
                                          : " fast");
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
  if (configuration.fusion == FusionChoice::Fast)
    captured->walk([&](aten::CallOp call) { hasFastNorms |= isNorm(call); });
  freezeParameters();
  if (configuration.encodes)
    roundParameters();
  interpretCaptured(options);
}

/// As if the model had been captured so; what its gradients are computed from stays, unused.
void Oracle::freezeParameters() {
  if (configuration.frozenEvery == 0)
    return;
  llvm::StringSet<> frozen;
  for (auto [index, param] : llvm::enumerate(captured->getOps<ParamOp>()))
    if (index % configuration.frozenEvery == 0) {
      param.setFrozen(true);
      frozen.insert(param.getSymName());
    }
  captured->walk([&](mlir::Operation *op) {
    auto grad = mlir::dyn_cast<GradOp>(op);
    auto update = mlir::dyn_cast<UpdateOp>(op);
    if ((grad && frozen.contains(grad.getParam())) ||
        (update && frozen.contains(update.getTarget())))
      op->erase();
  });
}

/// To 128ths below 1. Each row begins with 127/128, and vectors have ±127/128 alone, so that the
/// scale of every part is 1/128 and int8 holds all elements exactly.
void Oracle::roundParameters() {
  for (auto param : captured->getOps<ParamOp>()) {
    at::Tensor &value = state.at(param.getSymName().str());
    value = value.mul(128).round().clamp(-127, 127).div(128);
    if (value.dim() > 1)
      value.select(-1, 0).fill_(127.0 / 128);
    else
      value = value.ge(0).to(value.dtype()).mul(2).sub(1).mul(127.0 / 128);
  }
}

void Oracle::interpretCaptured(const CaptureOptions &options) {
  int64_t numDraws = 0;
  captured->walk([&](aten::CallOp call) {
    numDraws = std::max<int64_t>(numDraws, call.getRng().value_or(-1) + 1);
  });
  for (unsigned rank = 0; rank < configuration.replicas * configuration.shards; ++rank) {
    NamedTensors named, current = state; // buffers go on from microbatch to microbatch
    std::vector<StepValues> &microbatches = steps.emplace_back();
    for (unsigned microbatch = 0; microbatch < configuration.microbatches; ++microbatch) {
      NamedTensors batch;
      std::vector<at::Tensor> tensors = makeInputs(options, /*seed=*/100 + rank + 50 * microbatch);
      for (size_t i = 0; i < tensors.size(); ++i) {
        const std::string &name = options.inputs[i].name;
        batch[name] = tensors[i];
        named[microbatch == 0 ? name : name + '@' + std::to_string(microbatch)] = tensors[i];
      }
      microbatches.push_back(
          llvm::cantFail(interpretStep(*captured, current, batch, [&](int64_t position) {
            return getDrawSeed(rank, position + numDraws * microbatch);
          })));
      for (const auto &[name, value] : microbatches.back().buffers)
        current[name] = value;
    }
    inputs.push_back(std::move(named));
  }
}

/// Groups of which each belongs to one stage, and the modules with which stages begin.
static std::pair<std::string, std::string> getStages(llvm::StringRef model) {
  if (model == "convnet")
    return {"groups: [{modules: [stem]}, {modules: ['layers.*']}, {modules: [head]}]\n",
            "stem,layers.1"};
  std::string rest = "{modules: ['layers.*']}, {together: [norm, head]}]\n";
  if (model == "mlp")
    return {"groups: [" + rest, "layers.0,layers.1"};
  return {"groups: [{modules: [tok]}, " + rest, "tok,layers.1"};
}

/// The phases behind the sharded one, with a schedule in which every use that may be gathered from
/// chunks is, every second one from the host.
static mlir::LogicalResult keepChunks(mlir::ModuleOp module, ModulePhase upTo) {
  auto costs =
      llvm::cantFail(cost::CostModel::create({.network = FSDP_TEST_INPUTS "/two-per-host.json"}));
  mlir::FailureOr<StepMemory> memory = prepareSearch(module);
  if (mlir::failed(memory))
    return mlir::failure();
  mlir::FailureOr<ScheduleProblem> step =
      getScheduleProblem(module, *memory, *costs, UpdatePlacement::Interleaved, std::nullopt,
                         /*mayOffloadChunks=*/true);
  if (mlir::failed(step))
    return mlir::failure();
  schedule::Decisions decisions = schedule::decideByPolicy(step->problem, schedule::Policy::Fsdp2);
  const schedule::Problem &problem = step->problem;
  std::vector<int32_t> previous = problem.previousUses();
  for (auto [index, use] : llvm::enumerate(problem.uses)) {
    const bool hasChunks = previous[index] >= 0 && !problem.groups[use.group].chunks.empty();
    const bool isStored = hasChunks && index % 2 == 0 &&
                          problem.releasedAt(previous[index], /*number=*/2) <= use.first;
    decisions.chunked.push_back(!hasChunks ? 0 : isStored ? 2 : 1);
  }
  EXPECT_LT(llvm::count(decisions.chunked, 0), decisions.chunked.size());
  std::optional<schedule::Plan> plan = listSchedule(step->problem, decisions).plan;
  if (!plan)
    return module.emitError("no schedule with chunks");
  applySchedule(module, memory->getBody(), *step, *plan);
  mlir::PassManager manager(module.getContext());
  manager.addPass(createVerifyScheduled());
  if (upTo == ModulePhase::Planned) {
    manager.addPass(createPlanMemory());
    manager.addPass(createVerifyPlanned());
  }
  return manager.run(module);
}

mlir::OwningOpRef<mlir::ModuleOp> Oracle::compile(ModulePhase upTo) {
  mlir::OwningOpRef<mlir::ModuleOp> module(captured->clone());
  PipelineOptions options;
  const Configuration &c = configuration;
  options.mesh = c.replicas == 1 ? "dp=" + std::to_string(c.shards)
                                 : "replicate=" + std::to_string(c.replicas) +
                                       ",shard=" + std::to_string(c.shards);
  options.layout = c.layout;
  options.shardPlacement = c.shardPlacement;
  options.schedule = c.schedule;
  options.reshardAfterForward = c.reshard;
  options.prefetch = c.prefetch;
  options.reduceDtype = c.reduceDtype;
  options.recompute = c.recompute;
  if (upTo == ModulePhase::Planned)
    options.fusion = c.fusion;
  options.offloadOptimizer = c.offload ? OffloadPolicy::All : OffloadPolicy::None;
  options.offloadPolicy = c.offloadParameters ? "cpu" : "none";
  options.buckets = c.buckets;
  if (c.splitBlocks > 0)
    options.splitBlocks = std::to_string(c.splitBlocks);
  options.transport = c.transport;
  llvm::FileRemover remover;
  if (c.encodes || c.isInterleaved || c.rootShards > 0) {
    llvm::SmallString<64> config;
    int file = -1;
    EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("oracle", "yaml", file, config));
    llvm::raw_fd_ostream os(file, /*shouldClose=*/true);
    if (c.encodes)
      os << "all_gather_extension: int8\n";
    if (c.isInterleaved)
      os << getStages(c.model).first;
    if (c.rootShards > 0)
      os << "root: {mesh: {outer: " << c.replicas * c.shards / c.rootShards
         << ", inner: " << c.rootShards << "}}\n";
    remover.setFile(config);
    options.config = config.str().str();
  }
  options.budget = 100;
  if (c.microbatches > 1) {
    options.microbatches = c.microbatches;
    options.microbatchLoss = "sum"; // so that each is a captured step
    options.gradientSync = stringifyGradientSync(c.gradientSync).str();
    options.reshardAfterBackward = c.reshardAfterBackward ? "true" : "false";
    if (c.isInterleaved) {
      options.microbatchOrder = "1f1b";
      options.stages = getStages(c.model).second;
    }
  }
  options.upTo = c.chunks ? ModulePhase::Sharded : upTo;
  mlir::PassManager manager(&context);
  buildPipeline(manager, options);
  if (mlir::failed(manager.run(*module)) ||
      (c.chunks && upTo != ModulePhase::Sharded && mlir::failed(keepChunks(*module, upTo)))) {
    ADD_FAILURE() << "passes fail for " << c.describe();
    return {};
  }
  rootParameters.clear();
  for (auto group : module->getOps<GroupOp>())
    if (group.isRoot() || group.isPartOfRoot())
      for (auto name : group.getParams().getAsRange<mlir::FlatSymbolRefAttr>())
        rootParameters.insert(name.getValue());
  return module;
}

llvm::Expected<RanksStep> Oracle::interpret(mlir::ModuleOp module) const {
  return interpretRanks(module, state, inputs, getDrawSeed);
}

at::Tensor Oracle::getGradient(unsigned rank, unsigned microbatch,
                               const std::string &parameter) const {
  at::ScalarType dtype = configuration.reduceDtype == "float32" ? at::kFloat
                         : configuration.reduceDtype == "bfloat16"
                             ? at::kBFloat16
                             : state.at(parameter).scalar_type();
  return steps[rank][microbatch].gradients.at(parameter).to(dtype);
}

static at::Tensor sum(const std::vector<at::Tensor> &tensors) {
  at::Tensor total = tensors.front();
  for (size_t i = 1; i < tensors.size(); ++i)
    total = total.add(tensors[i]);
  return total;
}

static at::Tensor average(const std::vector<at::Tensor> &tensors) {
  return sum(tensors).div(static_cast<double>(tensors.size()));
}

/// In the order of ranks, by sums that are rounded to the dtype of the reduction: over the shards
/// of each replica, then over replicas. What has not been reduced yet is added up in that dtype,
/// what has been in the parameter's own.
at::Tensor Oracle::averageGradient(const std::string &parameter) const {
  const bool hasOwnMesh = configuration.rootShards > 0 && rootParameters.contains(parameter);
  const unsigned numShards = hasOwnMesh ? configuration.rootShards : configuration.shards;
  const unsigned numReplicas = configuration.replicas * configuration.shards / numShards;
  const unsigned numMicrobatches = configuration.microbatches;
  auto list = [](unsigned count, auto get) {
    std::vector<at::Tensor> tensors;
    for (unsigned i = 0; i < count; ++i)
      tensors.push_back(get(i));
    return tensors;
  };
  // Of a module that is called several times what earlier microbatches have left is reduced by
  // itself.
  const bool isCalledAgain =
      configuration.model == "shared" && llvm::StringRef(parameter).starts_with("layers.1.");
  const unsigned numWhole = numMicrobatches - (isCalledAgain && numMicrobatches > 1);
  // Of one microbatch, or of those that are added up whole.
  auto ofRank = [&](unsigned rank, std::optional<unsigned> microbatch) {
    if (microbatch)
      return getGradient(rank, *microbatch, parameter);
    // The first one is rounded to the dtype that is reduced, then each sum.
    at::Tensor whole = getGradient(rank, 0, parameter).clone();
    for (unsigned m = 1; m < numWhole; ++m)
      whole.add_(steps[rank][m].gradients.at(parameter));
    return whole;
  };
  auto ofReplica = [&](unsigned replica, std::optional<unsigned> microbatch) {
    return average(list(numShards, [&](unsigned shard) {
      return ofRank(replica * numShards + shard, microbatch);
    }));
  };
  auto ofAll = [&](std::optional<unsigned> microbatch) {
    return average(
        list(numReplicas, [&](unsigned replica) { return ofReplica(replica, microbatch); }));
  };
  // On one rank nothing is reduced, unless in another dtype.
  bool isLeftAlone = steps.size() == 1 && configuration.reduceDtype.empty();
  if (isLeftAlone)
    return sum(list(numMicrobatches, [&](unsigned m) { return getGradient(0, m, parameter); }));
  at::ScalarType own = state.at(parameter).scalar_type();
  if (numMicrobatches == 1)
    return ofAll({});
  if (configuration.gradientSync == GradientSync::Last) {
    at::Tensor whole = ofAll({}).to(own);
    return numWhole == numMicrobatches ? whole : whole.add(ofAll(numMicrobatches - 1).to(own));
  }
  if (configuration.gradientSync == GradientSync::ReduceScatter && (hasOwnMesh || numReplicas > 1))
    return average(list(numReplicas, [&](unsigned replica) {
      return sum(list(numMicrobatches, [&](unsigned m) { return ofReplica(replica, m); }));
    }));
  return sum(list(numMicrobatches, [&](unsigned m) { return ofAll(m).to(own); }));
}

/// The same bits, or near where fast kernels hold norms: torch's operators add rows up otherwise.
bool Oracle::isExpected(const at::Tensor &found, const at::Tensor &expected) const {
  if (isBitwiseEqual(found, expected))
    return true;
  if (!hasFastNorms || found.sizes() != expected.sizes() || found.dtype() != expected.dtype())
    return false;
  const bool isNarrow = expected.scalar_type() != at::kFloat || configuration.encodes ||
                        configuration.reduceDtype == "bfloat16";
  auto largest = [](const at::Tensor &tensor) {
    return tensor.to(at::kDouble).abs().max().item<double>();
  };
  return largest(found.to(at::kDouble) - expected.to(at::kDouble)) <=
         (isNarrow ? 0x1p-6 : 1e-5) * largest(expected) + 1e-9;
}

/// Sums depend on their order: the bound is 4 units of the last place in fp32.
std::string Oracle::compareClipFactor(std::optional<float> found) const {
  const std::optional<LossScaling> &scaling = configuration.optimizer.lossScaling;
  if (!configuration.optimizer.clipGradNorm)
    return found.has_value() == scaling.has_value() && found.value_or(1) == 1
               ? ""
               : "clips, although nothing says so";
  const double order = configuration.optimizer.clipNormType == NormType::One   ? 1
                       : configuration.optimizer.clipNormType == NormType::Two ? 2
                                                                               : INFINITY;
  std::vector<at::Tensor> all;
  for (const auto &[name, gradient] : steps.front().front().gradients)
    all.push_back(averageGradient(name).to(at::kDouble).reshape({-1}));
  double norm =
      at::linalg_vector_norm(at::cat(all), order).item<double>() / (scaling ? scaling->init : 1);
  double expected = std::min(1.0, *configuration.optimizer.clipGradNorm / (norm + 1e-6));
  const double units = hasFastNorms ? 400 : 4;
  if (found && std::abs(*found - expected) <= units * 1.2e-7 * expected)
    return "";
  return "clip factor " + (found ? std::to_string(*found) : "none") + ", expected " +
         std::to_string(expected);
}

std::string Oracle::compareRank(mlir::ModuleOp module, unsigned rank,
                                const RankValues &values) const {
  // Buffers are those of the last microbatch.
  const StepValues &expected = steps[rank].back();
  std::vector<at::Tensor> losses;
  for (const StepValues &microbatch : steps[rank])
    losses.push_back(microbatch.loss);
  if (!isExpected(values.loss, sum(losses)))
    return "the loss differs";
  if (values.gradients.size() != expected.gradients.size())
    return std::to_string(values.gradients.size()) + " gradients, expected " +
           std::to_string(expected.gradients.size());
  if (values.buffers.size() != expected.buffers.size())
    return "other buffers are written";
  for (const auto &[name, value] : expected.buffers)
    if (!isExpected(values.buffers.at(name), value))
      return "buffer " + name + " differs";
  if (std::string difference = compareClipFactor(values.clipFactor); !difference.empty())
    return difference;
  for (const auto &[name, gradient] : values.gradients) {
    at::Tensor average = averageGradient(name);
    if (!isExpected(gradient, average))
      return "the gradient of " + name + " differs";
    at::Tensor parameter = state.at(name);
    updateWhole(module, name, parameter, gradient, values.clipFactor);
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
  llvm::StringSet<> trained;
  for (auto param : module.getOps<ParamOp>())
    if (!param.getFrozen())
      trained.insert(param.getSymName());
  auto isUpdated = [&](GroupOp group) {
    return llvm::any_of(
        group.getParams().getAsRange<mlir::FlatSymbolRefAttr>(),
        [&](mlir::FlatSymbolRefAttr name) { return trained.contains(name.getValue()); });
  };
  if (step->updates.size() !=
      static_cast<size_t>(llvm::count_if(module.getOps<GroupOp>(), isUpdated)))
    return std::to_string(step->updates.size()) + " updates of groups";
  return "";
}
