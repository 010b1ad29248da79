//===- Steps.cpp - One training step of a model on a mesh -----------------===//

#include "Steps.h"

#include <algorithm>
#include <cmath>
#include <span>

using namespace fsdp::benchmark;
namespace schedule = fsdp::schedule;
using fsdp::schedule::CollectiveCost;
using fsdp::schedule::Problem;

namespace {

constexpr double kFlopsPerNs = 600e3;
constexpr double kMemoryBytesPerNs = 2500;
constexpr double kShortestOperationNs = 3000;

/// Builds the problem in program order.
class StepBuilder {
public:
  StepBuilder(const Model &model, const Deployment &deployment)
      : model(model), deployment(deployment) {}
  Problem build();

private:
  struct Span {
    uint32_t first, last;
  };

  uint32_t addOperation(double durationNs, double bytes);
  /// Adds, between blocks, an operation that takes no time and holds only activations, so that a
  /// gather can be launched before computation waits for a reduction's memory.
  void addPause() { addOperation(0, activationBytes); }
  /// Adds a block. `segments`: shares of the block's time, each of a few heavy operations between
  /// many light ones; `bytesAt`: live bytes by the completed fraction.
  template <typename BytesAt>
  Span addBlock(double durationNs, int operations, std::span<const double> segments,
                double temporaryBytes, BytesAt bytesAt);
  void addUse(size_t group, Span span);
  void addReduction(size_t group, Span writes);
  void addForward();
  void addHead();
  void addBackward();
  void addUpdates();
  CollectiveCost gatherCost() const;

  double bytesOfGroup(size_t group) const { return 2 * parametersOf[group]; }

  const Model &model;
  const Deployment &deployment;
  Problem problem;
  std::vector<double> parametersOf; // by group
  double stateBytes = 0, activationBytes = 0;
  int64_t previousBytes = 0; // bytes of the latest operation, without gradients
};

} // namespace

uint32_t StepBuilder::addOperation(double durationNs, double bytes) {
  int64_t live = int64_t(std::max(0., bytes) + stateBytes);
  int64_t carried = problem.operations.empty() ? live : std::min(previousBytes, live);
  problem.operations.push_back({durationNs, live, carried});
  previousBytes = live;
  return uint32_t(problem.operations.size() - 1);
}

template <typename BytesAt>
StepBuilder::Span StepBuilder::addBlock(double durationNs, int operations,
                                        std::span<const double> segments, double temporaryBytes,
                                        BytesAt bytesAt) {
  // Two operations, as two matrix products, take 80 % of a segment's time; the others are short.
  constexpr double kHeavyShare = .4;
  auto numSegments = int(segments.size());
  auto first = uint32_t(problem.operations.size());
  int done = 0;
  for (int segment = 0; segment < numSegments; ++segment) {
    int length = operations * (segment + 1) / numSegments - operations * segment / numSegments;
    for (int i = 0; i < length; ++i) {
      bool heavy = length <= 2 || i == length / 4 || i == 3 * length / 4;
      double share = length <= 2 ? 1. / length
                     : heavy     ? kHeavyShare
                                 : (1 - 2 * kHeavyShare) / (length - 2);
      double duration = durationNs * segments[size_t(segment)] * share;
      if (length <= 2)
        duration = std::max(duration, kShortestOperationNs);
      ++done;
      addOperation(duration, bytesAt(double(done - 1) / operations, double(done) / operations) +
                                 temporaryBytes * (heavy ? 1 : .5));
    }
  }
  return {first, uint32_t(problem.operations.size() - 1)};
}

void StepBuilder::addUse(size_t group, Span span) {
  problem.uses.push_back({uint32_t(group), span.first, span.last});
}

void StepBuilder::addReduction(size_t group, Span writes) {
  auto bytes = int64_t(bytesOfGroup(group) * (deployment.reduceInFp32 ? 2 : 1));
  problem.reductions.push_back(
      {uint32_t(group), writes.last + 1, 0, bytes, bytes / deployment.ranks});
  for (uint32_t i = writes.first; i <= writes.last; ++i) {
    problem.operations[i].liveBytes += bytes;
    if (i > writes.first)
      problem.operations[i].carriedBytes += bytes;
  }
}

void StepBuilder::addForward() {
  constexpr double kWeights[] = {.3, .2, .25, .25};
  double input = model.tokens * model.hidden * 2;
  uint32_t embed =
      addOperation(std::max(5000., input / kMemoryBytesPerNs), activationBytes + input);
  addUse(0, {embed, embed});
  activationBytes += input;
  for (size_t i = 0; i < model.blocks.size(); ++i) {
    const Block &block = model.blocks[i];
    addPause();
    addUse(i + 1, addBlock(block.forwardFlops / kFlopsPerNs, deployment.granularity.forward,
                           kWeights, block.temporaryBytes, [&](double, double after) {
                             return activationBytes + block.savedBytes * after;
                           }));
    activationBytes += deployment.recompute ? block.inputBytes : block.savedBytes;
  }
}

void StepBuilder::addHead() {
  size_t group = model.blocks.size() + 1;
  addPause();
  double forward = 2 * model.headParameters * model.tokens / kFlopsPerNs;
  uint32_t first =
      addOperation(std::max(kShortestOperationNs, forward), activationBytes + model.logitBytes / 2);
  addOperation(std::max(5000., model.logitBytes / kMemoryBytesPerNs),
               activationBytes + model.logitBytes);
  uint32_t last =
      addOperation(std::max(kShortestOperationNs, 2 * forward), activationBytes + model.logitBytes);
  addUse(group, {first, last});
  addReduction(group, {last, last});
}

void StepBuilder::addBackward() {
  constexpr double kEven[] = {.25, .25, .25, .25}, kWeights[] = {.25, .25, .2, .3};
  double input = model.tokens * model.hidden * 2;
  for (size_t i = model.blocks.size(); i-- > 0;) {
    const Block &block = model.blocks[i];
    double duration = block.forwardFlops / kFlopsPerNs;
    addPause();
    auto first = uint32_t(problem.operations.size());
    if (deployment.recompute) {
      activationBytes -= block.inputBytes;
      addBlock(duration, deployment.granularity.forward, kEven, block.temporaryBytes,
               [&](double, double after) {
                 return activationBytes + block.inputBytes + block.savedBytes * after;
               });
      activationBytes += block.savedBytes + block.inputBytes;
    }
    Span writes = addBlock(
        2 * duration, deployment.granularity.backward, kWeights, block.temporaryBytes,
        [&](double before, double) { return activationBytes - block.savedBytes * before; });
    activationBytes -= block.savedBytes + (deployment.recompute ? block.inputBytes : 0);
    addUse(i + 1, {first, writes.last});
    addReduction(i + 1, writes);
  }
  addPause();
  uint32_t embed =
      addOperation(std::max(5000., input * 1.5 / kMemoryBytesPerNs), activationBytes + input);
  activationBytes -= input;
  addReduction(0, {embed, embed});
}

void StepBuilder::addUpdates() {
  constexpr double kBytesPerElement = 28; // AdamW reads and writes
  auto firstUpdate = uint32_t(problem.operations.size());
  for (schedule::Reduction &reduction : problem.reductions) {
    double elements = parametersOf[reduction.group] / deployment.ranks;
    reduction.update =
        addOperation(std::max(4000., elements * kBytesPerElement / kMemoryBytesPerNs), 0);
    if (deployment.clipGradients)
      reduction.update = firstUpdate;
  }
}

CollectiveCost StepBuilder::gatherCost() const {
  int ranks = deployment.ranks;
  double latency = 20e3 + (ranks > 8 ? 7e3 * std::log2(ranks / 8.) : 0);
  double bytesPerNs = ranks > 8 ? 300 : 360;
  return {latency, double(ranks - 1) / ranks / bytesPerNs};
}

Problem StepBuilder::build() {
  parametersOf.push_back(model.embeddingParameters);
  for (const Block &block : model.blocks)
    parametersOf.push_back(block.parameters);
  parametersOf.push_back(model.headParameters);
  for (size_t group = 0; group < parametersOf.size(); ++group) {
    std::string name = group == 0                         ? "embedding"
                       : group + 1 == parametersOf.size() ? "head"
                                                          : "blocks." + std::to_string(group - 1);
    problem.groups.push_back({name, int64_t(bytesOfGroup(group)), schedule::KeepRule::Free});
    stateBytes += parametersOf[group] * deployment.stateBytesPerParameter / deployment.ranks;
  }
  addForward();
  addHead();
  addBackward();
  addUpdates();
  problem.meshes[0].gatherCost = problem.meshes[0].reduceCost = gatherCost();
  problem.oneLane = deployment.oneLane;
  problem.onGpus = true;
  problem.contention.lanes = deployment.oneLane ? 1 : deployment.laneContention;
  problem.contention.setOfComputation(deployment.computeContention);
  return std::move(problem);
}

Model fsdp::benchmark::makeDecoder(int layers, double tokens) {
  constexpr double kHidden = 4096, kFeedForward = 14336, kKeyValue = 1024, kVocabulary = 128256;
  constexpr double kBf16 = 2; // bytes
  /// Bytes for logits in bf16, and for their softmax and its gradient in fp32, partly in place.
  constexpr double kLogitBytesPerElement = 6;
  Block block;
  block.parameters = 2 * kHidden * kHidden + 2 * kHidden * kKeyValue + 3 * kHidden * kFeedForward;
  block.forwardFlops = 2 * block.parameters * tokens + 2 * tokens * tokens * kHidden;
  block.savedBytes = tokens * (10 * kHidden + 2 * kKeyValue + 3 * kFeedForward) * kBf16;
  block.temporaryBytes = tokens * (2 * kHidden + kFeedForward);
  block.inputBytes = tokens * kHidden * kBf16;
  Model model;
  model.blocks.assign(size_t(layers), block);
  model.embeddingParameters = model.headParameters = kVocabulary * kHidden;
  model.tokens = tokens;
  model.hidden = kHidden;
  model.logitBytes = tokens * kVocabulary * kLogitBytesPerElement;
  return model;
}

Problem fsdp::benchmark::makeStep(const Model &model, const Deployment &deployment) {
  return StepBuilder(model, deployment).build();
}
