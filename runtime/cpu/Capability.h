//===- Capability.h - The instruction set that kernels may use -*- C++ -*-===//

#ifndef FSDP_RUNTIME_CAPABILITY_H
#define FSDP_RUNTIME_CAPABILITY_H

#include <cstdint>

namespace fsdp::rt {

enum class Capability : uint8_t { Portable, Avx2, Avx512 };

/// The processor's instruction set, limited to the one that torch's own kernels use:
/// ATEN_CPU_CAPABILITY, which limits torch, limits the runtime's kernels, too.
Capability capability();

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CAPABILITY_H
