//===- Label.cpp - A partial plan -----------------------------------------===//

#include "Label.h"

#include <algorithm>
#include <limits>

using namespace fsdp::schedule;

static constexpr double kDropped = std::numeric_limits<double>::infinity();

double Label::arrivalNs(uint32_t use) const {
  for (const InFlight &bucket : gathers)
    if (bucket.members & setOf(use))
      return bucket.endNs;
  return nowNs;
}

static uint64_t hashSets(const Label &label) {
  uint64_t hash = 0;
  auto add = [&](uint64_t value) { hash = (hash ^ (hash >> 29) ^ value) * 0xbf58476d1ce4e5b9u; };
  add(label.present);
  add(label.ready);
  for (const InFlight &bucket : label.reductions)
    add(bucket.members);
  return hash;
}

static bool haveSameSets(const Label &a, const Label &b) {
  return a.present == b.present && a.ready == b.ready &&
         std::equal(a.reductions.begin(), a.reductions.end(), b.reductions.begin(),
                    b.reductions.end(),
                    [](const InFlight &x, const InFlight &y) { return x.members == y.members; });
}

/// True if every plan of `b`, which has the same sets, is no slower if it begins like `a`. A lane
/// is free when its last collective in flight ends.
static bool isNoLater(const Label &a, const Label &b) {
  if (a.nowNs > b.nowNs || (b.optional & ~a.optional) != 0)
    return false;
  for (size_t i = 0; i < a.reductions.size(); ++i)
    if (a.reductions[i].endNs > b.reductions[i].endNs)
      return false;
  bool isLater = false;
  for (const InFlight &bucket : a.gathers)
    forEachMember(bucket.members,
                  [&](uint32_t use) { isLater |= bucket.endNs > b.arrivalNs(use); });
  return !isLater;
}

void LabelLayer::add(Label &&label) {
  std::vector<uint32_t> &same = bySets[hashSets(label)];
  for (uint32_t index : same)
    if (haveSameSets(labels[index], label) && isNoLater(labels[index], label))
      return;
  std::erase_if(same, [&](uint32_t index) {
    Label &other = labels[index];
    if (!haveSameSets(other, label) || !isNoLater(label, other))
      return false;
    other.boundNs = kDropped;
    return true;
  });
  same.push_back(uint32_t(labels.size()));
  labels.push_back(std::move(label));
}

std::vector<Label> LabelLayer::take() {
  std::vector<Label> result = std::move(labels);
  std::erase_if(result, [](const Label &label) { return label.boundNs == kDropped; });
  labels.clear();
  bySets.clear();
  return result;
}

double LabelLayer::leastBoundNs(double otherwise) const {
  for (const Label &label : labels)
    otherwise = std::min(otherwise, label.boundNs);
  return otherwise;
}
