//===- YamlValues.h - Values of the YAML file ---------------------*- C++ -*-===//
//
// Readers of single values: words, numbers, names with their positions, and values with a short and
// a long form. ShardingConfig.cpp, the only file that includes this one, has the keys.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_LIB_CONFIG_YAMLVALUES_H
#define FSDP_LIB_CONFIG_YAMLVALUES_H

#include "fsdp/Config/ShardingConfig.h"
#include "fsdp/IR/Limits.h"
#include "llvm/Support/YAMLTraits.h"

LLVM_YAML_IS_SEQUENCE_VECTOR(fsdp::PlacedName)

namespace fsdp {

/// Additional inputs of the traits.
struct ReadContext {
  llvm::StringRef text;

  ConfigPlace getPlace(llvm::yaml::IO &io) const {
    // The traits are only used for reading.
    auto &input = static_cast<llvm::yaml::Input &>(io);
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

/// A size of the mesh. The parser returns the keys of a mapping in no particular order; the
/// position of the number in the file determines the order of axes.
struct AxisSize {
  int64_t size = 1;
  const char *place = nullptr;
};

/// The type for mappings where none is allowed.
struct NoMapping {};

/// The type for sequences where none is allowed.
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

/// The optimizer's `state_dtype`: for all states, or by name.
struct StateDtypeName {
  std::string word;
};
struct StateDtypeNames {
  StateDtypes dtypes;
};
struct NoStateDtypes {}; // a sequence
struct ReadStateDtypes {
  std::optional<StateDtypeName> all;
  StateDtypeNames names;
};

/// Records the first error. After an error values are no longer read from the file, and the reader
/// may have no position for a further message.
inline void fail(llvm::yaml::IO &io, const llvm::Twine &message) {
  if (!io.error())
    io.setError(message);
}

inline ConfigPlace getPlace(llvm::yaml::IO &io) {
  return static_cast<ReadContext *>(io.getContext())->getPlace(io);
}

/// Sets `value` or returns the error message, which YAMLIO requires as a reference.
template <typename T> llvm::StringRef takeWord(llvm::Expected<T> parsed, T &value) {
  if (parsed) {
    value = *parsed;
    return {};
  }
  static thread_local std::string message;
  message = llvm::toString(parsed.takeError());
  return message;
}

} // namespace fsdp

namespace llvm::yaml {

using namespace fsdp;

/// Words are read and never written.
template <typename T, Expected<T> (*parse)(StringRef)> struct WordTraits {
  static void output(const T &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *, T &value) { return takeWord(parse(text), value); }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

/// Words that keep their place.
template <typename T, Expected<T> (*parse)(StringRef)> struct PlacedWordTraits {
  static void output(const T &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *context, T &value) {
    StringRef error = takeWord(parse(text), value);
    value.place = static_cast<ReadContext *>(context)->getPlace(text.data());
    return error;
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <> struct ScalarTraits<ReshardChoice> : PlacedWordTraits<ReshardChoice, parseReshard> {};
template <> struct ScalarTraits<RecomputePolicy> : WordTraits<RecomputePolicy, parseRecompute> {};
template <> struct ScalarTraits<ParameterHome> : WordTraits<ParameterHome, parseOffloadPolicy> {};
template <> struct ScalarTraits<GradientSync> : WordTraits<GradientSync, parseGradientSync> {};
template <> struct ScalarTraits<LossReduction> : WordTraits<LossReduction, parseLossReduction> {};
template <>
struct ScalarTraits<MicrobatchOrder> : WordTraits<MicrobatchOrder, parseMicrobatchOrder> {};
template <> struct ScalarTraits<GatherDtype> : WordTraits<GatherDtype, parseGatherDtype> {};
template <> struct ScalarTraits<PolicyDtype> : WordTraits<PolicyDtype, parsePolicyDtype> {};
template <> struct ScalarTraits<SplitBlocks> : WordTraits<SplitBlocks, parseSplitBlocks> {};
template <> struct ScalarTraits<Layout> : WordTraits<Layout, parseLayout> {};
template <> struct ScalarTraits<Prefetch> : WordTraits<Prefetch, parsePrefetch> {};

inline Expected<OptimizerKind> parseOptimizerKind(StringRef text) {
  if (std::optional<OptimizerKind> kind = symbolizeOptimizerKind(text))
    return *kind;
  return createStringError("optimizer name is '" + text + "', expected " + plan::listOptimizers());
}
template <> struct ScalarTraits<OptimizerKind> : WordTraits<OptimizerKind, parseOptimizerKind> {};

inline Expected<NormType> parseNormType(StringRef text) {
  if (std::optional<NormType> type = symbolizeNormType(text))
    return *type;
  return createStringError("clip_norm_type is '" + text + "', expected 1, 2 or inf");
}
template <> struct ScalarTraits<NormType> : WordTraits<NormType, parseNormType> {};

template <> struct ScalarTraits<AxisSize> {
  static void output(const AxisSize &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *, AxisSize &axis) {
    axis.place = text.data();
    return text.getAsInteger(10, axis.size) ? "expected a number of ranks" : StringRef();
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

template <> struct ScalarTraits<ShardDim> : PlacedWordTraits<ShardDim, parseShardDim> {};

template <> struct MappingTraits<std::vector<PlacementRule>> {
  static void mapping(IO &io, std::vector<PlacementRule> &rules) {
    for (StringRef pattern : io.keys()) {
      rules.push_back({pattern.str(), {}});
      io.mapRequired(rules.back().pattern.c_str(), rules.back().dim);
    }
    // The parser returns the keys of a mapping in no particular order.
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

template <> struct ScalarTraits<StateDtypeName> {
  static void output(const StateDtypeName &, void *, raw_ostream &) {}
  static StringRef input(StringRef text, void *, StateDtypeName &dtype) {
    dtype.word = text.str();
    return {};
  }
  static QuotingType mustQuote(StringRef) { return QuotingType::None; }
};

template <> struct MappingTraits<StateDtypeNames> {
  static void mapping(IO &io, StateDtypeNames &names) {
    for (StringRef state : io.keys()) {
      names.dtypes.push_back({state.str(), {}});
      io.mapRequired(names.dtypes.back().first.c_str(), names.dtypes.back().second);
    }
  }
};

template <> struct MappingTraits<NoStateDtypes> {
  static void mapping(IO &io, NoStateDtypes &) {
    fail(io, "expected the dtype of the optimizer's state, or a mapping of states to these");
  }
};

/// `bfloat16` or `{exp_avg: bfloat16, exp_avg_sq: float32}`.
template <> struct PolymorphicTraits<ReadStateDtypes> {
  static NodeKind getKind(const ReadStateDtypes &) { return NodeKind::Map; }
  static StateDtypeName &getAsScalar(ReadStateDtypes &read) { return read.all.emplace(); }
  static StateDtypeNames &getAsMap(ReadStateDtypes &read) { return read.names; }
  static NoStateDtypes &getAsSequence(ReadStateDtypes &) {
    static NoStateDtypes none;
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
    mesh.place = getPlace(io);
    mesh.axes.clear();
    for (auto &[axis, name] : axes)
      mesh.axes.push_back({std::move(name), axis.size});
    if (std::optional<std::string> wrong = checkMesh(mesh))
      fail(io, "mesh: " + *wrong);
  }
};

} // namespace llvm::yaml

#endif // FSDP_LIB_CONFIG_YAMLVALUES_H
