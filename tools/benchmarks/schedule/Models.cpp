//===- Models.cpp - Shapes of models, from figures about their layers -----===//

#include "Models.h"

#include <cmath>

using namespace fsdp::benchmark;

namespace {
constexpr double kBf16 = 2; // bytes
/// Logits in bf16, their softmax and its gradient in fp32, partly in place.
constexpr double kLogitBytesPerElement = 6;
} // namespace

Model fsdp::benchmark::makeLlama(const DecoderShape &shape, double tokens, bool chunkedLoss) {
  double h = shape.hidden, ffn = shape.feedForward, kv = shape.keyValue;
  Block block;
  block.parameters = 2 * h * h + 2 * h * kv + 3 * h * ffn + 2 * h;
  block.forwardFlops = 2 * block.parameters * tokens + 2 * tokens * tokens * h;
  block.savedBytes = tokens * (10 * h + 2 * kv + 3 * ffn) * kBf16;
  block.temporaryBytes = tokens * (2 * h + ffn);
  block.inputBytes = tokens * h * kBf16;
  Model model;
  model.blocks.assign(size_t(shape.layers), block);
  model.embeddingParameters = shape.vocabulary * h;
  model.headParameters = shape.vocabulary * h + h;
  model.tokens = tokens;
  model.hidden = h;
  model.logitBytes = tokens * shape.vocabulary * kLogitBytesPerElement / (chunkedLoss ? 12 : 1);
  return model;
}

Model fsdp::benchmark::makeGpt2(int layers, double hidden, double tokens) {
  double parameters = 12 * hidden * hidden + 13 * hidden;
  Model model;
  model.blocks.assign(size_t(layers),
                      {.parameters = parameters,
                       .forwardFlops = 2 * parameters * tokens + 2 * tokens * 1024 * hidden,
                       .savedBytes = tokens * hidden * 34,
                       .temporaryBytes = tokens * hidden * 8,
                       .inputBytes = tokens * hidden * kBf16});
  model.embeddingParameters = (50304 + 1024) * hidden;
  model.headParameters = 50304 * hidden;
  model.tokens = tokens;
  model.hidden = hidden;
  model.logitBytes = tokens * 50304 * kLogitBytesPerElement;
  return model;
}

Model fsdp::benchmark::makeMixtureOfExperts(int layers, double hidden, double feedForward,
                                            int experts, int activeExperts, double tokens) {
  double attention = 4 * hidden * hidden, expert = 3 * hidden * feedForward;
  Model model;
  for (int layer = 0; layer < layers; ++layer) {
    model.blocks.push_back({.parameters = attention + hidden * experts,
                            .forwardFlops = 2 * attention * tokens + 2 * tokens * 4096 * hidden,
                            .savedBytes = tokens * hidden * 16,
                            .temporaryBytes = tokens * hidden * 4,
                            .inputBytes = tokens * hidden * kBf16});
    // Every other layer is (nearly) dense.
    int present = layer % 2 || layers < 4 ? experts : 2;
    model.blocks.push_back(
        {.parameters = expert * present,
         .forwardFlops = 2 * expert * activeExperts * tokens,
         .savedBytes = tokens * activeExperts * (2 * feedForward + hidden) * kBf16,
         .temporaryBytes = tokens * activeExperts * hidden * 4,
         .inputBytes = tokens * hidden * kBf16});
  }
  model.embeddingParameters = model.headParameters = 32000 * hidden;
  model.tokens = tokens;
  model.hidden = hidden;
  model.logitBytes = tokens * 32000 * kLogitBytesPerElement;
  return model;
}

Model fsdp::benchmark::makeUnet(int blocks, double pixels) {
  Model model;
  for (int i = 0; i < blocks; ++i) {
    double level = 1 - std::abs(i - blocks / 2. + .5) / (blocks / 2.); // 1 in the middle
    double parameters = 60e6 * std::pow(4, 3 * level - 2);
    double here = pixels * std::pow(4, -2 * level);
    model.blocks.push_back({.parameters = parameters,
                            .forwardFlops = 1.6 * parameters * here + 2e10,
                            .savedBytes = here * 4096 * kBf16,
                            .temporaryBytes = here * 2048 * kBf16,
                            .inputBytes = here * 512});
  }
  model.embeddingParameters = model.headParameters = 2e6;
  model.tokens = 4096;
  model.hidden = 320;
  model.logitBytes = 4096 * 1000 * kLogitBytesPerElement;
  return model;
}

Model fsdp::benchmark::makeVisionTransformer(int blocks, double tokens) {
  Model model;
  for (int i = 0; i < blocks; ++i) {
    double hidden = 2048 * (1 - .5 * i / blocks), parameters = 12 * hidden * hidden;
    model.blocks.push_back({.parameters = parameters,
                            .forwardFlops = 2 * parameters * tokens,
                            .savedBytes = tokens * hidden * 34,
                            .temporaryBytes = tokens * hidden * 8,
                            .inputBytes = tokens * hidden * kBf16});
  }
  model.embeddingParameters = 768 * 2048;
  model.headParameters = 1000 * 1024;
  model.tokens = tokens;
  model.hidden = 2048;
  model.logitBytes = 64 * 1000 * 8;
  return model;
}
