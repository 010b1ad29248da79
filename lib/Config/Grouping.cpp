//===- Grouping.cpp - Which parameters travel together --------------------===//

#include "fsdp/Config/Grouping.h"

#include "fsdp/Config/ModulePattern.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace fsdp;
using llvm::StringRef;

namespace {

/// Where a module was named.
struct Mention {
  std::string pattern;
  ConfigPlace place;
};

class Grouper {
public:
  Grouper(llvm::ArrayRef<NamedParam> params, llvm::ArrayRef<std::string> modules,
          const ShardingConfig &config)
      : params(params), config(config) {
    collectModules(modules);
  }
  llvm::Expected<std::vector<ParamGroup>> run();

private:
  static constexpr int kNoGroup = -1;

  void collectModules(llvm::ArrayRef<std::string> others);
  void addModules(StringRef path);
  std::vector<GroupRule> getRepeatedBlocks();
  llvm::Error applyRule(const GroupRule &rule);
  llvm::Expected<std::vector<std::string>> match(StringRef pattern, ConfigPlace place);
  llvm::Error addGroup(llvm::ArrayRef<std::string> members, const GroupRule &rule);
  void addRoot();
  llvm::Error checkShared();
  llvm::Error fail(ConfigPlace place, const llvm::Twine &message);
  std::string describe(const Mention &mention);
  std::string getName(int group);

  llvm::ArrayRef<NamedParam> params;
  const ShardingConfig &config;
  std::vector<std::string> modules; // all paths below the root, in the model's order
  llvm::StringSet<> knownModules;
  llvm::StringMap<std::vector<unsigned>> paramsBelow; // by module path
  llvm::StringMap<Mention> mentions;                  // modules that some rule names
  std::vector<int> groupOfParam;
  std::vector<ParamGroup> groups;
};

} // namespace

/// The path of the module that holds `name`: "a.b" of "a.b.weight".
static StringRef getParent(StringRef name) {
  return name.contains('.') ? name.rsplit('.').first : "";
}

static bool isBelow(StringRef name, StringRef module) {
  return module.empty() || name == module ||
         (name.starts_with(module) && name[module.size()] == '.');
}

//===----------------------------------------------------------------------===//
// The model's modules
//===----------------------------------------------------------------------===//

/// Adds `path` and all modules around it but the root.
void Grouper::addModules(StringRef path) {
  for (size_t dot = path.find('.'); dot != StringRef::npos; dot = path.find('.', dot + 1))
    if (knownModules.insert(path.take_front(dot)).second)
      modules.push_back(path.take_front(dot).str());
  if (!path.empty() && knownModules.insert(path).second)
    modules.push_back(path.str());
}

void Grouper::collectModules(llvm::ArrayRef<std::string> others) {
  groupOfParam.assign(params.size(), kNoGroup);
  for (auto [index, param] : llvm::enumerate(params))
    for (StringRef name : param.names) {
      StringRef parent = getParent(name);
      addModules(parent);
      for (StringRef module = parent; !module.empty(); module = getParent(module)) {
        std::vector<unsigned> &below = paramsBelow[module];
        if (below.empty() || below.back() != index)
          below.push_back(index);
      }
    }
  for (StringRef module : others)
    addModules(module);
}

/// A block is a module X.<number> with a sibling X.<other number>, both with parameters; only the
/// outermost ones count.
std::vector<GroupRule> Grouper::getRepeatedBlocks() {
  llvm::StringMap<unsigned> numbered; // how many X.<number> hold parameters
  auto isNumbered = [](StringRef module) {
    auto [parent, last] = module.rsplit('.');
    return !last.empty() && llvm::all_of(last, llvm::isDigit);
  };
  for (StringRef module : modules)
    if (isNumbered(module) && paramsBelow.contains(module))
      ++numbered[getParent(module)];
  std::vector<GroupRule> rules;
  llvm::StringSet<> blocks;
  for (StringRef module : modules) {
    if (!isNumbered(module) || !paramsBelow.contains(module) || numbered[getParent(module)] < 2)
      continue;
    bool isInner = false;
    for (StringRef outer = getParent(module); !outer.empty(); outer = getParent(outer))
      isInner |= blocks.contains(outer);
    if (isInner)
      continue;
    blocks.insert(module);
    rules.push_back({{module.str()}, false, std::nullopt, {}});
  }
  return rules;
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

llvm::Error Grouper::fail(ConfigPlace place, const llvm::Twine &message) {
  if (place.line == 0)
    return llvm::createStringError(message);
  return llvm::make_error<ConfigError>(config.file, place, message.str());
}

std::string Grouper::describe(const Mention &mention) {
  return ("'" + mention.pattern + "' in line " + llvm::Twine(mention.place.line)).str();
}

std::string Grouper::getName(int group) {
  if (groups[group].modules.front().empty())
    return "the root group";
  return "group '" + llvm::join(groups[group].modules, ", ") + "'";
}

/// Modules that `pattern` names; `*` stands within one component of a path.
llvm::Expected<std::vector<std::string>> Grouper::match(StringRef pattern, ConfigPlace place) {
  if (knownModules.contains(pattern))
    return std::vector<std::string>{pattern.str()};
  llvm::Expected<ModulePattern> modulePattern = ModulePattern::create(pattern);
  if (!modulePattern)
    return fail(place, llvm::toString(modulePattern.takeError()));
  std::vector<std::string> found;
  for (StringRef module : modules)
    if (modulePattern->match(module))
      found.push_back(module.str());
  if (pattern.empty())
    return fail(place, "the root group is implied; its options stand under 'root'");
  if (found.empty())
    return fail(place, "pattern '" + pattern + "' matches no module of the model");
  return found;
}

llvm::Error Grouper::addGroup(llvm::ArrayRef<std::string> members, const GroupRule &rule) {
  ParamGroup group;
  group.modules.assign(members.begin(), members.end());
  group.reshardAfterForward =
      rule.reshardAfterForward.value_or(config.reshardAfterForward.value_or(Reshard::None));
  group.recompute = rule.recompute;
  group.offloadOptimizer = rule.offloadOptimizer;
  int takenBy = kNoGroup; // an earlier group of a module around one of these
  for (const std::string &module : members)
    for (unsigned param : paramsBelow.lookup(module)) {
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
    return llvm::Error::success();
  return fail(rule.place, "all parameters of '" + llvm::join(members, "', '") + "' are in " +
                              getName(takenBy) +
                              " already; name inner modules before outer ones, as fully_shard is "
                              "called bottom-up");
}

llvm::Error Grouper::applyRule(const GroupRule &rule) {
  std::vector<std::string> together;
  for (const std::string &pattern : rule.modules) {
    llvm::Expected<std::vector<std::string>> found = match(pattern, rule.place);
    if (!found)
      return found.takeError();
    for (const std::string &module : *found) {
      auto [it, isNew] = mentions.try_emplace(module, Mention{pattern, rule.place});
      if (!isNew)
        return fail(rule.place, "module '" + module + "' is given twice: by " +
                                    describe(it->second) + " and by " +
                                    describe({pattern, rule.place}));
      if (rule.isTogether)
        together.push_back(module);
      else if (llvm::Error error = addGroup(module, rule))
        return error;
    }
  }
  return rule.isTogether ? addGroup(together, rule) : llvm::Error::success();
}

void Grouper::addRoot() {
  ParamGroup root;
  root.modules = {""};
  root.reshardAfterForward =
      config.rootReshardAfterForward.value_or(config.reshardAfterForward.value_or(Reshard::None));
  root.recompute = config.rootRecompute;
  root.offloadOptimizer = config.rootOffloadOptimizer;
  for (auto [index, owner] : llvm::enumerate(groupOfParam))
    if (owner == kNoGroup) {
      owner = groups.size();
      root.params.push_back(index);
    }
  if (!root.params.empty())
    groups.push_back(std::move(root));
}

/// A shared parameter is gathered by one group only: all modules that hold it must lie in that.
llvm::Error Grouper::checkShared() {
  for (auto [param, owner] : llvm::zip_equal(params, groupOfParam)) {
    if (param.names.size() == 1)
      continue;
    for (StringRef name : param.names) {
      // The group that would take the parameter if this were its only name.
      int taker = kNoGroup;
      for (auto [index, group] : llvm::enumerate(groups))
        if (taker == kNoGroup &&
            llvm::any_of(group.modules, [&](StringRef module) { return isBelow(name, module); }))
          taker = index;
      if (taker == owner)
        continue;
      std::string where = taker == kNoGroup ? "no group" : getName(taker);
      return fail({}, "parameter '" + param.names.front() + "' of " + getName(owner) +
                          " is shared with '" + name + "' of " + where +
                          "; put all modules that share it into one group");
    }
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<ParamGroup>> Grouper::run() {
  for (const GroupRule &rule : config.groups ? *config.groups : getRepeatedBlocks())
    if (llvm::Error error = applyRule(rule))
      return error;
  addRoot();
  if (llvm::Error error = checkShared())
    return error;
  return std::move(groups);
}

llvm::Expected<std::vector<ParamGroup>> fsdp::groupParams(llvm::ArrayRef<NamedParam> params,
                                                          llvm::ArrayRef<std::string> modules,
                                                          const ShardingConfig &config) {
  return Grouper(params, modules, config).run();
}
