//===- SampleOrder.cpp - The samples that a rank reads at a step ----------===//

#include "data/SampleOrder.h"

#include <algorithm>
#include <bit>

using namespace fsdp::rt;

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

Permutation::Permutation(uint64_t size, uint64_t seed)
    : size(size), halfBits((static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2) {
  for (uint64_t &key : keys)
    key = seed = mix(seed);
}

uint64_t Permutation::operator()(uint64_t position) const {
  const uint64_t mask = (uint64_t{1} << halfBits) - 1;
  do {
    uint64_t left = position >> halfBits, right = position & mask;
    for (uint64_t key : keys) {
      uint64_t next = left ^ (mix(right ^ key) & mask);
      left = right;
      right = next;
    }
    position = left << halfBits | right;
  } while (position >= size);
  return position;
}

int64_t Passes::operator()(int64_t position) {
  const int64_t pass = position / size, place = position % size;
  if (!shuffleSeed)
    return place;
  if (pass != permutationPass) {
    permutation =
        Permutation(static_cast<uint64_t>(size), mix(*shuffleSeed) ^ static_cast<uint64_t>(pass));
    permutationPass = pass;
  }
  return static_cast<int64_t>(permutation(static_cast<uint64_t>(place)));
}

SampleOrder::SampleOrder(int64_t samples, int64_t batch, unsigned rank, unsigned worldSize,
                         std::optional<uint64_t> shuffleSeed, int64_t origin)
    : batch(batch), rank(rank), worldSize(worldSize), origin(origin), passes(samples, shuffleSeed) {
}

int64_t SampleOrder::sample(int64_t step, int64_t index) {
  return passes(origin + (step * worldSize + rank) * batch + index);
}

SampleSplit::SampleSplit(int64_t samples, double fraction, uint64_t seed)
    : samples(samples), parts(static_cast<int64_t>(fraction * static_cast<double>(samples))),
      seed(mix(seed ^ 0x9d5c7a1b03e4f268u)) {}

int64_t SampleSplit::beginOf(int64_t part) const {
  return static_cast<int64_t>(static_cast<__int128>(part) * samples / parts);
}

int64_t SampleSplit::heldOutSample(int64_t index) const {
  const int64_t begin = beginOf(index), length = beginOf(index + 1) - begin;
  return begin + static_cast<int64_t>(mix(seed + static_cast<uint64_t>(index)) %
                                      static_cast<uint64_t>(length));
}

int64_t SampleSplit::trainingSample(int64_t index) const {
  if (parts == 0)
    return index;
  // Each earlier part holds out one sample; a part has at least two samples.
  auto before = [&](int64_t part) { return beginOf(part) - part; };
  auto part = static_cast<int64_t>(static_cast<__int128>(index) * parts / training());
  while (part > 0 && before(part) > index)
    --part;
  while (part + 1 < parts && before(part + 1) <= index)
    ++part;
  const int64_t sample = index + part;
  return sample + (sample >= heldOutSample(part) ? 1 : 0);
}

static std::vector<int64_t> sumsOf(const std::vector<int64_t> &counts) {
  std::vector<int64_t> sums;
  for (int64_t count : counts)
    sums.push_back((sums.empty() ? 0 : sums.back()) + count);
  return sums;
}

ShapeOrder::ShapeOrder(const std::vector<int64_t> &batches, std::optional<uint64_t> shuffleSeed)
    : ends(sumsOf(batches)), passes(ends.back(), shuffleSeed) {}

ShapeOrder::Place ShapeOrder::at(int64_t step) {
  if (ends.size() == 1)
    return {0, step};
  const int64_t slot = passes(step);
  const auto shape = static_cast<size_t>(std::ranges::upper_bound(ends, slot) - ends.begin());
  const int64_t begin = shape == 0 ? 0 : ends[shape - 1];
  return {shape, step / ends.back() * (ends[shape] - begin) + slot - begin};
}
