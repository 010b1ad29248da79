// Named by c10d's header, in pointers; see ../context.h.
#pragma once
#include <memory>

namespace gloo::transport {
class Device;
class UnboundBuffer;
} // namespace gloo::transport
