//===- Exceptions.h - LibTorch's exceptions as errors ------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_EXCEPTIONS_H
#define FSDP_RUNTIME_COMM_EXCEPTIONS_H

#include <exception>
#include <string>

namespace fsdp::rt {

/// The first line of what an exception says: the rest is a C++ stack trace.
inline std::string firstLine(const std::exception &exception) {
  std::string text = exception.what();
  return text.substr(0, text.find('\n'));
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_EXCEPTIONS_H
