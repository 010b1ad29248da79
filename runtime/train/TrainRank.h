//===- TrainRank.h - One rank's run ------------------------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_TRAINRANK_H
#define FSDP_RUNTIME_TRAINRANK_H

#include "comm/Agreement.h"
#include "device/Device.h"
#include "plan/PlanView.h"
#include "train/TrainOptions.h"

namespace fsdp::rt {

/// Runs this rank from opening the data to saving the weights, on the calling thread. If anything
/// fails, on this rank or another, every rank returns an error. Does not throw.
Outcome trainRank(const PlanView &plan, const TrainOptions &options, const char *backend,
                  Device &device, Communicator &communicator);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_TRAINRANK_H
