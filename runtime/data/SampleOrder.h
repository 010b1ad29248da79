//===- SampleOrder.h - The samples that a rank reads at a step -*- C++ -*-===//

#ifndef FSDP_RUNTIME_SAMPLEORDER_H
#define FSDP_RUNTIME_SAMPLEORDER_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace fsdp::rt {

/// A pseudo-random permutation of 0, ..., size - 1 in constant memory: a Feistel network on the
/// next even number of bits, repeated until the value is below `size`. It is the same on every
/// machine for a given seed.
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

/// Passes over 0, ..., size - 1, one after another: each in ascending order or, with a seed, in a
/// permutation of its own.
class Passes {
public:
  Passes(int64_t size, std::optional<uint64_t> shuffleSeed)
      : size(size), shuffleSeed(shuffleSeed) {}
  /// The element at `position` of the endless sequence.
  int64_t operator()(int64_t position);

private:
  int64_t size;
  std::optional<uint64_t> shuffleSeed;
  int64_t permutationPass = -1; // the pass that `permutation` is for
  Permutation permutation{1, 0};
};

/// Divides samples into training samples and held-out ones. The data are cut into as many parts as
/// samples are held out, whose lengths differ by at most one, and the seed chooses one sample of
/// each part. So held-out samples are spread over all data, and training samples keep their order.
class SampleSplit {
public:
  /// Holds out `fraction`, above 0 and at most 1/2, of `samples`, rounded down.
  SampleSplit(int64_t samples, double fraction, uint64_t seed);
  int64_t heldOut() const { return parts; }
  int64_t training() const { return samples - parts; }
  /// Held-out sample number `index`, from 0.
  int64_t heldOutSample(int64_t index) const;
  /// Training sample number `index`, from 0.
  int64_t trainingSample(int64_t index) const;

private:
  /// The first sample of a part.
  int64_t beginOf(int64_t part) const;

  int64_t samples, parts;
  uint64_t seed;
};

/// With B samples per rank and W ranks, rank r at step t (from 0) reads positions (t * W + r) * B
/// to + B - 1 of an endless sequence: the file's samples repeated, each time in the same order or,
/// shuffled, in a new permutation that depends on the seed and the number of the pass. A run that
/// resumes with another batch size has an `origin`, which is added to these positions.
class SampleOrder {
public:
  SampleOrder(int64_t samples, int64_t batch, unsigned rank, unsigned worldSize,
              std::optional<uint64_t> shuffleSeed, int64_t origin = 0);
  /// Sample `index` of the rank's batch at `step`.
  int64_t sample(int64_t step, int64_t index);

private:
  int64_t batch;
  unsigned rank, worldSize;
  int64_t origin;
  Passes passes;
};

/// Decides, for a run with several shapes, which shape each step has and which batch of that
/// shape's data it reads. A pass has one step for each full batch (of all ranks) in the data of
/// each shape: first the steps of the first shape, then those of the second, and so on; or,
/// shuffled, all steps in a permutation that depends on the seed and the number of the pass.
/// Batches of a shape are read by SampleOrder, one after another over all passes, permuted with
/// their steps.
class ShapeOrder {
public:
  /// `batches`: for each shape, at least 1.
  ShapeOrder(const std::vector<int64_t> &batches, std::optional<uint64_t> shuffleSeed);

  struct Place {
    size_t shape;
    int64_t batch; // step number in the shape's SampleOrder
    bool operator==(const Place &) const = default;
  };
  /// The shape and batch of step `step`, from 0. With one shape the batch is the step itself.
  Place at(int64_t step);
  int64_t stepsPerPass() const { return ends.back(); }

private:
  std::vector<int64_t> ends; // for each shape: steps of an unshuffled pass up to its end
  Passes passes;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_SAMPLEORDER_H
