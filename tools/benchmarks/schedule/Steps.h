//===- Steps.h - One training step of a model on a mesh -----------*- C++ -*-===//

#ifndef FSDP_BENCHMARKS_SCHEDULE_STEPS_H
#define FSDP_BENCHMARKS_SCHEDULE_STEPS_H

#include "Models.h"
#include "fsdp/Schedule/Problem.h"

namespace fsdp::benchmark {

/// How many operations a block becomes. Captured transformer layers have about 60 forward and 120
/// backward operations, most of them short.
struct Granularity {
  int forward = 60, backward = 120;
};
inline constexpr Granularity kFine{}, kCoarse{4, 4};

struct Deployment {
  int ranks = 8;
  bool recompute = false;     // each block's forward again in the backward
  bool reduceInFp32 = false;  // gradients twice as large as parameters
  bool clipGradients = false; // the first update waits for all reductions
  bool oneLane = false;
  double laneContention = 1, computeContention = 1;
  int replicas = 0;           // of a hybrid mesh: reductions pay for an all-reduce as well
  int microbatches = 1;       // gradients are reduced in the last
  double networkSlowdown = 1; // against NVLink and its multi-node fabric
  double stateBytesPerParameter = 16;
  Granularity granularity = {};
};

/// Device: 600 TFLOP/s in matrix products, 2.5 TB/s of memory, as an H100 sustains; collectives at
/// 360 GB/s of bus bandwidth within a node of 8, 300 GB/s beyond it.
schedule::Problem makeStep(const Model &model, const Deployment &deployment);

} // namespace fsdp::benchmark

#endif // FSDP_BENCHMARKS_SCHEDULE_STEPS_H
