//===- MeasuredCosts.h - A cost model of measurements in memory --*- C++ -*-===//

#ifndef FSDP_COSTMODEL_MEASUREDCOSTS_H
#define FSDP_COSTMODEL_MEASUREDCOSTS_H

#include "fsdp/CostModel/Network.h"
#include "fsdp/CostModel/Profile.h"

namespace fsdp::cost {

/// As CostModel::create, but of a profile and a network that need not be in files. An error if the
/// profile's device is unknown.
llvm::Expected<std::unique_ptr<CostModel>> createCostModel(Profile profile, Network network);

} // namespace fsdp::cost

#endif // FSDP_COSTMODEL_MEASUREDCOSTS_H
