//===- Manifest.h - The manifest of a checkpoint -------------- -*- C++ -*-===//
//
// checkpoint.json, which rank 0 writes when all files of a checkpoint are on disk: a folder without
// it is not complete. It lists the files, with sizes and checksums, and holds the state that is not
// in tensors. Random numbers and the order of samples are functions of the seed and the step
// number.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_MANIFEST_H
#define FSDP_RUNTIME_MANIFEST_H

#include "Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::rt {

inline constexpr const char *kManifestName = "checkpoint.json";

struct ManifestFile {
  std::string name; // in the checkpoint's folder
  uint64_t bytes = 0;
  uint32_t checksum = 0; // CRC-32C
};

struct Manifest {
  // The compiled program.
  std::string model;
  std::string fingerprint; // of the plan
  std::string optimizer;
  unsigned ranks = 1, replicas = 1;
  // The progress of the run.
  int64_t step = 0;         // the last step that has run
  int64_t steps = 0;        // of the whole run
  int64_t skippedSteps = 0; // steps up to `step` without update: the optimizer does not count them
  int64_t samples = 0;      // that all ranks have read; a run with one shape of samples goes on
                            // behind them in its order of samples
  // The options that determine how the run goes on.
  int64_t samplesInData = 0;
  struct Shape {
    int64_t samplesPerStep = 0, samplesInData = 0;
    bool operator==(const Shape &) const = default;
  };
  std::vector<Shape> shapes;  // for a run with several shapes of samples
  double evalSplit = 0;       // fraction of the samples that is held out for evaluations
  uint64_t evalSplitSeed = 0; // seed that chooses these samples
  bool shuffle = false, overfit = false;
  uint64_t seed = 0;
  std::string schedule; // of the learning rate: "cosine"
  double learningRate = 0, minimumLearningRate = 0;
  std::vector<double> groupLearningRates; // of the optimizer's groups, in the plan's order
  int64_t warmupSteps = 0, decaySteps = 0;
  double clipGradNorm = 0;  // 0: gradients are not clipped by norm
  std::string clipNormType; // "1", "2", "inf"; "" where gradients are not clipped by norm
  double clipGradValue = 0; // 0: elements of gradients are not clipped

  // The loss scale of the next step, and the steps in a row whose gradients were finite; 0: the run
  // does not scale its loss.
  double lossScale = 0;
  int64_t growthTracker = 0;

  // Values of --stop-outliers and --skip-outliers; 0: the flag is not given.
  double stopOutliers = 0, skipOutliers = 0;
  // Losses and gradient norms that these flags compare the next step with, the oldest first.
  std::vector<double> guardLosses, guardNorms;

  std::vector<ManifestFile> files;
};

/// The sum of the files' sizes.
int64_t totalBytes(const std::vector<ManifestFile> &files);

std::string formatManifest(const Manifest &manifest);

/// Reads what formatManifest() wrote; the text is not trusted. Errors name the key.
Result<Manifest> parseManifest(const std::string &text);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_MANIFEST_H
