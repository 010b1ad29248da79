//===- ShardingConfig.cpp - Reads the YAML file ---------------------------===//

#include "fsdp/Config/ShardingConfig.h"
#include "fsdp/IR/Limits.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLTraits.h"

#include <cmath>

using namespace fsdp;
namespace yaml = llvm::yaml;

LLVM_YAML_IS_SEQUENCE_VECTOR(fsdp::GroupRule)
LLVM_YAML_IS_SEQUENCE_VECTOR(fsdp::OptimizerRule)
LLVM_YAML_IS_SEQUENCE_VECTOR(fsdp::RecomputeRule)
LLVM_YAML_IS_SEQUENCE_VECTOR(fsdp::PlacedName)

char ConfigError::ID = 0;

namespace {
/// What the traits need beside the value.
struct ReadContext {
  llvm::StringRef text;

  ConfigPlace getPlace(yaml::IO &io) const {
    // Only ever used to read.
    auto &input = static_cast<yaml::Input &>(io);
    return getPlace(input.getCurrentNode()->getSourceRange().Start.getPointer());
  }

  /// Line 0 if `start` is not in the text: the parser copies scalars that have escapes.
  ConfigPlace getPlace(const char *start) const {
    if (start < text.begin() || start > text.end())
      return {};
    llvm::StringRef before = text.take_front(start - text.begin());
    size_t lineStart = before.rfind('\n');
    lineStart = lineStart == llvm::StringRef::npos ? 0 : lineStart + 1;
    return {static_cast<unsigned>(before.count('\n') + 1),
            static_cast<unsigned>(before.size() - lineStart + 1)};
  }
};

/// A size of the mesh. The parser gives the keys of a mapping in no order: where the number stands
/// in the file tells which axis is first.
struct AxisSize {
  int64_t size = 1;
  const char *place = nullptr;
};

/// `root:` of the file.
struct RootRule {
  GroupOptions options;
  ConfigPlace place;
};

constexpr llvm::StringRef kGroupKeys[] = {"reshard_after_forward",  "recompute",
                                          "offload_optimizer",      "gradient_sync",
                                          "reshard_after_backward", "forward_prefetch",
                                          "backward_prefetch",      "mixed_precision",
                                          "gradient_divide_factor", "force_sum_reduction_for_comms",
                                          "shard_placement",        "offload_policy",
                                          "all_gather_extension",   "all_reduce_hook"};

/// What a value that must not be a mapping is read as.
struct NoMapping {};

/// What a value that must not be a sequence is read as.
struct NoSequence {};

/// An `all_gather_extension` by its name, or by its fields.
struct ExtensionName {
  AllGatherExtension extension;
};
struct ExtensionFields {
  AllGatherExtension extension;
};
struct NoExtensions {}; // a sequence
struct ReadExtension {
  std::optional<ExtensionName> name;
  std::optional<ExtensionFields> fields;
};
} // namespace

/// After an error nothing is read any more: what stands in the values is not the file's, and the
/// reader may have no place for a further message.
static void fail(yaml::IO &io, const llvm::Twine &message) {
  if (!io.error())
    io.setError(message);
}

static ConfigPlace getPlace(yaml::IO &io) {
  return static_cast<ReadContext *>(io.getContext())->getPlace(io);
}

/// Sets `value` or returns the message of the error, for which YAMLIO wants a reference.
template <typename T> static llvm::StringRef takeWord(llvm::Expected<T> parsed, T &value) {
  if (parsed) {
    value = *parsed;
    return {};
  }
  static thread_local std::string message;
  message = llvm::toString(parsed.takeError());
  return message;
}

namespace llvm::yaml {

/// Words are only read.
template <typename T, Expected<T> (*parse)(StringRef)> struct WordTraits {
  static void output(const T &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *, T &value) { return takeWord(parse(text), value); }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <> struct ScalarTraits<ReshardChoice> : WordTraits<ReshardChoice, parseReshard> {};
template <> struct ScalarTraits<RecomputePolicy> : WordTraits<RecomputePolicy, parseRecompute> {};
template <> struct ScalarTraits<ParameterHome> : WordTraits<ParameterHome, parseOffloadPolicy> {};
template <> struct ScalarTraits<GradientSync> : WordTraits<GradientSync, parseGradientSync> {};
template <> struct ScalarTraits<LossReduction> : WordTraits<LossReduction, parseLossReduction> {};
template <> struct ScalarTraits<PolicyDtype> : WordTraits<PolicyDtype, parsePolicyDtype> {};
template <> struct ScalarTraits<Layout> : WordTraits<Layout, parseLayout> {};
template <> struct ScalarTraits<Prefetch> : WordTraits<Prefetch, parsePrefetch> {};

static Expected<OptimizerKind> parseOptimizerKind(StringRef text) {
  if (std::optional<OptimizerKind> kind = symbolizeOptimizerKind(text))
    return *kind;
  return createStringError("optimizer name is '" + text + "', expected sgd, adam or adamw");
}
template <> struct ScalarTraits<OptimizerKind> : WordTraits<OptimizerKind, parseOptimizerKind> {};

static Expected<NormType> parseNormType(StringRef text) {
  if (std::optional<NormType> type = symbolizeNormType(text))
    return *type;
  return createStringError("clip_norm_type is '" + text + "', expected 1, 2 or inf");
}
template <> struct ScalarTraits<NormType> : WordTraits<NormType, parseNormType> {};

template <> struct ScalarTraits<AxisSize> {
  static void output(const AxisSize &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *, AxisSize &axis) {
    axis.place = text.data();
    return text.getAsInteger(10, axis.size) ? "the size of a mesh axis is no number" : StringRef();
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <> struct ScalarTraits<PlacedName> {
  static void output(const PlacedName &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *context, PlacedName &name) {
    name = {text.str(), static_cast<ReadContext *>(context)->getPlace(text.data())};
    return {};
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <> struct ScalarTraits<PrefetchDepth> {
  static void output(const PrefetchDepth &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *, PrefetchDepth &depth) {
    return text.getAsInteger(10, depth.groups) || depth.groups < 1
               ? "expected a number of groups, at least 1, or a list of modules"
               : StringRef();
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <> struct MappingTraits<NoMapping> {
  static void mapping(IO &io, NoMapping &) {
    fail(io, "expected a number of groups, at least 1, or a list of modules");
  }
};

/// `2` or `["layers.1", "layers.2"]`.
template <> struct PolymorphicTraits<PrefetchTargets> {
  static NodeKind getKind(const PrefetchTargets &) { return NodeKind::Sequence; }
  static PrefetchDepth &getAsScalar(PrefetchTargets &targets) { return targets.depth; }
  static std::vector<std::string> &getAsSequence(PrefetchTargets &targets) {
    return targets.modules;
  }
  static NoMapping &getAsMap(PrefetchTargets &) {
    static NoMapping none;
    return none;
  }
};

template <> struct ScalarTraits<ShardDim> {
  static void output(const ShardDim &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *context, ShardDim &dim) {
    StringRef error = takeWord(parseShardDim(text), dim);
    dim.place = static_cast<ReadContext *>(context)->getPlace(text.data());
    return error;
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <> struct MappingTraits<std::vector<PlacementRule>> {
  static void mapping(IO &io, std::vector<PlacementRule> &rules) {
    for (StringRef pattern : io.keys()) {
      rules.push_back({pattern.str(), {}});
      io.mapRequired(rules.back().pattern.c_str(), rules.back().dim);
    }
    // The parser gives the keys of a mapping in no order.
    llvm::sort(rules, [](const auto &a, const auto &b) { return a.dim.place < b.dim.place; });
  }
};

template <> struct MappingTraits<NoSequence> {
  static void mapping(IO &io, NoSequence &) {
    fail(io, "expected a dimension, largest, or a mapping of parameters to these");
  }
};

/// `1`, `largest` or `{"**.wq.weight": 1}`.
template <> struct PolymorphicTraits<ShardPlacement> {
  static NodeKind getKind(const ShardPlacement &) { return NodeKind::Map; }
  static ShardDim &getAsScalar(ShardPlacement &placement) { return placement.all.emplace(); }
  static std::vector<PlacementRule> &getAsMap(ShardPlacement &placement) { return placement.rules; }
  static NoSequence &getAsSequence(ShardPlacement &) {
    static NoSequence none;
    return none;
  }
};

template <> struct ScalarTraits<ExtensionName> {
  static void output(const ExtensionName &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *, ExtensionName &name) {
    return takeWord(parseAllGatherExtension(text), name.extension);
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <> struct MappingTraits<ExtensionFields> {
  static void mapping(IO &io, ExtensionFields &fields) {
    AllGatherExtension &extension = fields.extension;
    io.mapRequired("name", extension.name);
    io.mapRequired("bytes_per_element", extension.bytesPerElement);
    io.mapRequired("bytes_per_part", extension.bytesPerPart);
    if (std::optional<std::string> wrong =
            checkExtensionSizes(extension.name, extension.bytesPerElement, extension.bytesPerPart))
      fail(io, "all_gather_extension: " + *wrong);
  }
};

template <> struct MappingTraits<NoExtensions> {
  static void mapping(IO &io, NoExtensions &) {
    fail(io, "expected the name of an all_gather_extension, or a mapping with name, "
             "bytes_per_element and bytes_per_part");
  }
};

/// `int8` or `{name: fp6, bytes_per_element: 1, bytes_per_part: 0}`.
template <> struct PolymorphicTraits<ReadExtension> {
  static NodeKind getKind(const ReadExtension &) { return NodeKind::Map; }
  static ExtensionName &getAsScalar(ReadExtension &read) { return read.name.emplace(); }
  static ExtensionFields &getAsMap(ReadExtension &read) { return read.fields.emplace(); }
  static NoExtensions &getAsSequence(ReadExtension &) {
    static NoExtensions none;
    return none;
  }
};

template <> struct MappingTraits<MeshSpec> {
  static void mapping(IO &io, MeshSpec &mesh) {
    std::vector<std::pair<AxisSize, std::string>> axes;
    for (StringRef name : io.keys()) {
      axes.push_back({{}, name.str()});
      io.mapRequired(axes.back().second.c_str(), axes.back().first);
    }
    llvm::sort(axes, [](const auto &a, const auto &b) { return a.first.place < b.first.place; });
    mesh.axes.clear();
    for (auto &[axis, name] : axes)
      mesh.axes.push_back({std::move(name), axis.size});
    if (std::optional<std::string> wrong = checkMesh(mesh))
      fail(io, "mesh: " + *wrong);
  }
};

template <> struct MappingTraits<MixedPrecision> {
  static void mapping(IO &io, MixedPrecision &policy) {
    for (StringRef key : {"output_dtype", "cast_forward_inputs"})
      if (is_contained(io.keys(), key)) {
        fail(io, key + " of FSDP2's MixedPrecisionPolicy is a part of what the model computes: "
                       "export it with fsdpc.export(..., mixed_precision=...)");
        return;
      }
    io.mapOptional("param_dtype", policy.paramDtype);
    io.mapOptional("reduce_dtype", policy.reduceDtype);
  }
};

/// Of a group, or of all groups that do not say.
static void mapReduction(IO &io, std::optional<double> &divideFactor,
                         std::optional<bool> &forceSum) {
  io.mapOptional("gradient_divide_factor", divideFactor);
  io.mapOptional("force_sum_reduction_for_comms", forceSum);
  if (divideFactor)
    if (std::optional<std::string> problem = checkDivideFactor(*divideFactor))
      fail(io, "gradient_divide_factor " + *problem);
}

/// Of a group, or of all groups that do not say.
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
  io.mapOptional("reshard_after_forward", options.reshardAfterForward);
  io.mapOptional("recompute", options.recompute);
  io.mapOptional("offload_policy", options.offloadPolicy);
  io.mapOptional("offload_optimizer", options.offloadOptimizer);
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
      // An unknown key, which is reported after this, may be a misspelt one.
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

static void checkBetas(IO &io, StringRef what, const std::optional<std::vector<double>> &betas) {
  if (betas && betas->size() != 2)
    fail(io, what + " has " + Twine(betas->size()) + " betas, expected 2");
  for (double beta : betas.value_or(std::vector<double>()))
    checkValue(io, "betas", beta, checkBeta);
}

template <> struct MappingTraits<OptimizerRule> {
  static void mapping(IO &io, OptimizerRule &rule) {
    rule.place = getPlace(io);
    std::optional<std::vector<std::string>> parameters;
    io.mapOptional("parameters", parameters);
    io.mapOptional("max_dims", rule.maxDims);
    io.mapOptional("lr", rule.lr);
    io.mapOptional("weight_decay", rule.weightDecay);
    io.mapOptional("betas", rule.betas);
    io.mapOptional("eps", rule.eps);
    for (StringRef key : {"momentum", "dampening", "nesterov", "amsgrad", "maximize"})
      if (is_contained(io.keys(), key)) {
        fail(io, key + " is of the whole optimizer, not of a group of it");
        return;
      }
    rule.parameters = parameters.value_or(std::vector<std::string>());
    if (rule.parameters.empty() && !rule.maxDims)
      fail(io, "a group of the optimizer has 'parameters' or 'max_dims'");
    if (rule.maxDims && *rule.maxDims < 0)
      fail(io, "max_dims is " + Twine(*rule.maxDims) + ", expected 0 or more");
    checkValue(io, "lr", rule.lr);
    checkValue(io, "weight_decay", rule.weightDecay);
    checkBetas(io, "a group of the optimizer", rule.betas);
    checkValue(io, "eps", rule.eps);
  }
};

template <> struct MappingTraits<OptimizerOverrides> {
  static void mapping(IO &io, OptimizerOverrides &optimizer) {
    optimizer.place = getPlace(io);
    io.mapOptional("name", optimizer.kind);
    io.mapOptional("lr", optimizer.lr);
    io.mapOptional("weight_decay", optimizer.weightDecay);
    io.mapOptional("momentum", optimizer.momentum);
    io.mapOptional("dampening", optimizer.dampening);
    io.mapOptional("nesterov", optimizer.nesterov);
    io.mapOptional("betas", optimizer.betas);
    io.mapOptional("eps", optimizer.eps);
    io.mapOptional("amsgrad", optimizer.amsgrad);
    io.mapOptional("maximize", optimizer.maximize);
    io.mapOptional("clip_grad_norm", optimizer.clipGradNorm);
    io.mapOptional("clip_norm_type", optimizer.clipNormType);
    io.mapOptional("groups", optimizer.groups);
    checkValue(io, "lr", optimizer.lr);
    checkValue(io, "weight_decay", optimizer.weightDecay);
    checkValue(io, "momentum", optimizer.momentum);
    checkValue(io, "dampening", optimizer.dampening);
    checkBetas(io, "optimizer", optimizer.betas);
    checkValue(io, "eps", optimizer.eps);
    checkValue(io, "clip_grad_norm", optimizer.clipGradNorm, checkClipGradNorm);
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
    io.mapOptional("microbatches", accumulation.microbatches);
    io.mapOptional("loss", accumulation.loss);
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
        problem->getMessage().str());
  if (std::error_code error = input.error())
    return llvm::createStringError(path + ": " + error.message());
  config.file = path.str();
  return config;
}
