//===- ResumedOptions.h - What a checkpoint says of its run ------*- C++ -*-===//

#ifndef FSDP_RUNTIME_RESUMEDOPTIONS_H
#define FSDP_RUNTIME_RESUMEDOPTIONS_H

#include "checkpoint/Manifest.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// Takes from the checkpoint what the command line does not say: steps, seed, order of samples,
/// learning rate, clipping. Where both say something else, the command line holds; the result is a
/// line for people about each such difference, and about a binary that was compiled otherwise.
/// Fails for another model or optimizer, and for values that no run can have.
Result<std::vector<std::string>> takeOver(const Manifest &manifest, const PlanView &plan,
                                          TrainOptions &options);

/// What a checkpoint is to say of a run, but for where the run is: step, steps and samples.
Manifest manifestOf(const PlanView &plan, const TrainOptions &options);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_RESUMEDOPTIONS_H
