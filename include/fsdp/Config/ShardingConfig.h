//===- ShardingConfig.h - A user's sharding configuration -------*- C++ -*-===//
//
// The contents of a YAML file (fsdp-group-parameters has the format), or of command-line options.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_CONFIG_SHARDINGCONFIG_H
#define FSDP_CONFIG_SHARDINGCONFIG_H

#include "fsdp/IR/Fsdp.h"
#include "fsdp/IR/OptimizerOptions.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// A line and a column in the file, from 1.
struct ConfigPlace {
  unsigned line = 0, column = 0;
  auto operator<=>(const ConfigPlace &) const = default;
};

/// A device mesh. Parameters are sharded over its last axis and, if it has two, replicated over the
/// first (FSDP2's HSDP).
struct MeshSpec {
  struct Axis {
    std::string name;
    int64_t size;
    bool operator==(const Axis &) const = default;
  };
  std::vector<Axis> axes = {{"dp", 1}};
  ConfigPlace place = {};

  bool hasReplicas() const { return axes.size() > 1; }

  int64_t getRanks() const {
    int64_t ranks = 1;
    for (const Axis &axis : axes)
      ranks *= axis.size;
    return ranks;
  }
};

/// A name or pattern, and its position in the file.
struct PlacedName {
  std::string text;
  ConfigPlace place = {};
};

/// An error in a file, with its position.
class ConfigError : public llvm::ErrorInfo<ConfigError> {
public:
  static char ID;

  ConfigError(std::string file, ConfigPlace place, std::string message)
      : file(std::move(file)), place(place), message(std::move(message)) {}
  void log(llvm::raw_ostream &os) const override {
    os << file << ':' << place.line << ':' << place.column << ": " << message;
  }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  std::string file;
  ConfigPlace place;
  std::string message;
};

/// How many groups are gathered ahead of their use; 0: none.
struct PrefetchDepth {
  int64_t groups = 0;
};

/// The groups that are gathered ahead of their use: FSDP2's lists of modules to prefetch.
struct PrefetchTargets {
  PrefetchDepth depth;              // the next ones in forward order, or in backward order
  std::vector<std::string> modules; // or the groups of these modules
};

/// FSDP2's `reshard_after_forward`: a word, or an int.
struct ReshardChoice {
  Reshard when = Reshard::None;
  /// The int: this many ranks together keep the parameters, one chunk each.
  std::optional<int64_t> ranks = {};
  ConfigPlace place = {};
};

/// FSDP2's `offload_policy`: OffloadPolicy or CPUOffloadPolicy.
enum class ParameterHome { Device, Cpu };

/// The dtypes of FSDP2's MixedPrecisionPolicy.
enum class PolicyDtype { Float32, BFloat16, Float16 };

/// `gather_dtype`: that of `param_dtype`, or an 8-bit float for the parameters that the model casts
/// to it by a scale.
enum class GatherDtype { Param, Float8E4M3, Float8E5M2 };

/// FSDP2's MixedPrecisionPolicy. Without `reduceDtype` gradients are reduced in `paramDtype`.
/// Without both, parameters are gathered in the dtype in which the model uses them, and gradients
/// are reduced in the parameters' dtype.
struct MixedPrecision {
  std::optional<PolicyDtype> paramDtype; // of gathered parameters
  std::optional<PolicyDtype> reduceDtype;
  std::optional<GatherDtype> gatherDtype = {};

  /// The 8-bit float of `gatherDtype`; nullopt for param_dtype.
  std::optional<GatherDtype> getFloat8() const {
    return gatherDtype == GatherDtype::Param ? std::nullopt : gatherDtype;
  }
};

/// The dimension on which a parameter is sharded.
struct ShardDim {
  std::optional<int64_t> dim; // negative: from the last; absent: the largest that the ranks divide
  ConfigPlace place = {};
};

/// One entry of `shard_placement`.
struct PlacementRule {
  std::string pattern; // of parameters
  ShardDim dim;
};

/// FSDP2's `shard_placement_fn`, for all parameters of a group or for some.
struct ShardPlacement {
  std::optional<ShardDim> all;
  std::vector<PlacementRule> rules; // parameters without a match are sharded on dimension 0
};

/// FSDP2's pair of fsdp_pre_all_gather and fsdp_post_all_gather, by its registered name, and the
/// size of an encoded shard of a parameter.
struct AllGatherExtension {
  std::string name; // empty: none
  int64_t bytesPerElement = 0, bytesPerPart = 0;
};

/// The options of one group.
struct GroupOptions {
  std::optional<MeshSpec> mesh = {}; // with as many ranks as the model's
  std::optional<ReshardChoice> reshardAfterForward = {};
  std::optional<RecomputePolicy> recompute = {};
  std::optional<ParameterHome> offloadPolicy = {};
  std::optional<bool> offloadOptimizer = {}, offloadActivations = {};
  std::optional<GradientSync> gradientSync = {};
  std::optional<bool> reshardAfterBackward = {};
  std::optional<PrefetchTargets> forwardPrefetch = {}, backwardPrefetch = {};
  std::optional<MixedPrecision> mixedPrecision = {};
  std::optional<double> gradientDivideFactor = {};
  std::optional<bool> forceSumReduction = {};
  std::optional<ShardPlacement> shardPlacement = {};
  std::optional<AllGatherExtension> allGatherExtension = {};
  std::optional<std::string> allReduceHook = {}; // "none": no hook
};

/// One entry of `groups`.
struct GroupRule {
  std::vector<std::string> modules; // paths or patterns
  /// One group for all modules; else one group per module.
  bool isTogether = false;
  GroupOptions options = {};
  ConfigPlace place = {};
};

/// The order of the forwards and backwards of microbatches.
enum class MicrobatchOrder { Sequential, OneForwardOneBackward };

/// Several forwards and backwards for one update.
struct Accumulation {
  std::optional<int64_t> microbatches;            // of a step; absent: 1
  std::optional<LossReduction> loss;              // absent: Mean
  std::optional<MicrobatchOrder> order;           // absent: Sequential
  std::optional<std::vector<std::string>> stages; // of 1f1b: modules or patterns
  // Defaults of groups:
  std::optional<GradientSync> gradientSync; // absent: Each
  std::optional<bool> reshardAfterBackward; // between microbatches; absent: true
  ConfigPlace place;                        // none if the command line says some of it
};

/// One entry of the optimizer's `groups`: parameters with options of their own.
struct OptimizerRule {
  std::vector<std::string> parameters; // names or patterns; empty: all
  std::optional<int64_t> maxDims;      // only parameters with at most this many dimensions
  OptimizerOptions options;
  ConfigPlace place;
};

/// Overrides of the captured optimizer. Absent values keep the captured ones, but another `kind`
/// starts from torch's defaults.
struct OptimizerOverrides {
  std::optional<OptimizerKind> kind;
  OptimizerOptions options;
  std::optional<double> clipGradNorm;
  std::optional<NormType> clipNormType;
  std::optional<LossScaling> lossScaling;
  std::optional<StateDtypes> stateDtype;
  std::optional<std::vector<OptimizerRule>> groups;
  ConfigPlace place;
};

/// One entry of `activation_checkpointing`.
struct RecomputeRule {
  std::vector<std::string> modules; // paths or patterns
  RecomputePolicy policy = RecomputePolicy::Full;
  std::optional<std::vector<std::string>> keep; // operators that `selected` keeps
  ConfigPlace place;
};

/// How groups of one module are split.
struct SplitBlocks {
  /// The least number of parameters' elements of a part; 0: nothing is split.
  int64_t leastElements = 0;
  /// The most groups that there may be afterwards, the root's left out; 0: any number.
  int64_t mostGroups = 0;
};
/// What `split_blocks: true` means. With more groups a search takes long, and solves no linear
/// program.
inline constexpr SplitBlocks kSplitBlocks{450'000'000, 300};

struct ShardingConfig {
  std::string file; // empty: no file
  std::optional<MeshSpec> mesh; // default of groups; absent: one rank
  std::optional<Layout> layout;
  std::optional<Prefetch> prefetch;
  std::optional<ReshardChoice> reshardAfterForward; // default of groups
  /// Absent: each repeated block is a group.
  std::optional<std::vector<GroupRule>> groups;
  GroupOptions root; // recompute is none or cheap
  /// Whether root parameters that are used in different parts of the step form separate groups;
  /// absent: false.
  std::optional<bool> splitRoot;
  /// Whether groups of one module with many parameters are split; absent: they are not.
  std::optional<SplitBlocks> splitBlocks;
  ConfigPlace rootPlace;
  MixedPrecision mixedPrecision;
  std::optional<double> gradientDivideFactor; // default of groups; absent: the number of all ranks
  std::optional<bool> forceSumReduction;      // likewise; absent: false
  std::optional<ShardPlacement> shardPlacement; // likewise; absent: dimension 0
  std::optional<ParameterHome> offloadPolicy;   // likewise; absent: Device
  std::optional<AllGatherExtension> allGatherExtension; // likewise; absent: none
  std::optional<std::string> allReduceHook;             // likewise; absent: none
  Accumulation accumulation;
  std::optional<OptimizerOverrides> optimizer;
  std::vector<RecomputeRule> checkpointing;
  std::vector<PlacedName> ignoredParams; // names or patterns of parameters outside of all groups
};

/// A ConfigError, or, where the file has no such place, an error of the message alone.
llvm::Error failAt(const ShardingConfig &config, ConfigPlace place, const llvm::Twine &message);

/// Reads a YAML file. Unknown keys, missing values and values out of range are ConfigErrors.
llvm::Expected<ShardingConfig> readShardingConfig(llvm::StringRef path);

// The words that the file and the command line share. Errors quote the text and say what is
// expected.
llvm::Expected<MeshSpec> parseMesh(llvm::StringRef text); // dp=4, replicate=2,shard=4
std::string describe(const MeshSpec &mesh);               // in the form that parseMesh reads
/// Describes what is wrong with a mesh: the number of axes, two axes of one name, a size below 1,
/// replicas of parameters that are not sharded.
std::optional<std::string> checkMesh(const MeshSpec &mesh);
llvm::Expected<ReshardChoice> parseReshard(llvm::StringRef text);
llvm::Expected<Layout> parseLayout(llvm::StringRef text);
llvm::Expected<Prefetch> parsePrefetch(llvm::StringRef text);
llvm::Expected<ShardDim> parseShardDim(llvm::StringRef text); // a number, largest
llvm::Expected<ParameterHome> parseOffloadPolicy(llvm::StringRef text); // none, cpu
llvm::Expected<RecomputePolicy> parseRecompute(llvm::StringRef text);
llvm::Expected<GradientSync> parseGradientSync(llvm::StringRef text);
llvm::Expected<LossReduction> parseLossReduction(llvm::StringRef text);
llvm::Expected<MicrobatchOrder> parseMicrobatchOrder(llvm::StringRef text); // sequential, 1f1b
llvm::Expected<bool> parseReshardAfterBackward(llvm::StringRef text); // true, false
llvm::Expected<bool> parseSplitRoot(llvm::StringRef text);            // true, false
llvm::Expected<SplitBlocks> parseSplitBlocks(llvm::StringRef text);   // true, false, a number
/// Diagnoses a number of microbatches that is out of range, and options about gradients between
/// microbatches that have no effect, for all groups or for one.
llvm::Error checkAccumulation(const ShardingConfig &config);
/// The name of an extension: `none`, or a built-in extension with known sizes.
llvm::Expected<AllGatherExtension> parseAllGatherExtension(llvm::StringRef text);
llvm::Expected<PolicyDtype> parsePolicyDtype(llvm::StringRef text); // float32, bfloat16, float16
llvm::Expected<GatherDtype>
parseGatherDtype(llvm::StringRef text);     // param_dtype, float8_e4m3fn, ...
llvm::StringRef getName(GatherDtype dtype); // as in parseGatherDtype
llvm::StringRef getName(PolicyDtype dtype);                         // as in parsePolicyDtype
/// Bytes: 80000000, 70GiB, 1.5MiB, 80GB (10^9). `what` names the option in errors.
llvm::Expected<int64_t> parseSizeBytes(llvm::StringRef text, llvm::StringRef what);

} // namespace fsdp

#endif // FSDP_CONFIG_SHARDINGCONFIG_H
