//===- NetworkDevice.cpp - The network address for gloo -------------------===//

#include "comm/NetworkDevice.h"
#include "comm/MappedMemory.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>

using namespace fsdp::rt;

Result<std::string> fsdp::rt::localAddressTowards(const std::string &host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo *found = nullptr;
  if (int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    return Status::error("cannot resolve MASTER_ADDR '" + host + "': " + gai_strerror(error));
  std::unique_ptr<addrinfo, void (*)(addrinfo *)> addresses(found, &freeaddrinfo);
  int error = 0;
  for (addrinfo *address = found; address; address = address->ai_next) {
    // Connecting a datagram socket only consults the routing table.
    FileDescriptor socket(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    char digits[NI_MAXHOST];
    if (socket.valid() && ::connect(socket.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        getsockname(socket.get(), reinterpret_cast<sockaddr *>(&own), &length) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr *>(&own), length, digits, sizeof(digits), nullptr, 0,
                    NI_NUMERICHOST) == 0)
      return std::string(digits);
    error = errno;
  }
  return Status::error("no network leads to MASTER_ADDR '" + host + "': " + std::strerror(error));
}
