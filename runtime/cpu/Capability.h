//===- Capability.h - Which instructions kernels may use ---------*- C++ -*-===//

#ifndef FSDP_RUNTIME_CAPABILITY_H
#define FSDP_RUNTIME_CAPABILITY_H

#include <cstdint>

namespace fsdp::rt {

enum class Capability : uint8_t { Portable, Avx2, Avx512 };

/// What the processor has, and no more than torch's own kernels use: ATEN_CPU_CAPABILITY, by which
/// torch is told to use less, holds for all.
Capability capability();

} // namespace fsdp::rt

#endif // FSDP_RUNTIME_CAPABILITY_H
