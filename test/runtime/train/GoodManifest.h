//===- GoodManifest.h - A checkpoint's manifest of a run ---*- C++ -*-===//

#ifndef FSDP_TEST_GOODMANIFEST_H
#define FSDP_TEST_GOODMANIFEST_H

#include "checkpoint/Manifest.h"

namespace fsdp::test {

/// Of a run of 4 ranks, in 2 replicas, that shuffles, skips outliers, scales its loss and
/// evaluates.
inline rt::Manifest goodManifest() {
  rt::Manifest manifest;
  manifest.model = "tiny";
  manifest.fingerprint = "0123456789abcdef";
  manifest.optimizer = "adamw";
  manifest.ranks = 4;
  manifest.replicas = 2;
  manifest.step = 7;
  manifest.steps = 9;
  manifest.samples = 56;
  manifest.samplesInData = 40;
  manifest.shuffle = manifest.overfit = true;
  manifest.seed = UINT64_MAX;
  manifest.schedule = "cosine";
  manifest.learningRate = 0.1;
  manifest.minimumLearningRate = 1.0 / 3;
  manifest.warmupSteps = 2;
  manifest.decaySteps = 3;
  manifest.clipGradNorm = 0.5;
  manifest.clipNormType = "inf";
  manifest.skippedSteps = 2;
  manifest.lossScale = 8192;
  manifest.growthTracker = 5;
  manifest.evalSplit = 0.1;
  manifest.evalSplitSeed = 9;
  manifest.skipOutliers = 3.5;
  manifest.guardLosses = {1.0 / 3, 2};
  manifest.guardNorms = {1e-300};
  manifest.files = {{"a.safetensors", 10, 0xffffffff}, {"b.safetensors", 20, 3}};
  return manifest;
}

} // namespace fsdp::test

#endif // FSDP_TEST_GOODMANIFEST_H
