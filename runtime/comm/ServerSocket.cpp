//===- ServerSocket.cpp - The socket of the rendezvous server -------------===//

#include "comm/ServerSocket.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>

using namespace fsdp::rt;

Result<FileDescriptor> fsdp::rt::bindWhereNamed(const std::string &host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (host == "localhost" ? 0 : AI_NUMERICHOST);
  addrinfo *found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return FileDescriptor();
  std::unique_ptr<addrinfo, void (*)(addrinfo *)> addresses(found, &freeaddrinfo);
  for (addrinfo *address = found; address; address = address->ai_next) {
    FileDescriptor socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (!socket.valid() || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
      continue;
    if (bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0)
      return socket;
    if (errno != EADDRNOTAVAIL)
      return Status::error("cannot listen at " + host + " port " + std::to_string(port) + ": " +
                           std::strerror(errno));
  }
  return FileDescriptor();
}
