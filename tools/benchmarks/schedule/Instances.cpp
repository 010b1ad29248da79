//===- Instances.cpp - What the scheduler is measured on ------------------===//

#include "Instances.h"
#include "Steps.h"

#include <cmath>
#include <numbers>
#include <random>

using namespace fsdp::benchmark;
using fsdp::schedule::Problem;

namespace {

/// The same numbers from every standard library.
class Random {
public:
  explicit Random(uint64_t seed) : generator(seed) {}
  double uniform(double low, double high) {
    return low + (high - low) * double(generator() >> 11) * 0x1p-53;
  }
  int integer(int low, int high) { return low + int(generator() % uint64_t(high - low + 1)); }
  bool chance(double probability) { return uniform(0, 1) < probability; }
  double normal(double deviation) {
    double radius = std::sqrt(-2 * std::log(1 - uniform(0, 1)));
    return deviation * radius * std::cos(2 * std::numbers::pi * uniform(0, 1));
  }
  template <typename T> T choose(std::initializer_list<T> values) {
    return values.begin()[integer(0, int(values.size()) - 1)];
  }

private:
  std::mt19937_64 generator;
};

class InstanceList {
public:
  void add(std::string name, std::string family, Model model, Deployment deployment) {
    bool slow = deployment.networkSlowdown > 1;
    instances.push_back({(slow ? "slow-" : "") + name, std::move(family), slow,
                         [=] { return makeStep(model, deployment); }});
  }
  void addRandom(uint64_t seed, Granularity granularity);
  void addTiny(uint64_t seed);

  std::vector<Instance> instances;
};

} // namespace

/// Any shape of network: compute from much faster to much slower than communication, groups from
/// alike to very unlike.
void InstanceList::addRandom(uint64_t seed, Granularity granularity) {
  Random random(seed);
  Deployment deployment{.ranks = random.choose({8, 16, 64, 256, 1024}),
                        .recompute = random.chance(.3),
                        .reduceInFp32 = random.chance(.4),
                        .clipGradients = random.chance(.2),
                        .oneLane = random.chance(1. / 3),
                        .laneContention = random.choose({1., 1., 1.5, 2.}),
                        .computeContention = random.choose({1., 1.07, 1.15}),
                        .granularity = granularity};
  double computeOverNetwork = std::pow(10, random.uniform(-.5, .7));
  double scale = std::pow(10, random.uniform(6.5, 8.6));
  double deviation = random.choose({.3, .8, 1.5});
  Model model;
  for (int i = random.integer(6, 40); i > 0; --i) {
    double parameters = scale * std::exp(random.normal(deviation));
    double gatherNs = parameters * 2 / 330;
    model.blocks.push_back(
        {.parameters = parameters,
         .forwardFlops = gatherNs * computeOverNetwork * std::exp(random.normal(.4)) * 600e3,
         .savedBytes = parameters * 2 * std::pow(10, random.uniform(-1, .7)),
         .temporaryBytes = parameters * 2 * random.uniform(.05, .5),
         .inputBytes = 4096 * 1024 * 2});
  }
  model.embeddingParameters = scale * random.uniform(.1, 2);
  model.headParameters = scale * random.uniform(.1, 2);
  model.tokens = 4096;
  model.hidden = 1024;
  model.logitBytes = scale * 2 * random.uniform(.1, 3);
  std::string name = "random-" + std::to_string(seed) + (granularity.forward < 10 ? "-coarse" : "");
  add(name, "random", std::move(model), deployment);
}

/// Few blocks of few operations, whose collectives are mostly latency.
void InstanceList::addTiny(uint64_t seed) {
  Random random(1000 + seed);
  double computeOverNetwork = std::pow(10, random.uniform(-.4, .5));
  double scale = std::pow(10, random.uniform(6.3, 8.5));
  double deviation = random.choose({0., .3, 1.});
  Model model;
  for (int i = random.integer(3, 6); i > 0; --i) {
    double parameters = scale * std::exp(random.normal(deviation));
    double gatherNs = parameters * 2 / 410;
    model.blocks.push_back(
        {.parameters = parameters,
         .forwardFlops = gatherNs * computeOverNetwork * std::exp(random.normal(.3)) * 600e3,
         .savedBytes = parameters * 2 * random.uniform(.1, 2),
         .temporaryBytes = parameters * 2 * random.uniform(.05, .3)});
  }
  model.embeddingParameters = scale * random.uniform(.1, 1);
  model.headParameters = scale * random.uniform(.1, 1);
  model.tokens = 4096;
  model.hidden = 1024;
  model.logitBytes = scale * 2 * random.uniform(.1, 2);
  add("tiny-" + std::to_string(seed), "tiny", std::move(model),
      {.reduceInFp32 = random.chance(.4), .granularity = {2, 2}});
}

static void addDecoders(InstanceList &list) {
  auto llama = [&](std::string name, const DecoderShape &shape, double tokens, bool chunked,
                   Deployment deployment) {
    list.add("llama-" + name, "llama", makeLlama(shape, tokens, chunked), deployment);
  };
  for (int tokens : {1024, 2048, 4096, 8192})
    for (bool recompute : {false, true})
      llama("8b-8-ranks-" + std::to_string(tokens) + (recompute ? "-recompute" : ""), kLlama8B,
            tokens, false, {.ranks = 8, .recompute = recompute});
  llama("8b-one-lane", kLlama8B, 2048, false, {.oneLane = true});
  llama("8b-one-lane-contended", kLlama8B, 4096, false,
        {.oneLane = true, .computeContention = 1.1});
  llama("8b-64-ranks-fp32-reduce", kLlama8B, 2048, false,
        {.ranks = 64, .reduceInFp32 = true, .computeContention = 1.15});
  llama("8b-64-ranks-shared-links", kLlama8B, 4096, true,
        {.ranks = 64, .reduceInFp32 = true, .laneContention = 1.5});
  llama("8b-hybrid", kLlama8B, 4096, false, {.ranks = 16, .replicas = 2});
  llama("8b-4-microbatches", kLlama8B, 2048, false, {.recompute = true, .microbatches = 4});
  llama("8b-clip", kLlama8B, 2048, false, {.clipGradients = true});
  llama("8b-coarse", kLlama8B, 2048, false, {.granularity = kCoarse});
  llama("8b-coarse-recompute", kLlama8B, 4096, false, {.recompute = true, .granularity = kCoarse});

  llama("70b-32-ranks", kLlama70B, 2048, false, {.ranks = 32, .recompute = true});
  llama("70b-32-ranks-one-lane", kLlama70B, 4096, true,
        {.ranks = 32,
         .recompute = true,
         .reduceInFp32 = true,
         .oneLane = true,
         .computeContention = 1.05});
  llama("70b-64-ranks", kLlama70B, 4096, true, {.ranks = 64, .computeContention = 1.1});
  llama("70b-256-ranks", kLlama70B, 4096, true,
        {.ranks = 256, .recompute = true, .reduceInFp32 = true});
  llama("70b-256-ranks-one-lane", kLlama70B, 8192, false,
        {.ranks = 256, .recompute = true, .reduceInFp32 = true, .oneLane = true});
  llama("70b-512-ranks-one-lane", kLlama70B, 2048, false,
        {.ranks = 512, .oneLane = true, .computeContention = 1.15});

  llama("405b-512-ranks", kLlama405B, 4096, true,
        {.ranks = 512, .recompute = true, .reduceInFp32 = true});
  llama("405b-1024-ranks", kLlama405B, 8192, true,
        {.ranks = 1024, .recompute = true, .computeContention = 1.1});
  llama("405b-1024-ranks-one-lane", kLlama405B, 4096, true,
        {.ranks = 1024, .recompute = true, .reduceInFp32 = true, .oneLane = true});
  llama("405b-1024-ranks-short", kLlama405B, 2048, true, {.ranks = 1024, .recompute = true});

  // Ethernet of 25 to 100 Gbit/s, or PCIe.
  llama("8b-32-ranks", kLlama8B, 4096, false, {.ranks = 32, .networkSlowdown = 4});
  llama("8b-32-ranks-one-lane", kLlama8B, 4096, false,
        {.ranks = 32,
         .recompute = true,
         .reduceInFp32 = true,
         .oneLane = true,
         .networkSlowdown = 4});
  llama("8b-8-ranks-contended", kLlama8B, 2048, false,
        {.computeContention = 1.1, .networkSlowdown = 4});
  llama("70b-64-ranks-recompute", kLlama70B, 2048, true,
        {.ranks = 64, .recompute = true, .networkSlowdown = 3});
  llama("70b-64-ranks-one-lane", kLlama70B, 4096, false,
        {.ranks = 64, .oneLane = true, .computeContention = 1.05, .networkSlowdown = 3});
}

static void addOthers(InstanceList &list) {
  auto gpt2 = [&](std::string name, Model model, Deployment deployment) {
    list.add("gpt2-" + name, "gpt2", std::move(model), deployment);
  };
  gpt2("8-ranks-8192", makeGpt2(12, 768, 8192), {});
  gpt2("8-ranks-1024", makeGpt2(12, 768, 1024), {});
  gpt2("one-lane", makeGpt2(12, 768, 4096), {.oneLane = true, .computeContention = 1.1});
  gpt2("64-ranks", makeGpt2(12, 768, 4096), {.ranks = 64});
  gpt2("xl-8-ranks", makeGpt2(48, 1600, 4096), {});
  gpt2("xl-64-ranks", makeGpt2(48, 1600, 2048),
       {.ranks = 64, .reduceInFp32 = true, .oneLane = true});
  gpt2("xl-coarse", makeGpt2(48, 1600, 4096), {.granularity = kCoarse});
  gpt2("xl-16-ranks", makeGpt2(48, 1600, 8192), {.ranks = 16, .networkSlowdown = 5});

  auto moe = [&](std::string name, Model model, Deployment deployment) {
    list.add("moe-" + name, "moe", std::move(model), deployment);
  };
  moe("8-ranks", makeMixtureOfExperts(16, 2048, 1408, 32, 4, 4096), {});
  moe("64-ranks", makeMixtureOfExperts(24, 4096, 1536, 64, 6, 8192),
      {.ranks = 64, .recompute = true, .computeContention = 1.1});
  moe("256-ranks-one-lane", makeMixtureOfExperts(24, 4096, 1536, 64, 6, 16384),
      {.ranks = 256, .recompute = true, .reduceInFp32 = true, .oneLane = true});
  moe("8-large-experts", makeMixtureOfExperts(8, 4096, 14336, 8, 2, 8192), {.recompute = true});
  moe("coarse", makeMixtureOfExperts(16, 2048, 1408, 32, 4, 4096), {.granularity = kCoarse});
  moe("64-ranks", makeMixtureOfExperts(16, 4096, 1536, 64, 6, 8192),
      {.ranks = 64, .recompute = true, .networkSlowdown = 3});

  list.add("unet-8-ranks", "unet", makeUnet(20, 65536), {});
  list.add("unet-64-ranks-one-lane", "unet", makeUnet(20, 32768),
           {.ranks = 64, .oneLane = true, .computeContention = 1.1});
  list.add("unet-16-ranks-recompute", "unet", makeUnet(32, 65536),
           {.ranks = 16, .recompute = true, .reduceInFp32 = true});
  list.add("vit-8-ranks", "vit", makeVisionTransformer(32, 16384), {});
  list.add("vit-32-ranks-recompute", "vit", makeVisionTransformer(32, 4096),
           {.ranks = 32, .recompute = true, .computeContention = 1.07});
  list.add("vit-32-ranks-one-lane", "vit", makeVisionTransformer(32, 8192),
           {.ranks = 32, .reduceInFp32 = true, .oneLane = true});
  list.add("vit-16-ranks", "vit", makeVisionTransformer(32, 4096),
           {.ranks = 16, .networkSlowdown = 4});
}

std::vector<Instance> fsdp::benchmark::makeInstances() {
  InstanceList list;
  addDecoders(list);
  addOthers(list);
  for (uint64_t seed = 0; seed < 24; ++seed)
    list.addRandom(seed, seed % 3 == 2 ? kCoarse : kFine);
  for (uint64_t seed = 0; seed < 8; ++seed)
    list.addTiny(seed);
  return std::move(list.instances);
}

Problem fsdp::benchmark::makeDeepDecoder(int layers, double tokens) {
  DecoderShape shape = kLlama8B;
  shape.layers = layers;
  return makeStep(makeLlama(shape, tokens, false), {});
}
