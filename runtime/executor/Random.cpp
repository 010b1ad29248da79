//===- Random.cpp - Random numbers of an operator -------------------------===//

#include "executor/Random.h"

#include <ATen/CPUGeneratorImpl.h>

using namespace fsdp::rt;

static std::mutex generatorMutex;

/// splitmix64: neighbouring inputs give unrelated outputs.
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t fsdp::rt::drawSeed(uint64_t seed, int64_t step, unsigned rank, int64_t position) {
  uint64_t state = mix(seed);
  state = mix(state ^ static_cast<uint64_t>(step));
  state = mix(state ^ rank);
  return mix(state ^ static_cast<uint64_t>(position));
}

RandomDraw::RandomDraw(uint64_t seed, int64_t step, unsigned rank, int64_t position)
    : RandomDraw(drawSeed(seed, step, rank, position)) {}

RandomDraw::RandomDraw(uint64_t drawSeed) : lock(generatorMutex) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard generatorLock(generator.mutex());
  generator.set_current_seed(drawSeed);
}
