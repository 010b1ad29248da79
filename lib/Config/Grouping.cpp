//===- Grouping.cpp - Grouping of parameters ------------------------------===//

#include "fsdp/Config/Grouping.h"

#include "ModuleParams.h"
#include "SeparateGroups.h"
#include "fsdp/Config/ShardPlacement.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <limits>

using namespace fsdp;
using llvm::StringRef;

namespace {

/// The rule that named a module.
struct Mention {
  std::string pattern;
  ConfigPlace place;
};

class Grouper {
public:
  Grouper(llvm::ArrayRef<NamedParam> params, llvm::ArrayRef<std::string> modules,
          const ShardingConfig &config)
      : params(params), config(config), model(params, modules),
        groupOfParam(params.size(), kNoGroup) {}
  llvm::Expected<std::vector<ParamGroup>> run();

private:
  static constexpr int kNoGroup = -1;

  std::vector<GroupRule> getImpliedRules();
  llvm::Error applyRule(const GroupRule &rule);
  llvm::Expected<std::vector<std::string>> matchNew(const GroupRule &rule,
                                                    const std::string &pattern);
  llvm::Expected<std::vector<std::string>> match(StringRef pattern, ConfigPlace place);
  llvm::Error addGroup(llvm::ArrayRef<std::string> members, const GroupRule &rule);
  /// `modules`: those of the group; "" is the root.
  llvm::Expected<GroupOptions> withDefaults(GroupOptions options,
                                            llvm::ArrayRef<std::string> modules);
  llvm::Error checkRanks(const MeshSpec &mesh, llvm::ArrayRef<std::string> modules);
  llvm::Expected<ReshardChoice> resolve(ReshardChoice choice, const MeshSpec &mesh);
  llvm::Error checkHasNoLists(const ParamGroup &empty);
  /// Takes parts out of large groups of one module, with the group's options.
  void splitBlocks();
  std::vector<ParamGroup> takeParts(ParamGroup &group, int64_t mostParts);
  /// Takes groups out of the root's remaining parameters, with the root's options.
  void splitRoot(const ParamGroup &root);
  llvm::Error addRoot();
  llvm::Error checkShared();
  llvm::Error fail(ConfigPlace place, const llvm::Twine &message);
  std::string describe(const Mention &mention);
  std::string getName(int group);

  llvm::ArrayRef<NamedParam> params;
  const ShardingConfig &config;
  ModuleParams model;
  llvm::StringMap<Mention> mentions; // modules that a rule names
  std::vector<int> groupOfParam;
  std::vector<ParamGroup> groups;
  std::vector<std::string> blocksInRoot;
};

} // namespace

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

llvm::Error Grouper::fail(ConfigPlace place, const llvm::Twine &message) {
  return failAt(config, place, message);
}

std::string Grouper::describe(const Mention &mention) {
  return ("'" + mention.pattern + "' in line " + llvm::Twine(mention.place.line)).str();
}

static std::string nameGroup(llvm::ArrayRef<std::string> modules) {
  return modules.front().empty() ? "the root group" : "group '" + llvm::join(modules, ", ") + "'";
}

std::string Grouper::getName(int group) { return nameGroup(groups[group].modules); }

llvm::Expected<std::vector<std::string>> Grouper::match(StringRef pattern, ConfigPlace place) {
  llvm::Expected<std::vector<std::string>> found = model.match(pattern);
  if (!found)
    return fail(place, llvm::toString(found.takeError()));
  if (pattern.empty())
    return fail(place, "the root group is implied; its options stand under 'root'");
  if (found->empty())
    return fail(place, "pattern '" + pattern + "' matches no module of the model");
  return found;
}

/// Every mesh has all ranks of a run.
llvm::Error Grouper::checkRanks(const MeshSpec &mesh, llvm::ArrayRef<std::string> modules) {
  const MeshSpec all = config.mesh.value_or(MeshSpec());
  if (mesh.getRanks() == all.getRanks())
    return llvm::Error::success();
  return fail(mesh.place, "mesh of " + nameGroup(modules) + " is " + fsdp::describe(mesh) +
                              ", of " + llvm::Twine(mesh.getRanks()) +
                              " ranks, but the model's is " + fsdp::describe(all) + ", of " +
                              llvm::Twine(all.getRanks()) +
                              "; give the group a mesh of as many ranks, or leave its mesh out");
}

/// Sets options that a group leaves open to the file's defaults for all groups.
llvm::Expected<GroupOptions> Grouper::withDefaults(GroupOptions options,
                                                   llvm::ArrayRef<std::string> modules) {
  auto otherwise = [](auto &value, const auto &forAll) {
    if (!value)
      value = forAll;
  };
  if (options.mesh)
    if (llvm::Error error = checkRanks(*options.mesh, modules))
      return error;
  otherwise(options.mesh, std::optional(config.mesh.value_or(MeshSpec())));
  otherwise(options.reshardAfterForward, config.reshardAfterForward);
  // FSDP2 ignores set_requires_all_reduce() of groups without replicas.
  std::optional<GradientSync> sync = config.accumulation.gradientSync;
  if (sync == GradientSync::ReduceScatter && !options.mesh->hasReplicas())
    sync = GradientSync::Each;
  otherwise(options.gradientSync, sync);
  otherwise(options.reshardAfterBackward, config.accumulation.reshardAfterBackward);
  otherwise(options.gradientDivideFactor, config.gradientDivideFactor);
  otherwise(options.forceSumReduction, config.forceSumReduction);
  otherwise(options.shardPlacement, config.shardPlacement);
  otherwise(options.offloadPolicy, config.offloadPolicy);
  otherwise(options.allGatherExtension, config.allGatherExtension);
  otherwise(options.allReduceHook, config.allReduceHook);
  if (options.reshardAfterForward) {
    llvm::Expected<ReshardChoice> resolved = resolve(*options.reshardAfterForward, *options.mesh);
    if (!resolved)
      return resolved.takeError();
    options.reshardAfterForward = *resolved;
  }
  return options;
}

/// Refuses prefetch lists of a module without parameters. FSDP2 follows them, but here the module
/// makes no group that could hold them.
llvm::Error Grouper::checkHasNoLists(const ParamGroup &empty) {
  for (bool isForward : {true, false}) {
    const auto &targets =
        isForward ? empty.options.forwardPrefetch : empty.options.backwardPrefetch;
    if (targets && !targets->modules.empty())
      return fail(empty.place, llvm::Twine(isForward ? "forward_prefetch" : "backward_prefetch") +
                                   " is of " + nameGroup(empty.modules) +
                                   ", which has no parameters of its own; give the list to a group "
                                   "that has some");
  }
  return llvm::Error::success();
}

llvm::Error Grouper::addGroup(llvm::ArrayRef<std::string> members, const GroupRule &rule) {
  ParamGroup group;
  group.modules.assign(members.begin(), members.end());
  llvm::Expected<GroupOptions> options = withDefaults(rule.options, members);
  if (!options)
    return options.takeError();
  group.options = *options;
  group.place = rule.place;
  int takenBy = kNoGroup; // an earlier group whose module contains one of these
  for (const std::string &module : members)
    for (unsigned param : model.below(module)) {
      int &owner = groupOfParam[param];
      if (owner == kNoGroup) {
        owner = groups.size();
        group.params.push_back(param);
      } else if (owner != static_cast<int>(groups.size()) &&
                 llvm::any_of(groups[owner].modules,
                              [&](StringRef outer) { return isBelow(module, outer); })) {
        takenBy = owner;
      }
    }
  if (!group.params.empty()) {
    llvm::sort(group.params);
    groups.push_back(std::move(group));
    return llvm::Error::success();
  }
  if (takenBy == kNoGroup)
    return checkHasNoLists(group);
  return fail(rule.place, "all parameters of '" + llvm::join(members, "', '") + "' are in " +
                              getName(takenBy) +
                              " already; name inner modules before outer ones, as fully_shard is "
                              "called bottom-up");
}

/// Returns the modules that match `pattern` and that no earlier pattern has named. It is an error if
/// there are none, unless other names of the same entry have named them.
llvm::Expected<std::vector<std::string>> Grouper::matchNew(const GroupRule &rule,
                                                           const std::string &pattern) {
  llvm::Expected<std::vector<std::string>> found = match(pattern, rule.place);
  if (!found)
    return found;
  const Mention mention{pattern, rule.place};
  std::vector<std::string> others;
  for (const std::string &module : *found)
    if (mentions.try_emplace(module, mention).second)
      others.push_back(module);
  const std::string &module = found->front();
  const Mention &before = mentions.at(module);
  // Two names of one module in one entry are no contradiction.
  if (!others.empty() || (before.place == rule.place && before.pattern != pattern))
    return others;
  const bool isOne = module == pattern;
  return fail(rule.place,
              (isOne ? "module '" + module + "' is" : "all modules of '" + pattern + "' are") +
                  " given twice: by " + describe(before) + " and by " + describe(mention) +
                  (isOne && before.pattern != module
                       ? "; the first pattern that matches a module counts: write '" + module +
                             "' before '" + before.pattern + "'"
                       : ""));
}

/// Each repeated block, if it is not used outside: such blocks stay in the root.
std::vector<GroupRule> Grouper::getImpliedRules() {
  std::vector<GroupRule> rules;
  for (const std::string &block : model.findRepeatedBlocks())
    if (model.isUsedOutside(block))
      blocksInRoot.push_back(block);
    else
      rules.emplace_back().modules = {block};
  return rules;
}

llvm::Error Grouper::applyRule(const GroupRule &rule) {
  std::vector<std::string> together;
  for (const std::string &pattern : rule.modules) {
    llvm::Expected<std::vector<std::string>> found = matchNew(rule, pattern);
    if (!found)
      return found.takeError();
    for (const std::string &module : *found) {
      if (rule.isTogether)
        together.push_back(module);
      else if (llvm::Error error = addGroup(module, rule))
        return error;
    }
  }
  return rule.isTogether ? addGroup(together, rule) : llvm::Error::success();
}

/// torch 2.11, _fsdp_init.py, _get_post_forward_mesh_info(): an int must divide the ranks over
/// which the group is sharded; 1 means false, and the number of all ranks true.
llvm::Expected<ReshardChoice> Grouper::resolve(ReshardChoice choice, const MeshSpec &mesh) {
  if (!choice.ranks)
    return choice;
  const MeshSpec::Axis &axis = mesh.axes.back();
  int64_t ranks = *choice.ranks;
  if (ranks < 1 || ranks > axis.size || axis.size % ranks != 0)
    return fail(choice.place, "reshard_after_forward is " + std::to_string(ranks) +
                                  ", expected a factor of " + std::to_string(axis.size) +
                                  ", the ranks of axis '" + axis.name + "'");
  if (ranks == 1)
    return ReshardChoice{Reshard::Never};
  if (ranks == axis.size)
    return ReshardChoice{Reshard::Always};
  return choice;
}

std::vector<ParamGroup> Grouper::takeParts(ParamGroup &group, int64_t mostParts) {
  std::vector<ParamGroup> parts;
  if (group.modules.size() != 1 || group.options.mesh->axes.back().size == 1)
    return parts;
  for (std::vector<std::string> &modules : model.divide(
           group.modules.front(), group.params, config.splitBlocks->leastElements, mostParts)) {
    ParamGroup part = group;
    part.partOf = group.modules.front();
    part.modules = std::move(modules);
    part.params.clear();
    for (const std::string &module : part.modules)
      llvm::append_range(part.params, model.below(module));
    llvm::sort(part.params);
    // The block decides for its parts.
    part.options.recompute.reset();
    part.options.offloadActivations.reset();
    llvm::erase_if(group.params, [&](unsigned param) {
      return std::binary_search(part.params.begin(), part.params.end(), param);
    });
    parts.push_back(std::move(part));
  }
  return parts;
}

void Grouper::splitBlocks() {
  const auto [leastElements, mostGroups] = config.splitBlocks.value_or(SplitBlocks());
  if (leastElements == 0 || groups.empty())
    return;
  const int64_t mostParts = mostGroups > 0 ? mostGroups / static_cast<int64_t>(groups.size())
                                           : std::numeric_limits<int64_t>::max();
  std::vector<ParamGroup> divided;
  for (ParamGroup &group : groups) {
    llvm::append_range(divided, takeParts(group, mostParts));
    divided.push_back(std::move(group));
  }
  groups = std::move(divided);
  for (auto [index, group] : llvm::enumerate(groups))
    for (unsigned param : group.params)
      groupOfParam[param] = index;
}

void Grouper::splitRoot(const ParamGroup &root) {
  std::vector<std::vector<unsigned>> stretches(1); // root parameters between those of other groups
  for (auto [index, owner] : llvm::enumerate(groupOfParam))
    if (owner == kNoGroup)
      stretches.back().push_back(index);
    else if (!stretches.back().empty())
      stretches.emplace_back();
  if (stretches.back().empty())
    stretches.pop_back();
  if (stretches.size() < 2 || root.options.mesh->axes.back().size == 1)
    return;
  for (const std::vector<unsigned> &stretch : stretches) {
    ParamGroup part = root;
    part.partOf = "";
    part.modules = model.findHolders(stretch);
    if (part.modules.empty())
      continue;
    for (const std::string &module : part.modules)
      for (unsigned param : model.below(module)) {
        groupOfParam[param] = groups.size();
        part.params.push_back(param);
      }
    llvm::sort(part.params);
    // In FSDP2 the root stays gathered.
    if (!part.options.reshardAfterForward ||
        part.options.reshardAfterForward->when == Reshard::None)
      part.options.reshardAfterForward = ReshardChoice{Reshard::Never};
    groups.push_back(std::move(part));
  }
}

llvm::Error Grouper::addRoot() {
  ParamGroup root;
  root.modules = {""};
  llvm::Expected<GroupOptions> options = withDefaults(config.root, root.modules);
  if (!options)
    return options.takeError();
  root.options = *options;
  root.place = config.rootPlace;
  root.blocksInRoot = std::move(blocksInRoot);
  if (config.splitRoot.value_or(false))
    splitRoot(root);
  for (auto [index, owner] : llvm::enumerate(groupOfParam))
    if (owner == kNoGroup) {
      owner = groups.size();
      root.params.push_back(index);
    }
  if (root.params.empty())
    return checkHasNoLists(root);
  groups.push_back(std::move(root));
  return llvm::Error::success();
}

/// Only one group gathers a shared parameter: it must contain all modules that hold the parameter.
llvm::Error Grouper::checkShared() {
  for (auto [names, owner] : llvm::zip_equal(model.names(), groupOfParam)) {
    if (names.size() == 1)
      continue;
    for (StringRef name : names) {
      // The group that the parameter would be in if this were its only name.
      int taker = kNoGroup;
      for (auto [index, group] : llvm::enumerate(groups))
        if (taker == kNoGroup &&
            llvm::any_of(group.modules, [&](StringRef module) { return isBelow(name, module); }))
          taker = index;
      if (taker == owner)
        continue;
      std::string where = taker == kNoGroup ? "no group" : getName(taker);
      auto [first, second] = dropCommonEnd(names.front(), name);
      return fail({}, "parameter '" + names.front() + "' of " + getName(owner) +
                          " is shared with '" + name + "' of " + where +
                          "; put all modules that share it into one group: together: [" + first +
                          ", " + second + "]");
    }
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<ParamGroup>> Grouper::run() {
  for (const GroupRule &rule : config.groups ? *config.groups : getImpliedRules())
    if (llvm::Error error = applyRule(rule))
      return error;
  splitBlocks();
  if (llvm::Error error = addRoot())
    return error;
  if (llvm::Error error = checkShared())
    return error;
  groups = SeparateGroups(params, config).run(std::move(groups));
  if (llvm::Error error = placeShards(groups, params, config))
    return error;
  return std::move(groups);
}

llvm::Expected<std::vector<ParamGroup>> fsdp::groupParams(llvm::ArrayRef<NamedParam> params,
                                                          llvm::ArrayRef<std::string> modules,
                                                          const ShardingConfig &config) {
  return Grouper(params, modules, config).run();
}
