//===- ArenaPlanner.cpp - Place buffers with live ranges in one arena -----===//
//
// Three heuristics, several orders; the smallest arena wins, and is then improved while that pays:
//
// * First fit: each item takes the lowest hole that is free during its whole life. It looks at
// every
//   buffer placed before, so it is quadratic and runs while its number of steps stays in a budget.
// * Skyline: each item lies on top of whatever was placed before it during its life, a range
// maximum
//   over the program: O(n log n). Longest life first makes this tight for what is saved for
//   backward, which nests like a stack.
// * Layers: a skyline of the long-lived items, and first fit of the others above it, which looks
// only
//   at buffers near in time: linear in the number of buffers.
//
// Improvement ("squeaky wheel"): the items that reach beyond the lower bound are placed earlier in
// the next attempt of first fit, the more often the more so.
//
//===----------------------------------------------------------------------===//

#include "fsdp/Plan/ArenaPlanner.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <unordered_map>

using namespace fsdp::plan;

namespace {

/// A part of an item: one buffer, at its place within the item.
struct Part {
  int64_t begin, size; // bytes, relative to the item; aligned
  int64_t first, last; // positions
  int64_t buffer;      // index in the input
};

/// What is placed as a whole: one buffer, or a bundle of them.
struct Item {
  size_t firstPart, numParts;
  int64_t size;        // bytes, from the first part's beginning to the last one's end
  int64_t first, last; // positions, over all parts
  int64_t area;        // byte-positions
};

struct Problem {
  std::vector<Part> parts; // by item
  std::vector<Item> items;
  int64_t numPositions = 0;
  int64_t peakLiveBytes = 0;

  std::span<const Part> partsOf(const Item &item) const {
    return std::span(parts).subspan(item.firstPart, item.numParts);
  }
};

/// The steps that first fit may take over all its attempts: about 0.1 s.
constexpr int64_t kFirstFitBudget = 100'000'000;
/// Attempts in a row that do not improve the best plan, after which to leave it at that.
constexpr int kPatience = 200;

} // namespace

static Problem makeProblem(std::span<const BufferRange> buffers) {
  Problem problem;
  std::unordered_map<int64_t, size_t> itemOfBundle;
  std::vector<std::vector<Part>> parts;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferRange &buffer = buffers[i];
    assert(buffer.first >= 0 && buffer.first <= buffer.last && buffer.sizeBytes >= 0);
    assert(buffer.bundleOffset % kArenaAlignmentBytes == 0);
    problem.numPositions = std::max(problem.numPositions, buffer.last + 1);
    if (buffer.sizeBytes == 0 && buffer.bundle < 0)
      continue;
    size_t item = parts.size();
    if (buffer.bundle >= 0)
      item = itemOfBundle.try_emplace(buffer.bundle, item).first->second;
    if (item == parts.size())
      parts.emplace_back();
    parts[item].push_back({buffer.bundleOffset, alignToArena(buffer.sizeBytes), buffer.first,
                           buffer.last, static_cast<int64_t>(i)});
  }
  for (std::vector<Part> &itemParts : parts) {
    std::ranges::sort(itemParts, {}, &Part::begin);
    Item item{problem.parts.size(), itemParts.size(), 0, problem.numPositions, 0, 0};
    for (const Part &part : itemParts) {
      item.size = std::max(item.size, part.begin + part.size);
      item.first = std::min(item.first, part.first);
      item.last = std::max(item.last, part.last);
      item.area += part.size * (part.last - part.first + 1);
      problem.parts.push_back(part);
    }
    problem.items.push_back(item);
  }
  std::vector<int64_t> change(problem.numPositions + 1);
  for (const Part &part : problem.parts) {
    change[part.first] += part.size;
    change[part.last + 1] -= part.size;
  }
  int64_t live = 0;
  for (int64_t delta : change)
    problem.peakLiveBytes = std::max(problem.peakLiveBytes, live += delta);
  return problem;
}

//===----------------------------------------------------------------------===//
// Skyline
//===----------------------------------------------------------------------===//

namespace {

/// The height of what is placed at each position, as a segment tree.
class Skyline {
public:
  explicit Skyline(int64_t numPositions) {
    while (width < numPositions)
      width *= 2;
    highest.resize(2 * width);
    floor.resize(2 * width);
  }

  int64_t heightOver(int64_t first, int64_t last) const {
    return query(1, 0, width - 1, first, last);
  }
  /// Raises the positions to `height` where they are lower.
  void raise(int64_t first, int64_t last, int64_t height) {
    update(1, 0, width - 1, first, last, height);
  }

private:
  int64_t query(int64_t node, int64_t low, int64_t high, int64_t first, int64_t last) const {
    if (first <= low && high <= last)
      return highest[node];
    int64_t middle = (low + high) / 2, height = floor[node];
    if (first <= middle)
      height = std::max(height, query(2 * node, low, middle, first, last));
    if (last > middle)
      height = std::max(height, query(2 * node + 1, middle + 1, high, first, last));
    return height;
  }
  void update(int64_t node, int64_t low, int64_t high, int64_t first, int64_t last,
              int64_t height) {
    highest[node] = std::max(highest[node], height);
    if (first <= low && high <= last) {
      floor[node] = std::max(floor[node], height);
      return;
    }
    int64_t middle = (low + high) / 2;
    if (first <= middle)
      update(2 * node, low, middle, first, last, height);
    if (last > middle)
      update(2 * node + 1, middle + 1, high, first, last, height);
  }

  int64_t width = 1;
  std::vector<int64_t> highest; // of any position below the node
  std::vector<int64_t> floor;   // of every position below the node
};

} // namespace

/// The lowest base of an item that lies above the skyline with all its parts.
static int64_t getBaseAbove(const Skyline &skyline, std::span<const Part> parts) {
  int64_t base = 0;
  for (const Part &part : parts)
    base = std::max(base, skyline.heightOver(part.first, part.last) - part.begin);
  return base;
}

/// Stacks the items in this order.
static Skyline stack(const Problem &problem, std::span<const size_t> order,
                     std::vector<int64_t> &bases) {
  Skyline skyline(problem.numPositions);
  for (size_t index : order) {
    std::span<const Part> parts = problem.partsOf(problem.items[index]);
    int64_t base = bases[index] = getBaseAbove(skyline, parts);
    for (const Part &part : parts)
      skyline.raise(part.first, part.last, base + part.begin + part.size);
  }
  return skyline;
}

//===----------------------------------------------------------------------===//
// First fit
//===----------------------------------------------------------------------===//

namespace {

class FirstFit {
public:
  /// Places items above `floor`. An item looks only at the blocks of `blockPositions` positions
  /// that it is live in.
  FirstFit(const Problem &problem, const Skyline &floor, int64_t blockPositions, int64_t &budget)
      : problem(problem), floor(floor), blockPositions(blockPositions), budget(budget),
        blocks((problem.numPositions + blockPositions - 1) / blockPositions) {}

  /// Places the items in this order. False if the budget is used up.
  bool run(std::span<const size_t> order, std::vector<int64_t> &bases);

private:
  struct Placed {
    int64_t begin, end;  // bytes
    int64_t first, last; // positions
  };
  using Block = std::vector<Placed>; // by begin

  std::span<Block> blocksOf(const Part &part) {
    int64_t first = part.first / blockPositions, last = part.last / blockPositions;
    return std::span(blocks).subspan(first, last - first + 1);
  }
  int64_t place(const Part &part, int64_t base);
  int64_t placeBundle(std::span<const Part> parts, int64_t base);

  const Problem &problem;
  const Skyline &floor;
  int64_t blockPositions;
  int64_t &budget;
  std::vector<Block> blocks;
  Block scratch;
  std::vector<std::pair<int64_t, int64_t>> forbidden;
};

} // namespace

bool FirstFit::run(std::span<const size_t> order, std::vector<int64_t> &bases) {
  for (size_t index : order) {
    std::span<const Part> parts = problem.partsOf(problem.items[index]);
    int64_t base = getBaseAbove(floor, parts);
    base = parts.size() == 1 ? place(parts.front(), base) : placeBundle(parts, base);
    if (budget < 0)
      return false;
    bases[index] = base;
    for (const Part &part : parts) {
      Placed placed{base + part.begin, base + part.begin + part.size, part.first, part.last};
      for (Block &block : blocksOf(part))
        block.insert(std::ranges::upper_bound(block, placed.begin, {}, &Placed::begin), placed);
    }
  }
  return true;
}

int64_t FirstFit::place(const Part &part, int64_t base) {
  std::span<Block> near = blocksOf(part);
  const Block *candidates = &near.front();
  if (near.size() > 1) {
    scratch.clear();
    for (const Block &block : near)
      scratch.insert(scratch.end(), block.begin(), block.end());
    std::ranges::sort(scratch, {}, &Placed::begin);
    candidates = &scratch;
    budget -= static_cast<int64_t>(4 * scratch.size());
  }
  int64_t seen = 0;
  for (const Placed &other : *candidates) {
    ++seen;
    if (other.first > part.last || other.last < part.first)
      continue;
    if (other.begin - base >= part.size)
      break;
    base = std::max(base, other.end);
  }
  budget -= seen;
  return base;
}

int64_t FirstFit::placeBundle(std::span<const Part> parts, int64_t base) {
  // Bases between low and high collide.
  forbidden.clear();
  for (const Part &part : parts)
    for (const Block &block : blocksOf(part)) {
      budget -= static_cast<int64_t>(block.size());
      for (const Placed &other : block)
        if (other.first <= part.last && part.first <= other.last)
          forbidden.emplace_back(other.begin - part.begin - part.size, other.end - part.begin);
    }
  std::ranges::sort(forbidden);
  for (auto [low, high] : forbidden) {
    if (low >= base)
      break;
    base = std::max(base, high);
  }
  return base;
}

//===----------------------------------------------------------------------===//
// The best of all
//===----------------------------------------------------------------------===//

namespace {

class Search {
public:
  explicit Search(const Problem &problem)
      : problem(problem), ground(problem.numPositions), bases(problem.items.size()),
        best(problem.items.size()) {}

  std::vector<int64_t> run();

private:
  /// The items, those with the largest key first, equal ones in their order.
  template <typename Key> std::vector<size_t> sortBy(Key key) const {
    std::vector<size_t> order(problem.items.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](size_t a, size_t b) {
      auto keyA = key(a), keyB = key(b);
      return keyA != keyB ? keyA > keyB : a < b;
    });
    return order;
  }
  /// Within a thousandth of the lower bound nothing is worth more time.
  bool isTight() const { return bestBytes - problem.peakLiveBytes <= problem.peakLiveBytes / 1000; }
  /// Takes `bases` if it is the best so far.
  bool keepIfBetter();
  int64_t getLife(size_t item) const {
    return problem.items[item].last - problem.items[item].first + 1;
  }
  bool runFirstFit(std::span<const size_t> order) {
    return FirstFit(problem, ground, problem.numPositions, budget).run(order, bases);
  }
  void trySkyline(std::span<const size_t> order);
  /// Items that live longer than `longestLife` are stacked by life, the others fitted in this
  /// order.
  void tryLayers(std::span<const size_t> byLife, std::span<const size_t> order,
                 int64_t longestLife);
  bool tryFirstFit(std::span<const size_t> order) {
    return !isTight() && runFirstFit(order) && keepIfBetter();
  }
  void improve(std::vector<size_t> order);

  const Problem &problem;
  int64_t budget = kFirstFitBudget;
  const Skyline ground;             // nothing placed yet
  std::vector<int64_t> bases, best; // by item
  int64_t bestBytes = INT64_MAX;
};

} // namespace

bool Search::keepIfBetter() {
  int64_t bytes = 0;
  for (size_t i = 0; i < problem.items.size(); ++i)
    bytes = std::max(bytes, bases[i] + problem.items[i].size);
  if (bytes >= bestBytes)
    return false;
  bestBytes = bytes;
  best = bases;
  return true;
}

void Search::improve(std::vector<size_t> order) {
  std::vector<int64_t> rank(order.size()); // by item: larger is placed earlier
  for (size_t i = 0; i < order.size(); ++i)
    rank[order[i]] = static_cast<int64_t>(order.size() - i);
  for (int idle = 0; idle < kPatience && !isTight() && budget > 0; ++idle) {
    if (!runFirstFit(order))
      return;
    if (keepIfBetter())
      idle = 0;
    // How far an item moves ahead changes from attempt to attempt, so that none is repeated.
    int64_t push = static_cast<int64_t>(order.size()) / (2 + idle % 13) + 1;
    for (size_t i = 0; i < order.size(); ++i)
      if (bases[i] + problem.items[i].size > problem.peakLiveBytes)
        rank[i] += push;
    order = sortBy([&](size_t i) { return rank[i]; });
  }
}

void Search::trySkyline(std::span<const size_t> order) {
  if (isTight())
    return;
  stack(problem, order, bases);
  keepIfBetter();
}

void Search::tryLayers(std::span<const size_t> byLife, std::span<const size_t> order,
                       int64_t longestLife) {
  if (isTight() || longestLife >= problem.numPositions)
    return;
  auto firstShort =
      std::ranges::find_if(byLife, [&](size_t i) { return getLife(i) <= longestLife; });
  Skyline floor = stack(problem, std::span(byLife.begin(), firstShort), bases);
  std::vector<size_t> shortLived;
  std::ranges::copy_if(order, std::back_inserter(shortLived),
                       [&](size_t i) { return getLife(i) <= longestLife; });
  // Near in time, first fit takes few steps, so that it need not be counted.
  int64_t unlimited = INT64_MAX;
  if (FirstFit(problem, floor, longestLife, unlimited).run(shortLived, bases))
    keepIfBetter();
}

std::vector<int64_t> Search::run() {
  std::vector<size_t> byLife =
      sortBy([&](size_t i) { return std::tuple(getLife(i), problem.items[i].size); });
  std::vector<size_t> byArea = sortBy([&](size_t i) { return problem.items[i].area; });
  std::vector<size_t> bySize =
      sortBy([&](size_t i) { return std::tuple(problem.items[i].size, getLife(i)); });
  trySkyline(byLife);
  for (int64_t longestLife : {512, 2048})
    for (std::vector<size_t> *order : {&bySize, &byArea})
      tryLayers(byLife, *order, longestLife);
  std::vector<size_t> *start = &bySize;
  for (std::vector<size_t> *order : {&bySize, &byLife, &byArea})
    if (tryFirstFit(*order))
      start = order;
  improve(*start);
  return best;
}

ArenaPlan fsdp::plan::planArena(std::span<const BufferRange> buffers) {
  Problem problem = makeProblem(buffers);
  ArenaPlan plan;
  plan.offsets.resize(buffers.size());
  plan.peakLiveBytes = problem.peakLiveBytes;
  std::vector<int64_t> bases = Search(problem).run();
  for (size_t i = 0; i < problem.items.size(); ++i)
    for (const Part &part : problem.partsOf(problem.items[i])) {
      plan.offsets[part.buffer] = bases[i] + part.begin;
      plan.arenaBytes = std::max(plan.arenaBytes, bases[i] + part.begin + part.size);
    }
  return plan;
}
