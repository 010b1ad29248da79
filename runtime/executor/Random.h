//===- Random.h - Random numbers of an operator --------------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_RANDOM_H
#define FSDP_RUNTIME_RANDOM_H

#include <cstdint>
#include <mutex>

namespace fsdp::rt {

/// The seed of a draw, determined by seed, step, rank and position.
uint64_t drawSeed(uint64_t seed, int64_t step, unsigned rank, int64_t position);

/// Seeds torch's default CPU generator for a draw, and keeps other threads from drawing for the
/// life of the object. The same four arguments give the same draw.
class RandomDraw {
public:
  RandomDraw(uint64_t seed, int64_t step, unsigned rank, int64_t position);
  explicit RandomDraw(uint64_t drawSeed);

private:
  std::unique_lock<std::mutex> lock;
};

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RANDOM_H
