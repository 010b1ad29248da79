//===- Draws.h - Reproducible random numbers -------------------*- C++ -*-===//

#ifndef FSDP_LIB_SCHEDULE_DRAWS_H
#define FSDP_LIB_SCHEDULE_DRAWS_H

#include <cstddef>
#include <cstdint>
#include <random>

namespace fsdp::schedule {

/// Random numbers that are the same with every standard library.
class Draws {
public:
  explicit Draws(uint64_t seed) : generator(seed) {}
  size_t below(size_t end) { return size_t(generator() % end); }
  double fraction() { return double(generator() >> 11) * 0x1p-53; }

private:
  std::mt19937_64 generator;
};

} // namespace fsdp::schedule

#endif // FSDP_LIB_SCHEDULE_DRAWS_H
