//===- ShardPlacement.cpp - Sharded dimensions of parameters --------------===//

#include "fsdp/Config/ShardPlacement.h"

#include "fsdp/Config/ModulePattern.h"
#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace fsdp;

namespace {
class Placer {
public:
  Placer(llvm::ArrayRef<NamedParam> params, const ShardingConfig &config)
      : params(params), config(config) {}
  llvm::Error place(ParamGroup &group);
  /// Fails if a pattern matched no parameter.
  llvm::Error checkMatched(const std::optional<ShardPlacement> &placement);

private:
  /// A rule and its parsed pattern.
  struct Matcher {
    const PlacementRule *rule;
    ModulePattern pattern;
  };
  llvm::Error fail(ConfigPlace place, const llvm::Twine &message) {
    return failAt(config, place, message);
  }
  int64_t findLargest(const NamedParam &param) const;
  llvm::Expected<int64_t> resolve(const ShardDim &asked, const NamedParam &param);
  llvm::Expected<std::vector<Matcher>> parse(const ShardPlacement &placement);
  llvm::Expected<int64_t> match(llvm::ArrayRef<Matcher> matchers, const NamedParam &param);

  llvm::ArrayRef<NamedParam> params;
  const ShardingConfig &config;
  MeshSpec::Axis axis;           // of the current group
  std::set<ConfigPlace> matched; // rules
};
} // namespace

/// The largest dimension that the ranks divide, the first of equal ones; 0 if they divide none.
int64_t Placer::findLargest(const NamedParam &param) const {
  std::optional<size_t> largest;
  for (auto [dim, size] : llvm::enumerate(param.shape))
    if (size % axis.size == 0 && (!largest || size > param.shape[*largest]))
      largest = dim;
  return static_cast<int64_t>(largest.value_or(0));
}

/// torch 2.11, _fsdp_param.py, _init_sharded_param(): a negative dimension counts from the last
/// one; a dimension other than 0 must be divisible by the ranks.
llvm::Expected<int64_t> Placer::resolve(const ShardDim &asked, const NamedParam &param) {
  if (!asked.dim)
    return findLargest(param);
  const auto dims = static_cast<int64_t>(param.shape.size());
  const int64_t dim = *asked.dim < 0 ? *asked.dim + dims : *asked.dim;
  const std::string begin = "shard_placement of parameter '" + param.names.front() + "' is " +
                            std::to_string(*asked.dim) + ", but ";
  if (dim < 0 || dim >= std::max<int64_t>(dims, 1))
    return fail(asked.place,
                begin + "it has " + llvm::Twine(dims) + (dims == 1 ? " dimension" : " dimensions"));
  if (dim != 0 && param.shape[dim] % axis.size != 0)
    return fail(asked.place, begin + "dimension " + llvm::Twine(dim) + " has size " +
                                 llvm::Twine(param.shape[dim]) + ", which the " +
                                 llvm::Twine(axis.size) + " ranks of axis '" + axis.name +
                                 "' do not divide; only dimension 0 is padded, and 'largest' takes "
                                 "the largest dimension that they divide");
  return dim;
}

llvm::Expected<std::vector<Placer::Matcher>> Placer::parse(const ShardPlacement &placement) {
  std::vector<Matcher> matchers;
  for (const PlacementRule &rule : placement.rules) {
    llvm::Expected<ModulePattern> pattern = ModulePattern::create(rule.pattern);
    if (!pattern)
      return fail(rule.dim.place, llvm::toString(pattern.takeError()));
    matchers.push_back({&rule, std::move(*pattern)});
  }
  return matchers;
}

llvm::Expected<int64_t> Placer::match(llvm::ArrayRef<Matcher> matchers, const NamedParam &param) {
  const PlacementRule *first = nullptr;
  int64_t found = 0;
  for (const auto &[rule, pattern] : matchers) {
    if (llvm::none_of(param.names, [&](const std::string &name) { return pattern.match(name); }))
      continue;
    matched.insert(rule->dim.place);
    llvm::Expected<int64_t> dim = resolve(rule->dim, param);
    if (!dim)
      return dim.takeError();
    if (first && *dim != found)
      return fail(rule->dim.place, "shard_placement cuts parameter '" + param.names.front() +
                                       "' on dimension " + llvm::Twine(found) + " by '" +
                                       first->pattern + "' and on dimension " + llvm::Twine(*dim) +
                                       " by '" + rule->pattern + "'");
    first = rule;
    found = *dim;
  }
  return found;
}

llvm::Error Placer::place(ParamGroup &group) {
  axis = group.options.mesh->axes.back();
  const ShardPlacement placement = group.options.shardPlacement.value_or(ShardPlacement());
  if (!placement.all && placement.rules.empty())
    return llvm::Error::success();
  if (config.layout.value_or(Layout::Flat) == Layout::Flat)
    return fail((placement.all ? *placement.all : placement.rules.front().dim).place,
                "shard_placement is for the per-param layout; the flat one lays a "
                "group out as one buffer and cuts no dimension. Say 'layout: "
                "per-param'");
  llvm::Expected<std::vector<Matcher>> matchers = parse(placement);
  if (!matchers)
    return matchers.takeError();
  for (unsigned index : group.params) {
    const NamedParam &param = params[index];
    llvm::Expected<int64_t> dim =
        placement.all ? resolve(*placement.all, param) : match(*matchers, param);
    if (!dim)
      return dim.takeError();
    group.shardDims.push_back(*dim);
  }
  if (llvm::all_of(group.shardDims, [](int64_t dim) { return dim == 0; }))
    group.shardDims.clear();
  return llvm::Error::success();
}

llvm::Error Placer::checkMatched(const std::optional<ShardPlacement> &placement) {
  if (!placement)
    return llvm::Error::success();
  for (const PlacementRule &rule : placement->rules)
    if (!matched.contains(rule.dim.place))
      return fail(rule.dim.place, "pattern '" + rule.pattern +
                                      "' of shard_placement matches no parameter of its groups");
  return llvm::Error::success();
}

llvm::Error fsdp::placeShards(llvm::MutableArrayRef<ParamGroup> groups,
                              llvm::ArrayRef<NamedParam> params, const ShardingConfig &config) {
  Placer placer(params, config);
  for (ParamGroup &group : groups)
    if (llvm::Error error = placer.place(group))
      return error;
  if (llvm::Error error = placer.checkMatched(config.shardPlacement))
    return error;
  if (llvm::Error error = placer.checkMatched(config.root.shardPlacement))
    return error;
  for (const GroupRule &rule : config.groups.value_or(std::vector<GroupRule>()))
    if (llvm::Error error = placer.checkMatched(rule.options.shardPlacement))
      return error;
  return llvm::Error::success();
}
