//===- RunnableLevels.h - Instruction sets of this machine -------*- C++ -*-===//

#ifndef FSDP_TEST_CODEGEN_RUNNABLELEVELS_H
#define FSDP_TEST_CODEGEN_RUNNABLELEVELS_H

namespace fsdp::test {

/// Levels of FSDP_NUM_KERNEL_LEVELS that this machine runs.
inline unsigned getNumRunnableLevels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4"))
    return 3;
  if (__builtin_cpu_supports("x86-64-v3"))
    return 2;
#endif
  return 1;
}

} // namespace fsdp::test

#endif // FSDP_TEST_CODEGEN_RUNNABLELEVELS_H
