//===- NetworkPresets.h - Networks that come with the compiler ---*- C++ -*-===//

#ifndef FSDP_LIB_COSTMODEL_NETWORKPRESETS_H
#define FSDP_LIB_COSTMODEL_NETWORKPRESETS_H

#include "fsdp/CostModel/Network.h"

namespace fsdp::cost {

const std::vector<Network> &getNetworkPresets();

} // namespace fsdp::cost

#endif // FSDP_LIB_COSTMODEL_NETWORKPRESETS_H
