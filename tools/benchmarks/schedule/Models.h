//===- Models.h - Shapes of models, from figures about their layers -*- C++ -*-===//
//
// Analytic stand-ins for captured steps: parameters, arithmetic and bytes of each block. A step of
// one on a mesh becomes a scheduling problem (Steps.h).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_BENCHMARKS_SCHEDULE_MODELS_H
#define FSDP_BENCHMARKS_SCHEDULE_MODELS_H

#include <string>
#include <vector>

namespace fsdp::benchmark {

struct Block {
  double parameters = 0;
  double forwardFlops = 0;
  double savedBytes = 0;     // for the backward
  double temporaryBytes = 0; // while its heaviest operations run
  double inputBytes = 0;     // what recomputation keeps instead of savedBytes
};

struct Model {
  std::vector<Block> blocks;
  double embeddingParameters = 0, headParameters = 0;
  double tokens = 0, hidden = 0; // of a rank's microbatch
  double logitBytes = 0;
};

struct DecoderShape {
  int layers;
  double hidden, feedForward, keyValue, vocabulary;
};
inline constexpr DecoderShape kLlama8B{32, 4096, 14336, 1024, 128256};
inline constexpr DecoderShape kLlama70B{80, 8192, 28672, 1024, 128256};
inline constexpr DecoderShape kLlama405B{126, 16384, 53248, 1024, 128256};

/// `chunkedLoss`: the logits of a twelfth of the tokens at a time.
Model makeLlama(const DecoderShape &shape, double tokens, bool chunkedLoss);
Model makeGpt2(int layers, double hidden, double tokens);
/// Attention and experts are groups of their own; `activeExperts` of `experts` work per token.
Model makeMixtureOfExperts(int layers, double hidden, double feedForward, int experts,
                           int activeExperts, double tokens);
/// Parameters grow and pixels shrink towards the middle.
Model makeUnet(int blocks, double pixels);
/// Narrower towards the end.
Model makeVisionTransformer(int blocks, double tokens);

} // namespace fsdp::benchmark

#endif // FSDP_BENCHMARKS_SCHEDULE_MODELS_H
