//===- ResumedOptions.h - Options from a checkpoint ----------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_RESUMEDOPTIONS_H
#define FSDP_RUNTIME_RESUMEDOPTIONS_H

#include "checkpoint/Manifest.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// Takes options that the command line does not set from the checkpoint: steps, seed, order of
/// samples, learning rate, clipping. If both set an option, the command line wins. The result has a
/// line for people for each such difference, and for a binary that was compiled differently. Fails
/// for another model or optimizer, and for invalid values.
Result<std::vector<std::string>> takeOver(const Manifest &manifest, const PlanView &plan,
                                          TrainOptions &options);

/// The manifest of a run, without its progress: step, steps and samples.
Manifest manifestOf(const PlanView &plan, const TrainOptions &options);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RESUMEDOPTIONS_H
