//===- context.h - What c10d's gloo header needs of gloo ---------*- C++ -*-===//
//
// libtorch_cpu contains gloo and exports c10d::ProcessGroupGloo, but torch's package ships without
// gloo's headers, which c10d's header includes. These files declare what that header names, and the
// one function of gloo that the project calls itself. No object of these types is ever made, copied
// or destroyed through them: only pointers that libtorch hands out.
//
//===----------------------------------------------------------------------===//
#pragma once
#include <chrono>
#include <memory>

#include <gloo/transport/device.h>

namespace gloo {
class Context {
public:
  Context() = delete;
  void setTimeout(std::chrono::milliseconds timeout);
  void closeConnections();
};
} // namespace gloo
