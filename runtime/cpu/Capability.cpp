//===- Capability.cpp - The instruction set that kernels may use ----------===//

#include "cpu/Capability.h"

#include <ATen/Version.h>

using namespace fsdp::rt;

static Capability find() {
#if defined(__x86_64__)
  const std::string torchs = at::get_cpu_capability();
  if (torchs == "AVX512" && __builtin_cpu_supports("x86-64-v4"))
    return Capability::Avx512;
  if ((torchs == "AVX512" || torchs == "AVX2") && __builtin_cpu_supports("x86-64-v3"))
    return Capability::Avx2;
#endif
  return Capability::Portable;
}

Capability fsdp::rt::capability() {
  static const Capability found = find();
  return found;
}
