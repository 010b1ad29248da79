//===- SeparateGroups.cpp - Groups of parameters of one dtype -------------===//

#include "SeparateGroups.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

using namespace fsdp;
using llvm::StringRef;

/// True if the group is asked to gather the parameter as float8. On one rank nothing is gathered.
bool SeparateGroups::isFloat8(const ParamGroup &group, unsigned param) const {
  const auto asked = group.options.mixedPrecision.value_or(config.mixedPrecision).getFloat8();
  return asked && params[param].float8 == asked && group.options.mesh->axes.back().size > 1;
}

/// Trained parameters that are gathered as float8 form a separate group beside others.
void SeparateGroups::separateFloat8(ParamGroup &group) {
  auto isSeparate = [&](unsigned param) {
    return isFloat8(group, param) && !params[param].isFrozen;
  };
  auto isOther = [&](unsigned param) { return !isFloat8(group, param) && !params[param].isFrozen; };
  if (llvm::none_of(group.params, isSeparate) || llvm::none_of(group.params, isOther))
    return;
  ParamGroup float8 = group;
  llvm::erase_if(float8.params, [&](unsigned param) { return !isSeparate(param); });
  float8.isFloat8 = float8.isFloat8Part = true;
  llvm::erase_if(group.params, isSeparate);
  groups.push_back(std::move(float8));
}

/// A flat group is one buffer with the same parts for parameters and gradients, and any group has
/// one dtype. Frozen parameters that cannot be in their group therefore form separate groups.
void SeparateGroups::separateFrozen(ParamGroup &group) {
  const bool isFlat = config.layout.value_or(Layout::Flat) == Layout::Flat;
  llvm::stable_sort(group.params, [&](unsigned left, unsigned right) {
    return !params[left].isFrozen && params[right].isFrozen;
  });
  const NamedParam &first = params[group.params.front()];
  group.isFloat8 = isFloat8(group, group.params.front());
  auto fits = [&](unsigned param) {
    const NamedParam &other = params[param];
    return !other.isFrozen || (other.dtype == first.dtype && (first.isFrozen || !isFlat) &&
                               isFloat8(group, param) == group.isFloat8);
  };
  using Key = std::pair<StringRef, unsigned>; // dtype, and whether it is gathered as float8
  llvm::MapVector<Key, std::vector<unsigned>> others;
  for (unsigned param : group.params)
    if (!fits(param))
      others[{params[param].dtype, isFloat8(group, param)}].push_back(param);
  llvm::erase_if(group.params, [&](unsigned param) { return !fits(param); });
  for (auto &[key, members] : others) {
    ParamGroup frozen = group;
    frozen.params = std::move(members);
    frozen.isFrozenPart = true;
    frozen.isFloat8 = key.second;
    groups.push_back(std::move(frozen));
  }
}

std::vector<ParamGroup> SeparateGroups::run(std::vector<ParamGroup> whole) {
  for (ParamGroup &group : whole) {
    separateFloat8(group);
    separateFrozen(group);
    groups.push_back(std::move(group));
  }
  return std::move(groups);
}
