//===- NetworkDevice.h - The network address for gloo --------- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_NETWORKDEVICE_H
#define FSDP_RUNTIME_COMM_NETWORKDEVICE_H

#include "Status.h"

#include <cstdint>
#include <string>

namespace fsdp::rt {

/// The numeric address of this host from which it reaches `host`: the address of an interface that
/// the peers of a run can reach, too. Sends nothing.
Result<std::string> localAddressTowards(const std::string &host, uint16_t port);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_NETWORKDEVICE_H
