//===- context.h - Declarations of gloo for c10d's header ----- -*- C++ -*-===//
//
// libtorch_cpu contains gloo and exports c10d::ProcessGroupGloo, but torch's package lacks gloo's
// headers, which c10d's header includes. These files declare the names that c10d's header uses, and
// the one function of gloo that the project calls. Objects of these types are never made, copied or
// destroyed through these declarations; only pointers from libtorch are used.
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
