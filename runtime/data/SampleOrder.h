//===- SampleOrder.h - Which samples a rank reads at a step ------*- C++ -*-===//

#ifndef FSDP_RUNTIME_SAMPLEORDER_H
#define FSDP_RUNTIME_SAMPLEORDER_H

#include <cstdint>
#include <optional>

namespace fsdp::rt {

/// A pseudo-random permutation of 0, ..., size - 1 in constant memory: a Feistel network on the
/// next even number of bits, walked until it lands inside. The same on every machine for a given
/// seed.
class Permutation {
public:
  /// `size` is at least 1.
  Permutation(uint64_t size, uint64_t seed);
  /// The image of `position` < size; expected time O(1), at most four rounds of the network.
  uint64_t operator()(uint64_t position) const;

private:
  static constexpr unsigned kRounds = 6;
  uint64_t size;
  unsigned halfBits;
  uint64_t keys[kRounds];
};

/// With B samples per rank and W ranks, rank r at step t (from 0) reads positions (t * W + r) * B
/// to + B - 1 of an endless sequence: the file's samples again and again, each time in the same
/// order or, shuffled, in a new permutation that depends on the seed and the number of the pass. A
/// run that goes on from another batch size has an `origin`, which is added to these positions.
class SampleOrder {
public:
  SampleOrder(int64_t samples, int64_t batch, unsigned rank, unsigned worldSize,
              std::optional<uint64_t> shuffleSeed, int64_t origin = 0);
  /// The sample in place `index` of the rank's batch at `step`.
  int64_t sample(int64_t step, int64_t index);

private:
  int64_t samples, batch;
  unsigned rank, worldSize;
  std::optional<uint64_t> shuffleSeed;
  int64_t origin;
  int64_t permutationEpoch = -1; // of `permutation`
  Permutation permutation{1, 0};
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_SAMPLEORDER_H
