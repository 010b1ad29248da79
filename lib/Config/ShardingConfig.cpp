//===- ShardingConfig.cpp - Reads the YAML file ---------------------------===//

#include "YamlProblem.h"
#include "YamlValues.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace fsdp;
namespace yaml = llvm::yaml;

LLVM_YAML_IS_SEQUENCE_VECTOR(fsdp::GroupRule)
LLVM_YAML_IS_SEQUENCE_VECTOR(fsdp::OptimizerRule)
LLVM_YAML_IS_SEQUENCE_VECTOR(fsdp::RecomputeRule)

char ConfigError::ID = 0;

namespace {
/// `root:` of the file.
struct RootRule {
  GroupOptions options;
  ConfigPlace place;
};

constexpr llvm::StringRef kGroupKeys[] = {"reshard_after_forward",
                                          "recompute",
                                          "offload_optimizer",
                                          "offload_activations",
                                          "gradient_sync",
                                          "reshard_after_backward",
                                          "forward_prefetch",
                                          "backward_prefetch",
                                          "mixed_precision",
                                          "gradient_divide_factor",
                                          "force_sum_reduction_for_comms",
                                          "shard_placement",
                                          "offload_policy",
                                          "all_gather_extension",
                                          "all_reduce_hook",
                                          "mesh"};

} // namespace

namespace llvm::yaml {

template <> struct MappingTraits<MixedPrecision> {
  static void mapping(IO &io, MixedPrecision &policy) {
    for (StringRef key : {"output_dtype", "cast_forward_inputs"})
      if (is_contained(io.keys(), key)) {
        fail(io, key + " of FSDP2's MixedPrecisionPolicy changes what the model computes: "
                       "export it with fsdpc.export(..., mixed_precision=...)");
        return;
      }
    io.mapOptional("param_dtype", policy.paramDtype);
    io.mapOptional("reduce_dtype", policy.reduceDtype);
    io.mapOptional("gather_dtype", policy.gatherDtype);
  }
};

/// For one group, or the default of all groups.
static void mapReduction(IO &io, std::optional<double> &divideFactor,
                         std::optional<bool> &forceSum) {
  io.mapOptional("gradient_divide_factor", divideFactor);
  io.mapOptional("force_sum_reduction_for_comms", forceSum);
  if (divideFactor)
    if (std::optional<std::string> problem = checkDivideFactor(*divideFactor))
      fail(io, "gradient_divide_factor " + *problem);
}

/// For one group, or the default of all groups.
static void mapExtension(IO &io, std::optional<AllGatherExtension> &extension) {
  std::optional<ReadExtension> read;
  io.mapOptional("all_gather_extension", read);
  if (read && read->name)
    extension = read->name->extension;
  else if (read && read->fields)
    extension = read->fields->extension;
}

static void mapHook(IO &io, std::optional<std::string> &hook) {
  io.mapOptional("all_reduce_hook", hook);
  if (hook)
    if (std::optional<std::string> wrong = checkExtensionName(*hook))
      fail(io, "all_reduce_hook " + *wrong);
}

static void mapGroupOptions(IO &io, GroupOptions &options) {
  io.mapOptional("mesh", options.mesh);
  io.mapOptional("reshard_after_forward", options.reshardAfterForward);
  io.mapOptional("recompute", options.recompute);
  io.mapOptional("offload_policy", options.offloadPolicy);
  io.mapOptional("offload_optimizer", options.offloadOptimizer);
  io.mapOptional("offload_activations", options.offloadActivations);
  io.mapOptional("gradient_sync", options.gradientSync);
  io.mapOptional("reshard_after_backward", options.reshardAfterBackward);
  io.mapOptional("forward_prefetch", options.forwardPrefetch);
  io.mapOptional("backward_prefetch", options.backwardPrefetch);
  io.mapOptional("mixed_precision", options.mixedPrecision);
  mapReduction(io, options.gradientDivideFactor, options.forceSumReduction);
  io.mapOptional("shard_placement", options.shardPlacement);
  mapExtension(io, options.allGatherExtension);
  mapHook(io, options.allReduceHook);
}

template <> struct MappingTraits<GroupRule> {
  static void mapping(IO &io, GroupRule &rule) {
    rule.place = getPlace(io);
    std::optional<std::vector<std::string>> modules, together;
    io.mapOptional("modules", modules);
    io.mapOptional("together", together);
    mapGroupOptions(io, rule.options);
    if (modules.has_value() == together.has_value()) {
      // An unknown key, which is reported later, may be a misspelt one of these.
      auto isKnown = [](StringRef key) {
        return key == "modules" || key == "together" || is_contained(kGroupKeys, key);
      };
      if (llvm::all_of(io.keys(), isKnown))
        fail(io, "a group has either 'modules' or 'together'");
      return;
    }
    rule.isTogether = together.has_value();
    rule.modules = rule.isTogether ? *together : *modules;
    if (rule.modules.empty())
      fail(io, "a group names at least one module");
  }
};

template <> struct MappingTraits<RootRule> {
  static void mapping(IO &io, RootRule &rule) {
    rule.place = getPlace(io);
    GroupOptions &root = rule.options;
    mapGroupOptions(io, root);
    if (root.recompute && *root.recompute != RecomputePolicy::None &&
        *root.recompute != RecomputePolicy::Cheap)
      fail(io, "recompute of the root is '" + Twine(stringifyRecomputePolicy(*root.recompute)) +
                   "', expected none or cheap: what the root computes is no block");
  }
};

/// Diagnoses a value of an optimizer that torch would refuse.
static void checkValue(IO &io, StringRef name, std::optional<double> value,
                       std::optional<std::string> (*check)(double) = checkHyperParameter) {
  if (value)
    if (std::optional<std::string> problem = check(*value))
      fail(io, name + " " + *problem);
}

/// Reads an option of the optimizer, which may be absent.
static void mapOption(IO &io, const plan::OptimizerOption &option, OptimizerOptions &options) {
  std::string name(option.name);
  std::optional<bool> flag;
  std::optional<double> number;
  std::optional<std::vector<double>> numbers;
  if (option.isFlag())
    io.mapOptional(name.c_str(), flag);
  else if (option.numValues() == 1)
    io.mapOptional(name.c_str(), number);
  else
    io.mapOptional(name.c_str(), numbers);
  if (flag)
    options[name] = {*flag ? 1.0 : 0.0};
  else if (number)
    options[name] = {*number};
  else if (numbers)
    options[name].assign(numbers->begin(), numbers->end());
}

/// Diagnoses a value of an optimizer that torch would refuse.
static void checkOptions(IO &io, const OptimizerOptions &options) {
  if (std::optional<WrongOption> wrong = findWrongOption(options))
    fail(io, wrong->name + " " + wrong->problem);
}

template <> struct MappingTraits<OptimizerRule> {
  static void mapping(IO &io, OptimizerRule &rule) {
    rule.place = getPlace(io);
    std::optional<std::vector<std::string>> parameters;
    io.mapOptional("parameters", parameters);
    io.mapOptional("max_dims", rule.maxDims);
    std::vector<StringRef> ofAll = {"state_dtype", "loss_scale"};
    for (const plan::OptimizerOption &option : plan::kOptimizerOptions)
      if (option.isOfGroups)
        mapOption(io, option, rule.options);
      else
        ofAll.push_back(option.name);
    for (StringRef key : ofAll)
      if (is_contained(io.keys(), key)) {
        fail(io, key + " is of the whole optimizer, not of a group of it");
        return;
      }
    rule.parameters = parameters.value_or(std::vector<std::string>());
    if (rule.parameters.empty() && !rule.maxDims)
      fail(io, "a group of the optimizer has 'parameters' or 'max_dims'");
    if (rule.maxDims && *rule.maxDims < 0)
      fail(io, "max_dims is " + Twine(*rule.maxDims) + ", expected 0 or more");
    checkOptions(io, rule.options);
  }
};

template <> struct MappingTraits<LossScaling> {
  static void mapping(IO &io, LossScaling &scaling) {
    io.mapOptional("init", scaling.init);
    io.mapOptional("growth_factor", scaling.growthFactor);
    io.mapOptional("backoff_factor", scaling.backoffFactor);
    io.mapOptional("growth_interval", scaling.growthInterval);
    if (std::optional<WrongOption> wrong = findWrongScaling(scaling))
      fail(io, (wrong->name == "loss_scale" ? StringRef("init") : wrong->name) + " of loss_scale " +
                   wrong->problem);
  }
};

template <> struct MappingTraits<OptimizerOverrides> {
  static void mapping(IO &io, OptimizerOverrides &optimizer) {
    optimizer.place = getPlace(io);
    io.mapOptional("name", optimizer.kind);
    for (const plan::OptimizerOption &option : plan::kOptimizerOptions)
      mapOption(io, option, optimizer.options);
    io.mapOptional("clip_grad_norm", optimizer.clipGradNorm);
    io.mapOptional("clip_norm_type", optimizer.clipNormType);
    io.mapOptional("loss_scale", optimizer.lossScaling);
    std::optional<ReadStateDtypes> stateDtype;
    io.mapOptional("state_dtype", stateDtype);
    if (stateDtype)
      optimizer.stateDtype =
          stateDtype->all ? StateDtypes{{"", stateDtype->all->word}} : stateDtype->names.dtypes;
    io.mapOptional("groups", optimizer.groups);
    checkOptions(io, optimizer.options);
    checkValue(io, "clip_grad_norm", optimizer.clipGradNorm, checkClipLimit);
  }
};

template <> struct MappingTraits<RecomputeRule> {
  static void mapping(IO &io, RecomputeRule &rule) {
    rule.place = getPlace(io);
    io.mapRequired("modules", rule.modules);
    io.mapOptional("recompute", rule.policy);
    io.mapOptional("keep", rule.keep);
    if (rule.modules.empty())
      fail(io, "an entry of activation_checkpointing names at least one module");
    if (rule.policy != RecomputePolicy::Full && rule.policy != RecomputePolicy::Selected)
      fail(io, "recompute of activation_checkpointing is '" +
                   Twine(stringifyRecomputePolicy(rule.policy)) + "', expected full or selected");
    else if (rule.keep && rule.policy != RecomputePolicy::Selected)
      fail(io, "keep is of recompute: selected");
  }
};

template <> struct MappingTraits<Accumulation> {
  static void mapping(IO &io, Accumulation &accumulation) {
    accumulation.place = getPlace(io);
    io.mapOptional("microbatches", accumulation.microbatches);
    io.mapOptional("loss", accumulation.loss);
    io.mapOptional("order", accumulation.order);
    io.mapOptional("stages", accumulation.stages);
    io.mapOptional("gradient_sync", accumulation.gradientSync);
    io.mapOptional("reshard_after_backward", accumulation.reshardAfterBackward);
  }
};

template <> struct MappingTraits<ShardingConfig> {
  static void mapping(IO &io, ShardingConfig &config) {
    io.mapOptional("mesh", config.mesh);
    io.mapOptional("layout", config.layout);
    io.mapOptional("prefetch", config.prefetch);
    io.mapOptional("reshard_after_forward", config.reshardAfterForward);
    io.mapOptional("groups", config.groups);
    RootRule root{config.root, config.rootPlace};
    io.mapOptional("root", root);
    config.root = root.options;
    config.rootPlace = root.place;
    io.mapOptional("split_root", config.splitRoot);
    io.mapOptional("split_blocks", config.splitBlocks);
    io.mapOptional("accumulation", config.accumulation);
    io.mapOptional("optimizer", config.optimizer);
    io.mapOptional("activation_checkpointing", config.checkpointing);
    io.mapOptional("mixed_precision", config.mixedPrecision);
    io.mapOptional("ignored_params", config.ignoredParams);
    mapReduction(io, config.gradientDivideFactor, config.forceSumReduction);
    io.mapOptional("shard_placement", config.shardPlacement);
    io.mapOptional("offload_policy", config.offloadPolicy);
    mapExtension(io, config.allGatherExtension);
    mapHook(io, config.allReduceHook);
  }
};

} // namespace llvm::yaml

llvm::Error fsdp::failAt(const ShardingConfig &config, ConfigPlace place,
                         const llvm::Twine &message) {
  if (place.line == 0)
    return llvm::createStringError(message);
  return llvm::make_error<ConfigError>(config.file, place, message.str());
}

/// Keeps the first problem.
static void keepFirst(const llvm::SMDiagnostic &problem, void *context) {
  auto &first = *static_cast<std::optional<llvm::SMDiagnostic> *>(context);
  if (!first)
    first = problem;
}

llvm::Expected<ShardingConfig> fsdp::readShardingConfig(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (std::error_code error = buffer.getError())
    return llvm::createStringError("cannot read config file '" + path + "': " + error.message());
  ShardingConfig config;
  std::optional<llvm::SMDiagnostic> problem;
  ReadContext context{(*buffer)->getBuffer()};
  yaml::Input input((*buffer)->getMemBufferRef(), &context, keepFirst, &problem);
  input >> config;
  if (problem)
    return llvm::make_error<ConfigError>(
        path.str(),
        ConfigPlace{static_cast<unsigned>(problem->getLineNo()),
                    static_cast<unsigned>(problem->getColumnNo() + 1)},
        explainProblem((*buffer)->getBuffer(), *problem));
  if (std::error_code error = input.error())
    return llvm::createStringError(path + ": " + error.message());
  // An empty file has no node, and no next document to ask for.
  if (input.getCurrentNode() && input.nextDocument())
    return llvm::createStringError(path + ": several documents (---), expected one");
  config.file = path.str();
  return config;
}
