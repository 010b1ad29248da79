//===- SampleOrder.cpp - Which samples a rank reads at a step -------------===//

#include "data/SampleOrder.h"

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

SampleOrder::SampleOrder(int64_t samples, int64_t batch, unsigned rank, unsigned worldSize,
                         std::optional<uint64_t> shuffleSeed, int64_t origin)
    : samples(samples), batch(batch), rank(rank), worldSize(worldSize), shuffleSeed(shuffleSeed),
      origin(origin) {}

int64_t SampleOrder::sample(int64_t step, int64_t index) {
  int64_t position = origin + (step * worldSize + rank) * batch + index;
  int64_t epoch = position / samples, place = position % samples;
  if (!shuffleSeed)
    return place;
  if (epoch != permutationEpoch) {
    permutation = Permutation(static_cast<uint64_t>(samples),
                              mix(*shuffleSeed) ^ static_cast<uint64_t>(epoch));
    permutationEpoch = epoch;
  }
  return static_cast<int64_t>(permutation(static_cast<uint64_t>(place)));
}
