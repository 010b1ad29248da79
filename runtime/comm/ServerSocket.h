//===- ServerSocket.h - Where the rendezvous is served -----------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_SERVERSOCKET_H
#define FSDP_RUNTIME_COMM_SERVERSOCKET_H

#include "comm/MappedMemory.h"

#include <cstdint>
#include <string>

namespace fsdp::rt {

/// A TCP socket bound to `port` of the address that `host` names, for a server that is to be
/// reached there only: a loopback address is not served to the network. None where the address
/// cannot be told from here, and all interfaces have to be served: names other than localhost,
/// which other hosts may resolve to another address of this host, and addresses that no interface
/// has (of a proxy in front of it). An error says why the port cannot be had.
Result<FileDescriptor> bindWhereNamed(const std::string &host, uint16_t port);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_SERVERSOCKET_H
