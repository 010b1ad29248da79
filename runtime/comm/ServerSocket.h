//===- ServerSocket.h - The socket of the rendezvous server --- -*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_SERVERSOCKET_H
#define FSDP_RUNTIME_COMM_SERVERSOCKET_H

#include "comm/MappedMemory.h"

#include <cstdint>
#include <string>

namespace fsdp::rt {

/// A TCP socket bound to `port` of the address that `host` names, for a server that can be reached
/// at that address only: a server on a loopback address is not visible to the network. None if the
/// address cannot be decided here, so that all interfaces must be served: for names other than
/// localhost, which other hosts may resolve to another address of this host, and for addresses that
/// no interface has (of a proxy in front of this host). An error says why the port is not
/// available.
Result<FileDescriptor> bindWhereNamed(const std::string &host, uint16_t port);

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_SERVERSOCKET_H
