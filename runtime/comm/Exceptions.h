//===- Exceptions.h - LibTorch's exceptions as errors ------------*- C++ -*-===//

#ifndef FSDP_RUNTIME_COMM_EXCEPTIONS_H
#define FSDP_RUNTIME_COMM_EXCEPTIONS_H

#include <exception>
#include <string>

namespace fsdp::rt {

/// The first line of an exception's message, without LibTorch's source locations
/// ("[/pytorch/.../pair.cc:538] "). The other lines are a C++ stack trace.
inline std::string firstLine(const std::exception &exception) {
  std::string text = exception.what();
  text = text.substr(0, text.find('\n'));
  for (size_t begin; (begin = text.find("[/")) != std::string::npos;) {
    size_t end = text.find(']', begin);
    if (end == std::string::npos)
      break;
    text.erase(begin, text.compare(end, 2, "] ") == 0 ? end + 2 - begin : end + 1 - begin);
  }
  return text;
}

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_COMM_EXCEPTIONS_H
