//===- Steps.h - One training step of a model on a mesh -----------*- C++ -*-===//
//
// Analytic models of training steps: parameters, arithmetic and bytes of each block, and the
// scheduling problem of a step on a mesh.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_BENCHMARKS_SCHEDULE_STEPS_H
#define FSDP_BENCHMARKS_SCHEDULE_STEPS_H

#include "fsdp/Schedule/Problem.h"

namespace fsdp::benchmark {

struct Block {
  double parameters = 0;
  double forwardFlops = 0;
  double savedBytes = 0;     // for the backward
  double temporaryBytes = 0; // while its heaviest operations run
  double inputBytes = 0;     // kept instead of savedBytes with recomputation
};

struct Model {
  std::vector<Block> blocks;
  double embeddingParameters = 0, headParameters = 0;
  double tokens = 0, hidden = 0; // tokens of a rank's microbatch
  double logitBytes = 0;
};

/// Llama-3-8B with `layers` layers.
Model makeDecoder(int layers, double tokens);

/// The number of operations of a block. Captured transformer layers have about 60 forward and 120
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
  double stateBytesPerParameter = 16;
  Granularity granularity = {};
};

/// Device: 600 TFLOP/s in matrix products, 2.5 TB/s of memory, as an H100 sustains; collectives at
/// 360 GB/s of bus bandwidth within a node of 8, 300 GB/s beyond it.
schedule::Problem makeStep(const Model &model, const Deployment &deployment);

} // namespace fsdp::benchmark

#endif // FSDP_BENCHMARKS_SCHEDULE_STEPS_H
